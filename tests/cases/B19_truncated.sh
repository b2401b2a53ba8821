# A file that is cut short is refused with its name, its size and the size wanted; one that shrinks while it is used ends
# the run with a sentence, not with a crash.
. "$COMMON"

# size FILE: its bytes.
size() {
    wc -c <"$1" | tr -d ' '
}
# cut FILE BYTES WORDS...: FILE of a fresh checkpoint, cut after BYTES.
cut_after() {
    file=$1 kept=$2
    shift 2
    head -c "$kept" "$CKPT/$file" >"ckpt/$file"
    tiny --model ckpt --out v.mp4
    expect_code 3
    expect_says "ckpt/$file: has $kept bytes"
    for word in "$@"; do
        expect_says "$word"
    done
    expect_no_files v.mp4
    cp "$CKPT/$file" "ckpt/$file"
}
cp -r "$CKPT" ckpt

for file in low_noise_model/diffusion_pytorch_model.safetensors \
    high_noise_model/diffusion_pytorch_model-00001-of-00002.safetensors; do
    bytes=$(size "$CKPT/$file")
    # The first eight bytes are the header's length.
    header=$(($(od -An -N4 -tu4 "$CKPT/$file" | tr -d ' ')))
    cut_after $file 4 'a safetensors file has at least 10' 'cut short'
    cut_after $file 8 "its header alone ends at $((8 + header))" 'cut short'
    cut_after $file $((8 + header / 2)) "its header alone ends at $((8 + header))" 'cut short'
    cut_after $file $((8 + header)) "its header describes $bytes" 'cut short'
    cut_after $file $(((8 + header + bytes) / 2)) "its header describes $bytes" 'cut short'
    cut_after $file $((bytes - 1)) "its header describes $bytes" 'cut short'
done
for file in Wan2.1_VAE.pth models_t5_umt5-xxl-enc-bf16.pth; do
    bytes=$(size "$CKPT/$file")
    cut_after $file 4 'cut short' 'more than 4 bytes are wanted'
    cut_after $file 8 'cut short' 'more than 8 bytes are wanted'
    # The directory, a .pth's header, is at its end.
    cut_after $file $((bytes / 2)) 'cut short' "more than $((bytes / 2)) bytes are wanted"
    cut_after $file $((bytes - 1)) 'cut short' "more than $((bytes - 1)) bytes are wanted"
done

# ---- while it is mapped ----

# begin TEXT OPTIONS: a long run in the background, until TEXT is said; then `end` waits for it.
begin() {
    text=$1
    shift
    said="a run until \"$text\" with $*"
    : >stderr
    "$ZOE" generate --model ckpt --image "$IMAGE" --prompt cat --size 64x64 --frames 5 --solver euler --seed 1 \
        --progress plain "$@" >stdout 2>stderr &
    child=$!
    tries=0
    until grep -qF -- "$text" stderr; do
        tries=$((tries + 1))
        if [ $tries -gt 3000 ] || ! kill -0 $child 2>/dev/null; then
            bad "\"$text\" was never said"
            return
        fi
        sleep 0.01
    done
}
end() {
    wait $child
    code=$?
}

echo old >v.mp4
for file in low_noise_model/diffusion_pytorch_model.safetensors \
    high_noise_model/diffusion_pytorch_model-00002-of-00002.safetensors; do
    for threads in 1 3; do
        begin 'steps 2/' --steps 4000 --boundary "$(case $file in low*) echo 1 ;; *) echo 0 ;; esac)" \
            --threads $threads --out v.mp4 --frames-out frames --latents-out l.safetensors
        truncate -s 100 ckpt/$file
        end
        expect_code 3
        expect_says "ckpt/$file: cannot be read any more: the file became shorter"
        expect_equal "the old file" "$(cat v.mp4)" old
        expect_no_files frames l.safetensors
        expect_no_parts
        cp "$CKPT/$file" ckpt/$file
    done
done

# The same as a line of JSON, with a file name that needs care.
mv ckpt/low_noise_model "$(printf 'ckpt/a "b" \\ c')"
begin '"phase":"steps","done":2' --progress json --steps 4000 --boundary 1 --threads 1 \
    --low-noise "$(printf 'ckpt/a "b" \\ c')" --out v.mp4 --model "$CKPT"
truncate -s 100 "$(printf 'ckpt/a "b" \\ c')"/diffusion_pytorch_model.safetensors
end
expect_code 3
"$TOOL" json stderr || bad "not every line is a JSON event"
expect_equal exit "$("$TOOL" get stderr error exit)" 3
rm -r ckpt
cp -r "$CKPT" ckpt

# A file that is not in use at that moment: found before the next phase touches it.
begin 'steps begins' --steps 400 --threads 1 --out v.mp4
truncate -s 1000 ckpt/Wan2.1_VAE.pth
end
expect_code 3
expect_says "ckpt/Wan2.1_VAE.pth: shrank from $(size "$CKPT/Wan2.1_VAE.pth") to 1000 bytes while in use"
expect_equal "the old file" "$(cat v.mp4)" old
expect_no_parts
cp "$CKPT/Wan2.1_VAE.pth" ckpt

# Another file under the same name does not matter: the run keeps what it opened.
begin 'steps 2/' --steps 400 --threads 1 --no-metadata --latents-out kept.safetensors
for file in low_noise_model/diffusion_pytorch_model.safetensors high_noise_model/diffusion_pytorch_model-00001-of-00002.safetensors; do
    echo short >new
    mv new ckpt/$file
done
end
expect_code 0
rm -r ckpt
cp -r "$CKPT" ckpt
begin 'steps 2/' --steps 400 --threads 1 --no-metadata --latents-out whole.safetensors
end
expect_same kept.safetensors whole.safetensors

# A bus error of another kind is not hidden.
begin 'steps 2/' --steps 4000 --threads 1 --out v.mp4
kill -BUS $child
end
[ "$code" -gt 128 ] || bad "exit code $code for a bus error that no file made"
expect_silent_about 'cannot be read any more'
finish
