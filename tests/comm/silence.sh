# A rank that stops without a word: the others notice within 10 s, say who it was, and end.
. "$COMMON"
for case in "exchange 1 7" "idle 3 4" "last 0 4"; do
    set -- $case
    stage=$1 victim=$2
    export ZOE_MPI_PATIENCE=$3
    [ "$3" -ne 7 ] || unset ZOE_MPI_PATIENCE # as it is without it
    ranks 4 "$CHECK" 4 stop "$stage" "$victim"
    [ $code -ne 0 ] || bad "exit code 0"
    [ $seconds -le 11 ] || bad "took $seconds s" # up to 2 s to start and to get there
    # When the program was already about to end, it has nobody to tell.
    if [ "$stage" = last ]; then
        grep -qi "abort" said || bad "nothing says abort"
    else
        expect_says "rank $victim has not been heard of for $3 s"
    fi
done

finish
