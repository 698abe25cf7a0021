#!/bin/sh
# Everything that needs real hardware, in one command of less than 9 minutes, on a
# machine with an NVIDIA GPU, its driver and gcc or clang. Nothing is installed or
# fetched, no root is needed, any directory will do.
#
#   sh tests/gpu.sh [RESULTS]                 results go there [./gpu-results]
#   sh tests/gpu.sh --mock DIR [RESULTS]      without a GPU: on the mock libcuda.so.1
#                                             of DIR, with small rounds; only shows
#                                             that this script works
#
# RESULTS gets summary.txt, bench.json and a log of each step. CC is the compiler
# [gcc, clang, cc].
#
# Exit status: 0 all passed (what cannot run here is skipped, with a reason), 1 not
# so, 77 no GPU, 2 wrong use.

set -u
ulimit -c 0
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 2
root=$(dirname "$here")
limit_all=530                          # seconds, for everything

# ---- the steps ---------------------------------------------------------------
# name, seconds until it is killed, command. What only hardware can tell comes
# first. The seconds add up to less than limit_all: none is left without its time.

step_table() {
    cat <<'END'
build            80  build
conformance      80  test_program conformance "$variant"
cuda             50  test_program cuda "$variant" --quick
bench           100  bench
goals             5  goals
examples         25  examples
events           35  test_program conformance "$variant-events" --quick
lists            25  test_program conformance "$variant-lists" --quick
narrow           25  test_program conformance "$variant-narrow" --quick
graph            15  test_program graph "$variant" --seeds 30
answers          15  test_program answers "$variant" --quick
kernels          10  test_program kernels "$variant"
misuse           10  misuse
sanitizer        45  sanitizer
END
}

# ---- what a step may use -----------------------------------------------------
# A step is this script again, under timeout(1), with its output in a log. Exit
# status 77 is a skip, whose reason is the log's last line.

skip() {
    echo "$*"
    exit 77
}

run() { # a command, named in the log first
    echo "+ $*" >&2
    "$@"
}

on_driver() { # a command that finds the mock, if that is what we are on
    if [ -n "$mock" ]; then
        run env LD_LIBRARY_PATH="$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@"
    else
        run "$@"
    fi
}

# ---- the device --------------------------------------------------------------

find_device() { # 77 and hcq's reason if there is none that works; leaves the example hello
    "$cc" -pthread -std=c99 -w -DHCQ_CUDA "$root/examples/hello.c" -o "$tmp/hello" -ldl || return 2
    on_driver timeout -k 5 60 "$tmp/hello" CUDA >"$tmp/hello.said" 2>&1 && return
    ! grep -q 'hello: no such device' "$tmp/hello.said" && return 1
    return 77
}

about_machine() {
    uname -srm
    "$cc" --version 2>/dev/null | head -n 1
    [ -n "$mock" ] || timeout -k 5 20 nvidia-smi -L
    [ -n "$mock" ] || timeout -k 5 20 nvidia-smi
}

# ---- building ----------------------------------------------------------------

compile() { # NAME ARGUMENTS...: in the background
    (
        name=$1
        shift
        run "$cc" -pthread "$@" -o "$tmp/$name" -ldl -lm
    ) >"$tmp/build-$1.log" 2>&1 &
    count=$((count + 1))
    # As many at a time as there are processors: memory is finite.
    if [ $((count % processors)) -eq 0 ]; then
        wait
    fi
}

build() {
    count=0
    processors=$(nproc 2>/dev/null || echo 2)
    fast=-O2 tests=-O1
    [ -z "$mock" ] || fast=-O0 tests=-O0   # compiling is most of the work then
    python3 "$here/core/misuse.py" "$root/hcq.h" "$root/hcq_vulkan.h" "$root/hcq_cuda.h" \
        "$root/hcq_check.h" "$here/core/misuse.txt" >"$tmp/misuse_cases.h"
    sh "$root/hcq_kernel.sh" --ptx -o "$tmp" "$here"/*/*.k ||
        echo "tests have what was made of these files before, if anything, and skip the rest"
    programs="conformance cuda graph answers kernels"
    [ ! -s "$tmp/misuse_cases.h" ] || programs="$programs misuse"
    for program in $programs; do
        compile "$program" -std=c11 "$tests" -w -DHCQ_TEST_CUDA "-I$here/support/mini" \
            "-I$here" "-I$root" "-I$tmp" "$here"/*/"$program.c"
    done
    compile bench -std=gnu11 "$fast" -w -DBENCH_CUDA -DBENCH_CUDA_ONLY -DHCQ_CUDA \
        "$here/bench/bench.c" "$here/bench/bench_cuda.c" "$here/bench/bench_hcq.c"
    wait
    failed=
    for log in "$tmp"/build-*.log; do
        cat "$log"
        program=${log##*/build-}
        [ -x "$tmp/${program%.log}" ] || failed="$failed ${program%.log}"
    done
    [ -z "$failed" ] || {
        echo "not built:$failed"
        return 1
    }
}

built() { # PROGRAM
    [ -x "$tmp/$1" ] || {
        echo "$1 was not built"
        exit 1
    }
}

# ---- tests -------------------------------------------------------------------

# Tests hold streams by kernels that wait for the host. Streams that share one of
# the GPU's work queues with such a one would wait, too: as many queues as there
# can be, for tests.
many_connections() {
    export CUDA_DEVICE_MAX_CONNECTIONS="${CUDA_DEVICE_MAX_CONNECTIONS:-32}"
}

misuse() { # its cases are made by a script
    command -v python3 >/dev/null 2>&1 || skip "no python3"
    test_program misuse "$variant" --quick
}

# A test that crashes or hangs ends its program: the next run goes on behind it.
test_program() { # PROGRAM VARIANT ARGS...
    built "$1"
    many_connections
    program=$1
    shift
    [ -z "$mock" ] || [ "$program" != conformance ] || set -- "$@" --quick --filter 'launch*'
    cd "$tmp" || exit 1
    said=$tmp/$program.said
    last='' ends=0
    while [ "$ends" -lt 6 ]; do
        {
            export MINI_CMOCKA_AFTER="$last" MINI_CMOCKA_LIMIT=40
            run "$tmp/$program" "$@" 2>&1  # not in the mock's path: NVRTC would find that
            echo $? >"$said.status"
        } | tee "$said"
        status=$(cat "$said.status")
        if grep -q '^\[==========\] .* test(s) run\.$' "$said"; then
            [ $((status + ends)) -eq 0 ]
            exit                           # its own status may be 77, of as many failures
        fi
        grep -q '^\[ RUN ' "$said" || exit "$status"
        ends=$((ends + 1))
        last=$(sed -n 's/^\[ RUN      \] //p' "$said" | tail -n 1)
        echo "ended with $status: $last"
        echo "[  FAILED  ] $last"
    done
    return 1
}

examples() {
    run sh "$here/examples/examples.sh" --cuda "$cc"
}

# ---- under compute-sanitizer -------------------------------------------------

find_sanitizer() {
    for tool in compute-sanitizer "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer" \
        /usr/local/cuda*/bin/compute-sanitizer /opt/cuda*/bin/compute-sanitizer; do
        if command -v "$tool" >/dev/null 2>&1; then
            echo "$tool"
            return
        fi
    done
}

# Calls that fail are asked for in tests: only what kernels and copies do counts. It knows no
# atomics on the host's memory, by which the kernels of other programs tell where they are.
sanitized() {
    on_driver "$tool" --tool memcheck --report-api-errors no --error-exitcode 9 "$@"
}

sanitizer() {
    tool=$(find_sanitizer)
    [ -n "$tool" ] || skip "no compute-sanitizer"
    [ -z "$mock" ] || skip "not on a mock"
    sanitized "$tmp/hello" CUDA
    case $? in
    0) built kernels && built graph && built cuda ;;
    9) return 1 ;;
    *) skip "compute-sanitizer cannot run a program on this machine" ;;
    esac
    many_connections
    sanitized "$tmp/kernels" "$variant" || return 1
    sanitized "$tmp/graph" "$variant" --seeds 5 || return 1
    sanitized "$tmp/cuda" "$variant" --quick --filter 'fill*'
}

# ---- benchmarks --------------------------------------------------------------

bench() {
    built bench
    table=$tmp/bench.table
    how=--quick
    [ -z "$mock" ] || how=--smoke
    on_driver "$tmp/bench" --only cuda --json "$out/bench.json" "$how" >"$table"
    status=$?
    # By default streams share 8 of the GPU's work queues, hcq's with the other side's.
    echo "with CUDA_DEVICE_MAX_CONNECTIONS=32:" >>"$table"
    for row in cuda.replay cuda.submit cuda.cross_stream_wait cuda_fact.hops; do
        (many_connections && on_driver "$tmp/bench" --only "$row" "$how") |
            sed -n 's/^\(cuda\|  \)/32 \1/p' >>"$table"
    done
    cat "$table"
    ! grep -q SKIP "$table" || {
        echo "a device is here, and a bench skips it"
        return 1
    }
    return "$status"
}

goals() {
    [ -s "$tmp/bench.table" ] || {
        echo "the benchmarks did not run"
        return 1
    }
    [ -z "$mock" ] || skip "a mock's figures mean nothing"
    missed=$(awk '/^cuda\..* MISSED/ { printf " %s", $1 }' "$tmp/bench.table")
    [ -z "$missed" ] || {
        echo "missed:$missed"
        return 1
    }
    echo "all goals are met: $(grep -c '^cuda\..* ok ' "$tmp/bench.table")"
}

# ---- running the steps -------------------------------------------------------

note_of() { # STATUS LOG SECONDS: what is worth saying in one line
    case $1 in
    124 | 137) echo "killed after $3 s: $(grep '^\[ RUN\|^+ ' "$2" | tail -n 1)" ;;
    0)
        sed -n 's/^\[  PASSED  \] \(.*\) test(s)\.$/\1 tests passed/p
                s/^\[  SKIPPED \] \([1-9].*\) test(s), .*$/\1 skipped/p' "$2" | paste -sd, - |
            sed 's/,/, /g'
        ;;
    77) tail -n 1 "$2" ;;
    *)
        failed=$(sed -n 's/^\[  FAILED  \] \([a-z0-9_]*\)$/\1/p' "$2" | sort -u | tr '\n' ' ')
        [ -n "$failed" ] || failed=$(tail -n 1 "$2")
        [ "$1" = 1 ] || failed="exit status $1: $failed"
        echo "$failed"
        ;;
    esac | cut -c1-200
}

add_step() { # RESULT NAME SECONDS NOTE
    printf '%-4s  %-12s %4d s  %s\n' "$1" "$2" "$3" "$4" | tee -a "$out/summary.txt"
}

run_step() { # NAME SECONDS
    left=$((began + limit_all - $(date +%s)))
    seconds=$2
    if [ -n "$mock" ]; then                # shows that this script works, on any machine
        seconds=$((4 * $2)) left=$((4 * $2))
    fi
    if [ "$left" -lt 5 ]; then
        add_step FAIL "$1" 0 "no time was left"
        return
    fi
    [ "$seconds" -le "$left" ] || seconds=$left
    log=$out/$1.log
    start=$(date +%s)
    timeout -k 5 "$seconds" sh "$here/gpu.sh" --step "$1" >"$log" 2>&1 </dev/null &
    running=$!
    wait "$running"
    status=$?
    # timeout(1) leads a process group: nothing of a step stays.
    kill -KILL -"$running" 2>/dev/null
    running=''
    case $status in 0) result=PASS ;; 77) result=SKIP ;; *) result=FAIL ;; esac
    add_step "$result" "$1" $(($(date +%s) - start)) "$(note_of "$status" "$log" "$seconds")"
    [ "$result" != FAIL ] || tail -n 40 "$log" | sed 's/^/    | /'
}

finish() { # the tables again, then how it went
    [ ! -s "$tmp/bench.table" ] || {
        echo
        cat "$tmp/bench.table"
    } | tee -a "$out/summary.txt"
    failed=$(grep -c '^FAIL' "$out/summary.txt")
    {
        echo
        [ -z "$mock" ] || echo "This was the mock driver: nothing here says how a GPU behaves."
        echo "$(grep -c '^PASS' "$out/summary.txt") passed, $failed failed," \
            "$(grep -c '^SKIP' "$out/summary.txt") skipped, $(($(date +%s) - began)) s"
    } | tee -a "$out/summary.txt"
    [ "$failed" -eq 0 ]
}

stop() { # also on a signal
    [ -z "$running" ] || kill "$running" 2>/dev/null
    [ -z "$running" ] || wait "$running" 2>/dev/null
    [ -z "$running" ] || kill -KILL -"$running" 2>/dev/null
    rm -rf "$tmp"
}

run_all() {
    running='' began=$(date +%s)
    command -v timeout >/dev/null 2>&1 || {
        echo "needs timeout(1), of coreutils or busybox"
        exit 2
    }
    cc=${CC:-$(command -v gcc || command -v clang || command -v cc)}
    [ -n "$cc" ] || {
        echo "no C compiler (gcc, clang, or CC)"
        exit 2
    }
    tmp=$(mktemp -d "${TMPDIR:-/tmp}/hcq-gpu.XXXXXX") || exit 2
    trap stop EXIT
    trap 'exit 130' INT TERM HUP
    find_device || {
        status=$?
        echo "no GPU:"
        cat "$tmp/hello.said"
        exit "$status"
    }
    [ -n "$out" ] || out=$tmp/results
    mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
    for step in $(step_table | sed 's/ .*//'); do
        rm -f "$out/$step.log"
    done
    rm -f "$out/summary.txt" "$out/bench.json"
    variant=cuda
    [ -z "$mock" ] || variant=cumock
    export cc tmp out mock variant HCQ_TEST_CUDA_MOCK="$mock"
    about_machine 2>&1 | tee "$out/machine.log" | head -n 3 | tee "$out/summary.txt"
    for step in $(step_table | sed 's/  *\([0-9]*\) .*/:\1/'); do
        run_step "${step%:*}" "${step#*:}"
    done
    finish
}

# ---- options -----------------------------------------------------------------

usage() {
    sed -n '6,9s/^# *//p' "$here/gpu.sh" >&2
    exit 2
}

if [ "${1:-}" = --step ] && [ $# -eq 2 ]; then
    eval "$(step_table | sed -n "s/^$2  *[0-9]*  *//p")"
    exit
fi
mock='' out=''
if [ "${1:-}" = --mock ]; then
    [ -f "${2:-}/libcuda.so.1" ] || usage
    mock=$(cd "$2" && pwd) || exit 2
    shift 2
else
    out=./gpu-results
fi
case ${1:-} in -*) usage ;; esac
[ $# -le 1 ] || usage
out=${1:-$out}
run_all
