# The completions, in the shells that are installed. bash and fish can be asked; zsh is typed to on a terminal.
. "$COMMON"

for shell in bash zsh fish; do
    zoe completion $shell
    expect_code 0
    [ ! -s stderr ] || bad "something on standard error"
    cp stdout script.$shell
done
mkdir models "a folder"
: >cat.png
: >"my cat.png"
tried=

if command -v bash >/dev/null; then
    tried="$tried bash"
    cat >ask.bash <<'END'
. ./script.bash || exit 1
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_zoe
printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' '|'
END
    # asks WANTED WORDS: the last word is the one that is typed.
    asks() {
        wanted=$1
        shift
        said="bash: $*"
        expect_equal "completion of '$*'" "$(bash ask.bash "$@" 2>&1)" "$wanted"
    }
    asks 'generate|' zoe gen
    asks '--version|' zoe --v
    asks '--solver|' zoe generate --so
    asks '--frames|--frames-out|--from|' zoe generate --fr
    asks 'dpm++|euler|unipc|' zoe generate --solver ''
    asks 'euler|' zoe generate --solver = eu
    asks 'bf16|f32|' zoe generate --dtype =
    asks 'auto|' zoe generate --seed 1 --progress a
    asks 'a folder|models|' zoe generate --model ''
    asks 'models|' zoe generate --ckpt_dir m
    asks 'cat.png|' zoe generate --image c
    asks 'my cat.png|' zoe generate -i my
    asks 'cat.png|' zoe generate --steps 3 c
    asks '|' zoe generate --steps ''
    asks '|' zoe generate --prompt c
    asks 'completion|' zoe help comple
    asks 'bash|fish|zsh|' zoe completion ''
    asks 'new|' zoe op ''
    asks 'cat.png|' zoe op new c
    asks '|' zoe version ''
    asks '|' zoe nonsense --s
fi

if command -v fish >/dev/null; then
    tried="$tried fish"
    asks_fish() {
        said="fish: $2"
        found=$(HOME=$PWD fish --no-config -c 'source script.fish; complete -C $argv[1]' -- "$2" 2>&1 | cut -f 1 | sort | tr '\n' '|')
        expect_equal "completion of '$2'" "$found" "$1"
    }
    asks_fish 'generate|' 'zoe gen'
    asks_fish '--solver|' 'zoe generate --so'
    asks_fish 'dpm++|euler|unipc|' 'zoe generate --solver '
    asks_fish 'a folder/|models/|' 'zoe generate --model '
    asks_fish 'cat.png|' 'zoe generate --image c'
    asks_fish '' 'zoe generate --steps '
    asks_fish 'bash|fish|zsh|' 'zoe completion '
    asks_fish 'new|' 'zoe op n'
    asks_fish 'cat.png|' 'zoe op new c'
fi

if command -v zsh >/dev/null && zsh -fc 'zmodload zsh/zpty' 2>/dev/null; then
    tried="$tried zsh"
    cat >ask.zsh <<'END'
zmodload zsh/zpty
zpty shell 'TERM=dumb zsh -f -i'
zpty -w shell 'PROMPT= RPROMPT=; unsetopt beep prompt_sp; autoload -Uz compinit; compinit -D -u; LISTMAX=9999
    bindkey "^I" complete-word; source ./script.zsh; print REA""DY'
zpty -r -m shell all '*READY*'
for line; do
    # The answer to a tab is whole when what is typed after it is answered.
    zpty -w -n shell "$line"$'\t'
    zpty -w -n shell $'\C-a\C-k'
    zpty -w shell 'print DO""NE'
    zpty -r -m shell all '*DONE*'
    print -r -- "[$line] ${${all//$'\r'/ }//$'\n'/ }"
done
zpty -d shell
END
    said="zsh"
    HOME=$PWD zsh -f ask.zsh 'zoe gen' 'zoe generate --so' 'zoe generate --solver ' 'zoe generate --solver=eu' \
        'zoe generate --model m' 'zoe generate --dr' 'zoe completion f' 'zoe op n' 'zoe op new c' >answers 2>stderr
    asks_zsh() {
        grep -F "[$1]" answers | grep -qF -- "$2" || bad "zsh: completion of '$1' lacks $2: $(grep -F "[$1]" answers)"
    }
    asks_zsh 'zoe gen' 'zoe generate '
    asks_zsh 'zoe generate --so' '--solver='
    asks_zsh 'zoe generate --solver ' 'dpm++  euler  unipc'
    asks_zsh 'zoe generate --solver=eu' '--solver=euler'
    asks_zsh 'zoe generate --model m' '--model models/'
    asks_zsh 'zoe generate --dr' '--dry-run'
    asks_zsh 'zoe completion f' 'completion fish'
    asks_zsh 'zoe op n' 'op new'
    asks_zsh 'zoe op new c' 'op new cat.png'
fi
echo "tried:$tried"
[ -n "$tried" ] || exit 77
finish
