# zoe bench: lines of JSON with all that is promised, refusals, peers that are not there, Ctrl-C.
. "$COMMON"
export OMP_WAIT_POLICY=passive

# Every line is an object with these members.
expect_lines() {
    count=0
    while read -r line; do
        printf '%s\n' "$line" >line
        for key in op dtype shape threads clock isa median_s percent peak target_percent faults peer ratio; do
            grep -q "\"$key\":" line || bad "a line lacks $key: $line"
        done
        grep -qE '"(gflops|gbps)":' line || bad "a line lacks its rate: $line"
        count=$((count + 1))
    done <stdout
    [ "$count" -eq "$1" ] || bad "$count lines, wanted $1"
}
# The value of a key in the line of an operator, by the program that reads JSON.
value() {
    grep "\"op\":\"$1\"" stdout | head -n 1 >row
    "$TOOL" value row "$2"
}

zoe bench --quick --json --threads 1,2 --filter '*_tiny'
expect_code 0
expect_lines 14 # five peaks and two cases, twice
expect_equal "the type" "$(value linear_tiny dtype)" f32
expect_equal "the clock" "$(value linear_tiny clock)" cpu
grep -q '"op":"silu_tiny".*"threads":2,"clock":"wall"' stdout || bad "no row for two threads"
awk -v s="$(value linear_tiny median_s)" 'BEGIN { exit !(s > 0 && s < 1) }' || bad "no time"

for part in step vae text; do
    zoe bench $part --quick --json --threads 1 --filter '*tiny f32 *'
    expect_code 0
    grep -qE '"op":"'$part'_tiny".*"gflops":[0-9]' stdout || bad "no row of $part"
done
zoe bench step --quick --json --threads 1 --filter 'step_tiny' --dtype q8_0
expect_code 0
expect_lines 6
expect_equal "the types" "$(value step_tiny dtype)" f32/q8_0
expect_equal "extrapolated" "$(value step_tiny extrapolated)" true
zoe bench step --quick --full --json --threads 1 --filter 'step_tiny' --dtype q8_0
expect_equal "extrapolated" "$(value step_tiny extrapolated)" false

zoe bench --quick --threads 1 --filter silu_tiny
expect_code 0
grep -qE '^silu_tiny +f32 +8x64 +1 .* GB/s' stdout || bad "no row for people"
zoe bench --quick --threads 1 --filter silu_tiny --table
grep -qE '^\| silu_tiny \| f32 \| 8x64 \| 1 \| cpu \| ' stdout || bad "no row of a table"

# A peer that is not there is said, and the rest goes on.
ZOE_PYTHON=$PWD/no-python zoe bench --quick --json --threads 1 --filter silu_tiny --compare torch
expect_code 0
expect_says '--compare torch: torch is not installed'
expect_says ZOE_PYTHON
expect_lines 6

# One that ends on the way is said too. This one knows nothing but its name.
printf '#!/bin/sh\necho "{\\"ready\\":\\"a shell\\"}"\nread line\n' >python
chmod +x python
ZOE_PYTHON=$PWD/python zoe bench --quick --json --threads 1 --filter '*_tiny' --compare torch
expect_code 0
expect_says "the peer's process ended"
expect_lines 7

# One that answers: whole questions come, and its times are taken.
cat >python <<'END'
#!/bin/sh
echo '{"ready":"a shell"}'
while read -r line; do
    printf '%s\n' "$line" >>questions
    case $line in
    *prepare*) echo '{"ok":true,"dtype":"f32"}' ;;
    *calls*) echo '{"seconds":100}' ;;
    *) echo '{"ok":true}' ;;
    esac
done
END
ZOE_PYTHON=$PWD/python zoe bench --quick --json --threads 1 --filter silu_tiny --compare torch
expect_code 0
expect_equal "the peer" "$(value silu_tiny peer)" torch
awk -v r="$(value silu_tiny ratio)" 'BEGIN { exit !(r > 1000) }' || bad "the ratio is not that of the times"
grep -qF '"op":"silu_tiny","x":"f32","w":"f32","y":"f32","shape":[8,64],"threads":1,"clock":"cpu"' questions ||
    bad "the question is not whole"

while IFS='|' read -r line wanted; do
    # shellcheck disable=SC2086
    zoe bench $line
    expect_code 2
    expect_says "$wanted"
    expect_nothing_on_stdout
done <<'END'
nonsense|nonsense: wanted is one of ops, step, vae and text
ops step|step: wanted is one of ops, step, vae and text
--threads 0|--threads 0: wanted are numbers from 1 to 1024
--threads 1,|--threads 1,: wanted are numbers
--dtype f99|--dtype f99: wanted is a type such as f32
--compare numpy|--compare numpy: wanted is torch, onednn or openblas
--compare ,torch|wanted is torch, onednn or openblas
--time never|--time never: wanted is auto, cpu or wall
--repeats 0|--repeats 0: wanted is a whole number from 1 to 99
--json --table|--json and --table: one form at a time
END
zoe bench --quick --threads 1 --filter 'nothing at all'
expect_code 2
expect_says 'no case of ops fits'

# Ctrl-C ends it: while weights are made, and while a peer is waited for, which ends too; no file stays.
cat >python <<'END'
#!/bin/sh
echo '{"ready":"a shell"}'
while read -r line; do
    case $line in
    *prepare*) echo '{"ok":true,"dtype":"f32"}' ;;
    *)
        echo $$ >peer
        echo 'sleeping' >&2
        exec sleep 100
        ;;
    esac
done
END
mkdir temporary
for row in "compares with|step --filter step_1.3b*" "sleeping|ops --filter silu_tiny"; do
    words=${row#*|}
    said="zoe bench $words, interrupted"
    # shellcheck disable=SC2086
    TMPDIR=$PWD/temporary ZOE_PYTHON=$PWD/python "$TOOL" signal INT 1 "${row%%|*}" "$ZOE" bench $words --threads 1 \
        --quick --compare torch >stdout 2>stderr
    code=$?
    expect_code 130
    expect_says interrupted
done
[ -z "$(ls temporary)" ] || bad "left behind: $(ls temporary)"
[ -s peer ] || bad "the peer was not asked"
! kill -0 "$(cat peer)" 2>/dev/null || bad "the peer runs on"
finish
