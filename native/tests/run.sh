#!/bin/sh
# run.sh - builds the core with its C tests and runs them.
#
#   run.sh [plain|asan|tsan|all|soak] [short|long]
#
# asan: AddressSanitizer and UndefinedBehaviorSanitizer; tsan: ThreadSanitizer; all: these and plain.
# soak: SOAK_EVENTS events (default 1e9) whose counts have to add up. The tests of plain run a
# shorter soak too. Built files go to $BUILD (default build/ beside this file). CC chooses the compiler.
set -eu
cd "$(dirname "$0")"
mode=${1:-plain}
length=${2:-short}
BUILD=${BUILD:-build}
CC=${CC:-cc}
COMMON="-std=c11 -D_GNU_SOURCE -g -ffp-contract=off -Wall -Wextra -I../include"

build() # name, flags
{
    out=$BUILD/$1
    flags="$COMMON $2"
    mkdir -p "$out"
    rm -f "$out"/*.o
    for source in ../src/*.c mix.c mix_oracle.c; do
        $CC $flags -c "$source" -o "$out/$(basename "$source" .c).o"
    done
    for program in test_queue test_mix test_limits test_life test_calls test_wire soak history; do
        $CC $flags "$program.c" "$out"/*.o -o "$out/$program" -lpthread -lm
    done
    # once more, with a core whose threads are held up anywhere and whose calls pause all the time
    mkdir -p "$out/slow"
    rm -f "$out"/slow/*.o
    for source in ../src/*.c mix.c mix_oracle.c; do
        $CC $flags -DSEER_SLOW -DSEER_CALL_NS=0 -c "$source" -o "$out/slow/$(basename "$source" .c).o"
    done
    $CC $flags -Wl,--wrap=aligned_alloc test_stress.c "$out"/slow/*.o -o "$out/test_stress" -lpthread -lm
}

tests() # name
{
    out=$BUILD/$1
    echo "== $1"
    "$out/test_queue"
    "$out/history"
    if "$out/history" 2000 broken; then
        echo "history: the broken mailbox was not found out"
        exit 1
    fi
    "$out/test_mix" "$length"
    "$out/test_limits"
    "$out/test_life"
    "$out/test_calls"
    "$out/test_wire"
    "$out/test_stress"
}

plain()
{
    build plain "-O2"
    tests plain
    "$BUILD/plain/soak" 2e7
}

asan()
{
    build asan "-O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
    ASAN_OPTIONS=detect_leaks=1 tests asan
    "$BUILD/asan/soak" 2e6
}

tsan()
{
    # ThreadSanitizer refuses threads after a fork unless told otherwise.
    build tsan "-O1 -fsanitize=thread"
    TSAN_OPTIONS="die_after_fork=0 halt_on_error=1" tests tsan
    TSAN_OPTIONS="halt_on_error=1" "$BUILD/tsan/soak" 2e6
}

case $mode in
plain) plain ;;
asan) asan ;;
tsan) tsan ;;
all)
    plain
    asan
    tsan
    ;;
soak)
    build plain "-O2"
    "$BUILD/plain/soak" "${SOAK_EVENTS:-1e9}"
    ;;
*)
    sed -n '4p' "$0"
    exit 2
    ;;
esac
echo "native tests ($mode): ok"
