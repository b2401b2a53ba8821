# Exchanges, collectives and groups on 1, 2 and 4 ranks.
. "$COMMON"
for count in 1 2 4; do
    mkdir "folder$count"
    ranks $count "$CHECK" $count run "$PWD/folder$count"
    [ $code -eq 0 ] || bad "exit code $code"
    [ "$(grep -c 'all well' said)" -eq $count ] || bad "not all are well"
    grep 'messages:' said
done

# Modules are found where an installation puts them, and beside a program in its build folder.
unset ZOE_MPI_MODULE
mkdir -p bin lib/zoetrope
cp "$CHECK" bin/check
for folder in lib/zoetrope bin; do
    cp "$MODULES/zoetrope-mpi-$MPI.so" $folder
    rm -f folder2/*
    ranks 2 "$PWD/bin/check" 2 run "$PWD/folder2"
    [ $code -eq 0 ] || bad "exit code $code with the module in $folder"
    rm $folder/*.so
done

# One rank asks nothing of MPI, and needs no module.
export ZOE_MPI_MODULE=/nowhere
ranks 1 "$CHECK" 1 run "$PWD"
[ $code -eq 0 ] || bad "exit code $code"
ranks 2 "$CHECK" 2 run "$PWD"
[ $code -ne 0 ] || bad "exit code 0 without a module"
expect_says "/nowhere is not there"
mkdir empty
ZOE_MPI_MODULE=$PWD/empty
ranks 2 "$CHECK" 2 run "$PWD"
[ $code -ne 0 ] || bad "exit code 0 without a module"
expect_says "looked for $PWD/empty/zoetrope-mpi-$MPI.so"
finish
