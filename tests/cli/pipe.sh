# --out -: a Y4M video on standard output and nothing else there.
. "$COMMON"

tiny --out v.y4m
expect_code 0
for style in plain json none; do
    tiny --out - --progress $style
    expect_code 0
    expect_same stdout v.y4m
done
tiny --out - --dry-run
expect_code 0
expect_nothing_on_stdout

# Through a program that reads it.
said='zoe | cat'
{ "$ZOE" generate --model "$CKPT" --image "$IMAGE" --prompt "A white cat sits." --size 64x64 --frames 5 \
    --negative-prompt blurry --steps 2 --seed 1 --threads 1 --out - 2>stderr; } | cat >piped
expect_same piped v.y4m

# A reader that goes away: code 1, one sentence, and the other output is not half made.
said='zoe | head'
{
    "$ZOE" generate --model "$CKPT" --image "$IMAGE" --size 64x64 --frames 33 --steps 1 --threads 1 --frames-out frames \
        --progress none --out - 2>stderr
    echo $? >code
} | head -c 100 >stdout
code=$(cat code)
expect_code 1
expect_says 'cannot write to standard output: Broken pipe'
expect_no_files frames
expect_no_parts

# A failure leaves nothing there.
tiny --image missing.png --out -
expect_code 3
expect_nothing_on_stdout

# Something called "-" is still within reach.
tiny --latents-out ./- --no-metadata
expect_code 0
expect_files ./-
finish
