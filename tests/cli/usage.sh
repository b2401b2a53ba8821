# The rows of usage.txt.
. "$COMMON"

count=0
while IFS='|' read -r line wanted; do
    case $line in '' | \#*) continue ;; esac
    wanted=${wanted# }
    set -f
    set --
    for word in $line; do
        case $word in
        @) set -- "$@" --model m --image i.png --out v.mp4 ;;
        *%00*) set -- "$@" "" ;;
        %20*) set -- "$@" " ${word#%20}" ;;
        *) set -- "$@" "$word" ;;
        esac
    done
    set +f
    zoe "$@"
    expect_code 2
    expect_says "$wanted"
    expect_nothing_on_stdout
    count=$((count + 1))
done <"$ROWS"
[ "$count" -gt 50 ] || bad "only $count rows were read"

# Nothing was made.
expect_equal "the folder's content" "$(ls | sort | tr '\n' ' ')" "stderr stdout "

# One sentence is one line where no terminal wraps it.
zoe generate --model m --image i --frames 82
expect_equal "number of lines" "$(wc -l <stderr | tr -d ' ')" 1

# Without a command: the list of commands, as a mistake.
zoe
expect_code 2
expect_says generate
expect_nothing_on_stdout

# Escape sequences in what was given do not reach the terminal.
zoe generate --model m --image i --size "$(printf '\033[2J')"
expect_code 2
expect_says '\x1b[2J'
finish
