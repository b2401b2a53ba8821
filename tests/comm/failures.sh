# Whatever happens to a rank: all end within 10 s, not with exit code 0, and someone names the rank.
. "$COMMON"

# wrong SENTENCE WHAT STAGE RANK, on 4 ranks
wrong() {
    sentence=$1
    shift
    ranks 4 "$CHECK" 4 "$@"
    [ $code -ne 0 ] || bad "exit code 0"
    [ $seconds -le 10 ] || bad "took $seconds s"
    [ -z "$sentence" ] || expect_says "$sentence"
    # None is left, apart from those that nobody has collected yet.
    sleep 0.2
    left=$(ps -eo pid=,stat=,args= | awk -v me="$CHECK 4 $*" '$2 !~ /Z/ && index($0, me) && !/awk|mpi/ { print $1 }')
    [ -z "$left" ] || bad "left running: $left"
}

# Its launcher says what was killed: Open MPI's which rank, unless it was starting; MPICH's which process.
killed() {
    [ "$MPI" = mpich ] && echo "BAD TERMINATION" || echo "process rank $1 "
}

for victim in 0 2; do
    wrong "^rank $victim sees IO: the disk is full" fail exchange $victim
    wrong "rank $victim has ended" leave exchange $victim
    for stage in exchange large; do
        wrong "$(killed $victim)" kill $stage $victim
    done
done
wrong "^rank 1 sees IO: the disk is full" fail idle 1
wrong "^rank 3 sees IO: the disk is full" fail large 3
wrong "" kill early 0
wrong "$(killed 3)" kill idle 3
wrong "$(killed 1)" kill last 1
wrong "^rank 1 sees CANCELLED: interrupted" interrupt exchange 1
wrong "^rank 3 sees INTERNAL: ring: rank 2 sent another number of bytes than the 1 that were expected" size exchange 2
finish
