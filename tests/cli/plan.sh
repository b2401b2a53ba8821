# zoe plan: a table, one layout, JSON; nothing is run and nothing is written.
. "$COMMON"
set -- --model "$CKPT" --image "$IMAGE" --prompt "A white cat sits." --size 64x64 --frames 5 --steps 4

zoe plan --threads-per-rank 1 -- "$@"
expect_code 0
expect_equal "rows" "$(grep -c ' x .* x ' stdout)" 12 # and one of headings
for n in 1 2 4 8 16 32 64 128 256 512 1024; do
    grep -q "^ *$n  [12] x [0-9]* x [0-9]* " stdout || bad "no row for $n ranks"
done
grep -q '^ *1  1 x 1 x 1 .*  100%.* 0 bytes ' stdout || bad "one rank does not begin the table"
grep -q '^ *2  2 x 1 x 1 ' stdout || bad "CFG does not come first"

zoe plan --ranks 8 --cfg-ranks 2 --ulysses 2 --ring 2 --vae-ranks 3 --memory 1M -- "$@"
expect_code 0
for text in '8 ranks: --cfg-ranks 2 --ulysses 2 --ring 2 --vae-ranks 3' '3 x 1 patches' 'bytes sent:' '- ring' '- Ulysses' \
    'with all 8 ranks on this host: ' 'CFG a step' 'time, estimated:' 'too little, even with streamed weights'; do
    grep -qF -- "$text" stdout || bad "the plan lacks $text"
done

# The numbers may stand in the request, and tell how many ranks there are.
zoe plan --json -- "$@" --cfg-ranks 2 --ulysses 2 --ring 1
expect_code 0
for text in '"ranks":4' '"cfg_ranks":2' '"ulysses":2' '"ring":1' '"vae_ranks":4' '"one_host_peak":' '"guided_step":' \
    '"efficiency":'; do
    grep -qF -- "$text" stdout || bad "the object lacks $text"
done
expect_equal "lines" "$(wc -l <stdout | tr -d ' ')" 1
[ ! -s stderr ] || bad "something on standard error"

# A list is a table, whole or not at all.
zoe plan --ranks 3,6 -- "$@"
expect_code 0
expect_equal "rows" "$(grep -c ' x .* x ' stdout)" 3
zoe plan --ranks 3,4 --ulysses 3 -- "$@"
expect_code 2
expect_says '4 ranks cannot be made of CFG any x Ulysses 3 x ring any'
zoe plan --ranks 2 --cfg-ranks 2 -- "$@" --guide-scale 1
expect_code 2
expect_says 'without guidance there is one branch'
zoe plan --ranks 2 --vae-ranks 3 -- "$@"
expect_code 2
expect_says 'VAE ranks: 3 of 2 ranks'
zoe plan -- --model nowhere --image "$IMAGE"
expect_code 3
expect_says 'nowhere'
finish
