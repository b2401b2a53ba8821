# Outputs that cannot be written: refused before the work, with code 2, where that can be known, else code 1; nothing half
# made is left.
. "$COMMON"

tiny --out no/such/folder/v.mp4
expect_code 2
expect_says no/such/folder
expect_silent_about begins
tiny --out /proc/v.mp4
expect_code 2
expect_silent_about begins
tiny --latents-out no/such/folder/l.safetensors
expect_code 2
expect_silent_about begins
tiny --frames-out no/such/folder/frames
expect_code 2
expect_silent_about begins
mkdir folder.mp4
tiny --out folder.mp4
expect_code 2
expect_says folder.mp4
: >file
tiny --frames-out file
expect_code 2
expect_says file
expect_silent_about begins

# Several frames do not fit into one picture.
for name in v.png v.PNG; do
    tiny --out $name
    expect_code 2
    expect_says 'holds one frame'
    expect_no_files $name
done
expect_no_parts

# An old video stays until the new one is whole, then goes.
echo old >v.mp4
tiny --out v.mp4 --image missing.png
expect_code 3
expect_equal "the old file" "$(cat v.mp4)" old
tiny --out v.mp4
expect_code 0
expect_equal "video" "$("$TOOL" probe v.mp4)" "64 48 5"

# The reader of the pipe goes away.
said="a pipe that nobody reads"
{
    "$ZOE" generate --model "$CKPT" --image "$IMAGE" --size 64x64 --frames 33 --steps 1 --threads 1 --out - 2>stderr
    echo $? >code
} | head -c 20 >stdout
code=$(cat code)
expect_code 1
expect_says 'standard output'

# A full disk.
if [ -w /dev/full ]; then
    said="/dev/full"
    "$ZOE" generate --model "$CKPT" --image "$IMAGE" --size 64x64 --frames 5 --steps 1 --threads 1 --out - >/dev/full 2>stderr
    code=$?
    expect_code 1
    expect_says 'No space left'
fi

# Closed standard streams do not end up in the video.
said="closed streams"
"$ZOE" generate --model "$CKPT" --image "$IMAGE" --prompt "A white cat sits." --negative-prompt blurry --size 64x64 \
    --frames 5 --steps 2 --seed 1 --threads 1 --out w.mp4 <&- >&- 2>&-
code=$?
: >stderr
expect_code 0
expect_same v.mp4 w.mp4
"$ZOE" generate --model "$CKPT" --image "$IMAGE" --size 64x64 --frames 5 --steps 1 --threads 1 --out - 2>stderr >&-
code=$?
expect_code 2

# A random seed is said and repeats the run.
tiny --seed -1 --latents-out a.safetensors --no-metadata
expect_code 0
seed=$(sed -n 's/.*seed \([0-9]*\), in .*/\1/p' stderr)
tiny --seed "$seed" --latents-out b.safetensors --no-metadata
expect_code 0
expect_same a.safetensors b.safetensors

# A limit of the size of files is an error like a full disk, and leaves nothing behind.
said="a size limit of files"
(ulimit -f 1; exec "$ZOE" generate --model "$CKPT" --image "$IMAGE" --prompt x --size 64x64 --frames 5 --steps 1 \
    --seed 1 --threads 1 --frames-out limited --out limited.y4m) >stdout 2>stderr
code=$?
expect_code 1
expect_no_files limited limited.y4m
expect_no_parts
finish
