#!/bin/sh
# Builds examples/heat.c with Open MPI's mpicc and runs it on this machine:
#
#     sh tests/examples/heat.sh [CC]       the compiler under mpicc [$CC, else cc]
#
# 1, 2 and 4 ranks on the CPU, 2 on VULKAN if that has a device: the strips have to be
# what plain C computes. With 4 ranks what can overlap does, to 0.4 at least: it would be 0
# if it did not, is 0.8 and more where nothing else runs, and others take cores away as they
# like. hcq_check.h has to find nothing. The others of a rank that is stopped have to end by
# hcq's timeout and name its halo; those of one that is killed are ended by mpirun, which
# says so. Nothing may be left running.
# 77 without mpicc. Nothing goes over a network. With $HCQ_OBJECT the implementation is
# that one, with all backends.
#
# Lists of flags are split on purpose.
# shellcheck disable=SC2086
set -eu
cc=${1:-${CC:-cc}}
. "$(dirname "$0")/shared.sh"
for tool in mpicc mpirun timeout; do
    command -v $tool >/dev/null 2>&1 || skip "no $tool"
done
export OMPI_CC="$cc" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=^tcp,openib OMPI_MCA_oob_tcp_if_include=lo
export OMPI_MCA_btl_vader_single_copy_mechanism=none # which containers may not have
export TMPDIR="$dir" OMPI_MCA_btl_vader_backing_directory="$dir"
heat=$root/examples/heat.c

# ---- building ------------------------------------------------------------------

compile() { # NAME FLAGS AND FILES...
    name=$1
    shift
    mpicc $warnings "$@" -o "$dir/$name" -pthread -ldl || fail "heat.c does not compile: $*"
}

build() { # as C99 and as C++11, with one implementation; and with the checker in its own
    implementation
    compile heat -std=c99 -O2 $apart $vulkan "$heat" "$hcq"
    compile checked -std=c99 -O0 -DHCQ_CHECK "$heat"
    echo 'int main(void) { return 0; }' | "$cc" -x c++ -c - -o "$dir/probe.o" 2>/dev/null || return 0
    compile heat.o -x c++ -std=c++11 -DOMPI_SKIP_MPICXX $apart -c "$heat"
}

# ---- running -------------------------------------------------------------------

ranks() { # N PROGRAM ARGUMENTS...: its $status; output in $dir/out and $dir/err
    n=$1 program=$dir/$2
    shift 2
    status=0
    timeout --foreground 100 mpirun --oversubscribe -np "$n" "$program" "$@" \
        >"$dir/out" 2>"$dir/err" || status=$?
}

right() { # N PROGRAM ARGUMENTS...
    ranks "$@"
    was_right "$@"
}

was_right() { # every bit is, and nobody complains
    [ "$status" -eq 0 ] || fail "$* ended with $status: $(cat "$dir/out" "$dir/err")"
    ! grep -q '^heat\|^hcq.* \[HCQ_ERROR' "$dir/err" || fail "$* complains: $(cat "$dir/err")"
    grep -q 'steps, bit for bit that of plain C$' "$dir/out" || fail "$*: $(cat "$dir/out")"
    echo "$*: $(head -n 1 "$dir/out")"
}

overlaps() { # 4 ranks, to 0.4 at least
    for _ in 1 2 3 4; do
        right 4 heat CPU 30
        ! awk '/ranks: .* overlap [0-9.]+$/ { good = $NF >= 0.4 } END { exit !good }' "$dir/out" ||
            return 0
    done
    fail "inside and travel do not overlap: $(cat "$dir/out")"
}

# The first that misses something for 2 s tells, mostly a neighbour of rank 2.
stalls() {
    ranks 4 heat --stall 2 5 CPU 40 2
    [ "$status" -eq 1 ] || fail "a rank stalls, and the rest ends with $status: $(cat "$dir/err")"
    grep -q '^heat: rank [013]: no step in 2 s:$' "$dir/err" || fail "$(cat "$dir/err")"
    grep -qE "^  waits for .*'land' .* held by signal .* 'halo of rank [0-3], (above|below)'" \
        "$dir/err" || fail "the wait has no name: $(cat "$dir/err")"
    grep -q "'halo of rank 2, " "$dir/err" || fail "rank 2 is not named: $(cat "$dir/err")"
}

is_killed() {
    ranks 4 heat --kill 2 5 CPU 40 60
    case $status in 0 | 124) fail "a rank is killed, and mpirun ends with $status" ;; esac
    grep -q 'rank 2 .* signal 9' "$dir/err" || fail "mpirun does not say: $(cat "$dir/err")"
}

refuses() { # TEXT ARGUMENTS...
    text=$1
    shift
    ranks 1 heat "$@"
    [ "$status" -eq 1 ] || fail "$* ended with $status"
    grep -q "^heat: $text" "$dir/err" || fail "'$text' is missing: $(cat "$dir/err")"
}

on_vulkan() {
    [ -n "$vulkan" ] || return 0
    ranks 2 heat VULKAN 3
    grep -q 'VULKAN: no such device' "$dir/err" || was_right 2 heat VULKAN 3
}

running() { ps -eo args | grep -F "$dir/" | grep -v grep; }

all_gone() { # soon: mpirun ends a stopped rank last
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        running >"$dir/left" || return 0
        sleep 1
    done
    fail "still running: $(cat "$dir/left")"
}

build
right 1 heat CPU 20
right 2 heat CPU 21
overlaps
right 2 checked CPU 6
on_vulkan
stalls
is_killed
refuses "TOASTER: no such device" TOASTER
refuses "usage: heat " CPU 0
all_gone
echo "ok"
