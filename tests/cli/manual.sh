# The manual page and the help texts come from one table: everything is there, and troff has nothing to complain of.
. "$COMMON"

zoe help --man
expect_code 0
[ ! -s stderr ] || bad "something on standard error"
cp stdout zoe.1
head -n 1 zoe.1 | grep -q '^\.TH ZOE 1 ' || bad "no title"
[ -z "$(LC_ALL=C grep -n '[^ -~]' zoe.1)" ] || bad "letters that are no ASCII"
for section in NAME SYNOPSIS DESCRIPTION COMMANDS 'PROGRESS FOR PROGRAMS' 'EXIT STATUS' SIGNALS FILES ENVIRONMENT EXAMPLES; do
    grep -q "^\.SH $section\$" zoe.1 || bad "no section $section"
done

# Every command, and every option of its help, in the section of the command.
zoe --help
commands=$(sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p' stdout)
[ "$(echo "$commands" | wc -l)" -ge 4 ] || bad "only these commands: $commands"
options=0
for command in $commands; do
    name=$(echo "$command" | sed 's/-/\\\\-/g')
    sed -n "/^\.SS zoe $name\$/,/^\.S[SH]/p" zoe.1 >section
    [ -s section ] || bad "no section for $command"
    zoe help "$command"
    expect_code 0
    [ "$(awk 'length > 90' stdout | wc -l)" -eq 0 ] || bad "the help of $command has long lines"
    for option in $(sed -n 's/^  \(-[a-z], \)\{0,1\}--\([a-z-]*\).*/\2/p' stdout); do
        roff=$(echo "$option" | sed 's/-/\\-/g')
        grep -qF -- "\\-\\-$roff\\fR" section || bad "--$option of $command is not in the manual"
        options=$((options + 1))
    done
done
[ "$options" -gt 40 ] || bad "only $options options were compared"

# Every event that the tests know is told there.
for event in begin plan progress checkpoint preview 'note, warning' "done" error; do
    grep -qF "\\fB$event\\fR" zoe.1 || bad "event $event is not in the manual"
done

if ! command -v groff >/dev/null && ! command -v mandoc >/dev/null; then
    [ "$failures" -eq 0 ] || exit 1
    echo "skipped in part: neither groff nor mandoc is installed"
    exit 77
fi
if command -v groff >/dev/null; then
    for device in utf8 ascii; do
        said="groff $device"
        groff -man -ww -z -T$device zoe.1 >stdout 2>stderr
        code=$?
        expect_code 0
        [ ! -s stderr ] || bad "groff complains"
        groff -man -T$device -P-cbou zoe.1 >page 2>/dev/null
        grep -q '^ *-p, --prompt TEXT$' page || bad "an option does not look as it is typed"
        grep -q 'zoe generate --from cat.mp4 --seed 8 --out cat8.mp4$' page || bad "an example is broken"
        grep -q '[\\]f[BIR]' page && bad "markup is left"
    done
fi
if command -v mandoc >/dev/null; then
    said=mandoc
    mandoc -T lint -W warning zoe.1 2>&1 | grep -v 'missing date' >stderr
    [ ! -s stderr ] || bad "mandoc complains"
fi
finish
