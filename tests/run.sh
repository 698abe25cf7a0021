#!/bin/sh
# Runs hcq's tests.
#
#   sh tests/run.sh                what a change must pass      eight minutes
#   sh tests/run.sh --quick        after every edit             two minutes
#   sh tests/run.sh --full         before a release             an hour and a half
#   sh tests/run.sh --install      installs what is missing (Debian), then tests
#   sh tests/run.sh --require LIST backends not to be skipped: cpu,vulkan,cuda-mock,cuda
#   sh tests/run.sh --only NAME    one step, whatever its tier; patterns: 'tsan-*'
#   sh tests/run.sh --jobs N       steps at a time [the number of CPUs]
#   sh tests/run.sh --list         names the steps of the chosen tier
#
# Times are for two cores, installing apart. A step whose tool is missing is a
# SKIP with its reason; after --install, or if the step's backend is required,
# it is a FAIL. A tool that is there and cannot run on this kernel is a SKIP.
# Vulkan's steps use the first device that its loader lists; --install brings
# Mesa's lavapipe, which needs no GPU. CUDA's run on a mock of its driver; those
# of the backend "cuda" want a GPU or the toolkit, and are a SKIP elsewhere.
# Logs of all steps stay in a temporary folder, named at the end.
#
# Which tier keeps which promise (each tier also keeps those above it)
#
#   quick    every backend passes the conformance suite (fewer rounds; CUDA's on
#            a mock of its driver); misuse is refused by name; failed allocations
#            undo everything; hot paths allocate nothing; only hcq_ symbols, no
#            processes or files that a killed one could leave behind;
#            structs have one layout; the lock-free code loses no wake-up and
#            races in no schedule of two threads with few departures from the usual
#            one; every answer that four threads get and the data of their streams
#            are what a model says; random graphs give what their calls give one
#            after another, and their plans wait for what they must and nothing
#            else; kernels that are written once compute what plain C does
#   default  the checker tells 50 programs that lack an ordering, and 500 drawn ones,
#            on every backend, and says nothing of their twins, the suite, graphs;
#            devices with a seed: the suite in the orders of 20 seeds, one seed is one
#            run, also on aarch64; all schedules are all there are;
#            narrow counters and both means of counting on CUDA; NDEBUG; condition
#            variables; one-file header; TSan, ASan, UBSan; Vulkan's validation
#            layer has nothing to say; drivers of other shapes and failures
#            (mocks), under the sanitizers, too;
#            machines without Vulkan, without CUDA or with a part of it; kernels
#            are what their sources say, and what they may not be is refused; answers and data also where signals
#            interrupt every system call; starting never hangs; memory stays flat;
#            500 seeds of graphs; a profile
#            opens as JSON and in a browser; the examples and snippets do what they
#            say, one of them over ranks of MPI; every row of the benchmark runs; the
#            compile matrix; Windows (wine) and aarch64 (qemu) builds
#   full     180 more seeds; all variants of the CPU, of Vulkan and CUDA; clang; C++; valgrind;
#            a profile of 100,000 events opens within three seconds of CPU time;
#            every version of CUDA's driver, 24 seeds of its mock; the whole
#            compile matrix, sanitizers of both compilers, the validation layer
#            on every variant of Vulkan, more seeds, suites again and again, a minute
#            or more of answers each on cpu, mock, Vulkan, and under TSan; 4 lines
#            broken by chance are seen, and the mistakes that one makes with graphs
#            and CUDA; that the benchmark and the script for GPUs run; words.c learns
#            to spell in a minute, the same each time; the page to show is what its script
#            makes of what the examples say

set -u
cd "$(dirname "$0")/.." || exit 1

warnings="-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wundef -Wcast-qual"
warnings="$warnings -Wdouble-promotion -Wvla -Wstrict-prototypes -Wmissing-prototypes -Werror"

# What a program gave back it gets again, not the system: the first access to a page costs
# more than what most tests do with it, on a virtual machine ten times as much.
reuse=glibc.malloc.mmap_threshold=1073741824:glibc.malloc.trim_threshold=4294967296
export GLIBC_TUNABLES=$reuse:glibc.malloc.arena_max=1
# so that the heap can be counted: util_resources.h
no_caches=glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1:glibc.pthread.stack_cache_size=0
no_caches=$reuse:$no_caches

# ---- the steps ---------------------------------------------------------------
# name, tier, backend ("-": none), command. Long ones first, so that the last
# minute has work for every core.

step_table() {
    cat <<END
tsan-conformance       default  -           program tsan conformance cpu --quick
asan-conformance       default  -           on_one program asan conformance cpu --quick
tsan-vulkan-mock       default  vulkan      vulkan tsan conformance vkmock --quick
tsan-cuda-mock         default  cuda-mock   cuda tsan conformance cumock
asan-vulkan            full     vulkan      vulkan asan conformance vulkan --quick
vulkan-validation      default  vulkan      validated conformance vulkan
valgrind-conformance   full     -           program valgrind conformance cpu-nospin --quick
examples-learn         full     cpu         documented examples.sh --learn
examples               default  cpu         documented examples.sh
matrix-clang           full     cpu         matrix clang
matrix-gcc             default  cpu         matrix gcc
conformance-vulkan     quick    vulkan      vulkan gcc conformance vulkan
conformance-cumock     quick    cuda-mock   on_one cuda gcc conformance cumock
conformance-cpu        quick    cpu         program gcc conformance cpu
conformance-mock       quick    cpu         program gcc conformance mock
conformance-trace      quick    cpu         program gcc conformance trace
matrix-quick           quick    cpu         script tests/portability/matrix.sh --quick
kernels                quick    cpu         program gcc kernels cpu
kernels-clang          default  cpu         program clang kernels cpu
kernels-check          default  vulkan      kernels_check
ptx                    default  -           script tests/kernels/ptx.sh
vulkan-kernels         default  vulkan      vulkan gcc kernels vulkan,vkmock
cuda-kernels           default  cuda-mock   cuda gcc kernels cumock
misuse                 quick    cpu         program gcc misuse cpu
races                  default  cpu         program check races cpu,mock,cpu-seeded
explore                default  cpu         explored
seeded                 default  cpu         seeded 1 20
no-threads             default  cpu         no_threads
alloc                  quick    cpu         on_one program gcc alloc cpu
faults                 default  cpu         on_one program gcc faults cpu
answers                quick    cpu         answers gcc cpu 1 2
answers-signals        default  cpu         on_one program gcc answers cpu,mock --signals 5
unit                   quick    cpu         unit
graph                  quick    cpu         program gcc graph all --seeds 100
schedules              quick    -           schedules
symbols                quick    cpu         script tests/portability/symbols.sh
snippets               default  cpu         documented snippets.sh
heat                   default  -           documented heat.sh
page                   full     cpu         documented page.sh
starts                 default  cpu         starts 300
spirv                  default  vulkan      spirv gcc
layout                 quick    -           layout
tcc-header             quick    -           tcc_header
refused                quick    -           refused
words                  quick    -           words
lists                  quick    -           lists
stack                  default  -           stack
stack-vulkan           default  vulkan      vulkan gcc stack vkmock,vulkan
stack-cuda             default  cuda-mock   cuda gcc stack cumock
vulkan-mock            default  vulkan      on_one vulkan_mock
asan-vulkan-check      default  vulkan      on_one vulkan asan vulkan_check vkmock --quick
tsan-vulkan-check      default  vulkan      vulkan tsan vulkan_check vkmock --filter meanwhile_*
asan-vulkan-mock       default  vulkan      on_one vulkan asan conformance vkmock --quick
vulkan                 default  vulkan      vulkan gcc vulkan vulkan
vulkan-misuse          default  vulkan      vulkan gcc misuse vulkan
vulkan-alloc           default  vulkan      on_one vulkan gcc alloc vkmock-one
vulkan-faults          default  vulkan      on_one vulkan gcc faults vkmock --quick
vulkan-faults-driver   full     vulkan      vulkan gcc faults vulkan --quick
vulkan-answers         default  vulkan      vulkan gcc answers vulkan --seed 1
vulkan-graph           default  vulkan      vulkan gcc graph vulkan --seeds 100
vulkan-mock-graph      default  vulkan      on_one vulkan gcc graph vkmock --seeds 300
vulkan-mock-answers    default  vulkan      vulkan gcc answers vkmock --seed 1
vulkan-own-validation  default  vulkan      validated vulkan vulkan
vulkan-examples        default  vulkan      on_vulkan documented examples.sh --vulkan
vulkan-engine          default  vulkan      on_vulkan documented engine.sh
asan-spirv             default  vulkan      spirv asan
no-vulkan              default  vulkan      no_vulkan
cuda-variants          default  cuda-mock   on_one cuda gcc conformance cumock-events,cumock-narrow,cumock-few
asan-cuda-mock         default  cuda-mock   on_one cuda asan conformance cumock
cuda-faults            default  cuda-mock   on_one cuda gcc faults cumock
cuda-examples          default  cuda-mock   cuda_examples
cuda-mock              default  cuda-mock   cuda gcc cuda_check all
cuda                   default  cuda-mock   on_one cuda gcc cuda cumock,cumock-events,cumock-plain
cuda-misuse            default  cuda-mock   cuda gcc misuse cumock
cuda-alloc             default  cuda-mock   on_one cuda gcc alloc cumock
cuda-answers           default  cuda-mock   cuda gcc answers cumock,cumock-events --seed 1
cuda-graph             default  cuda-mock   on_one cuda gcc graph cumock,cumock-events --seeds 100
cuda-variants-all      full     cuda-mock   cuda gcc conformance cumock-one,cumock-no-copy
vulkan-mock-all        full     vulkan      vulkan gcc conformance vkmock,vkmock-one
gpu-script             full     cuda-mock   gpu_script
no-cuda                default  cuda-mock   no_cuda
cuda-header            default  cuda        cuda_header
kernel-texts           default  cuda        script tests/support/code.sh --check
variants               full     cpu         program gcc conformance cpu-one-engine,cpu-no-copy,cpu-nospin,cpu-no-native-wait
narrow-counters        default  cpu         program gcc conformance cpu-narrow
mock-variants          full     cpu         program gcc conformance mock-map,mock-no-copy,trace-mock --quick
misuse-mock            default  cpu         program gcc misuse mock
check-conformance      default  cpu         program check conformance mock --quick
check-misuse           default  cpu         program check misuse cpu
check-graph            default  cpu         program check graph cpu --seeds 60
planner                default  cpu         program check planner cpu,mock-map,cpu-seeded
vulkan-races           default  vulkan      vulkan check races vulkan
cuda-races             default  cuda-mock   cuda check races cumock
check-conformance-cpu  full     cpu         program check conformance cpu
seeded-long            full     cpu         seeded 21 200
alloc-mock             default  cpu         on_one program gcc alloc mock
faults-mock            full     cpu         program gcc faults mock --quick
answers-variants       default  cpu         quickly answers gcc $variants_of_cpu,mock,$variants_of_mock 4 5
graph-seeds            default  cpu         on_one program gcc graph all --seeds 500
profile                default  cpu         script tests/core/profile.sh
flat                   default  cpu         program gcc flat cpu
flat-mock              default  cpu         program gcc flat mock --submissions 50000
clang-conformance      full     cpu         program clang conformance cpu
cxx-conformance        full     cpu         program cxx conformance cpu
condvar-conformance    full     cpu         program condvar conformance cpu --quick
condvar-answers        default  cpu         answers condvar cpu 6 7
release-conformance    default  cpu         program release conformance cpu --quick
single                 default  cpu         single_header
release                default  cpu         released
asan-answers           default  -           quickly answers asan cpu,cpu-narrow,mock 3
tsan-answers           default  -           quickly answers tsan cpu,cpu-narrow,mock 1 2
tsan-graph             default  -           program tsan graph all --seeds 30
asan-graph             default  -           on_one program asan graph all --seeds 80
asan-mock              default  -           on_one program asan conformance mock --quick
asan-misuse            default  -           program asan misuse cpu
asan-faults            full     -           program asan faults cpu --quick
windows                default  -           windows
bench-smoke            default  -           bench --smoke
aarch64                default  -           aarch64
armhf                  default  -           armhf
conformance-cuda       default  cuda        program gcc conformance cuda
tsan-variants          full     -           program tsan conformance mock,trace,cpu-nospin,cpu-narrow,cpu-no-native-wait,trace-mock
valgrind-faults        full     -           program valgrind faults cpu-nospin --quick
condvar-nospin         full     cpu         program condvar conformance cpu-nospin
single-conformance     full     cpu         program single conformance cpu
validation-all         full     vulkan      quickly validated conformance vulkan,vulkan-staged,vulkan-plain,vulkan-no-copy,vulkan-narrow
validation-suites      full     vulkan      quickly validated vulkan,graph,answers,kernels vulkan
asan-vulkan-all        full     vulkan      vulkan asan conformance vulkan-staged --quick
asan-vulkan-mocks      full     vulkan      vulkan asan conformance vkmock-one,vkmock-low,vkmock-turns --quick
asan-vulkan-suites     full     vulkan      quickly vulkan asan vulkan,answers,graph vulkan
tsan-vulkan-all        full     vulkan      vulkan tsan conformance,answers vkmock,vkmock-one,vkmock-low
vulkan-seeds           full     vulkan      vulkan_seeds 2 2
asan-cuda-all          full     cuda-mock   quickly cuda_all asan cumock-events cumock-lists,cumock-few
tsan-cuda-all          full     cuda-mock   quickly cuda_all tsan cumock-plain cumock-one,cumock-narrow
cuda-versions          full     cuda-mock   quickly cuda_versions
cuda-seeds             full     cuda-mock   cuda_seeds 1 24
mutants                full     cuda-mock   broken 4
answers-long           full     cpu         program gcc answers cpu,mock --seconds 60
vulkan-answers-long    full     vulkan      vulkan gcc answers vulkan --seconds 90
tsan-answers-long      full     -           program tsan answers cpu --seconds 90
flat-long              full     cpu         program gcc flat cpu --submissions 1000000
flat-nospin            full     cpu         program gcc flat cpu-nospin
seeds                  full     cpu         many_seeds 11 18
repeat                 full     cpu         repeat 2
many-starts            full     cpu         starts 5000
tsan-condvar           full     -           program tsan-condvar conformance cpu
clang-tsan             full     -           program clang-tsan conformance cpu
clang-asan             full     -           program clang-asan conformance cpu
asan-variants          full     -           program asan conformance cpu-narrow,cpu-no-copy,trace
asan-alloc             full     -           program asan alloc cpu
valgrind-mock          full     -           program valgrind conformance mock --quick
valgrind-misuse        full     -           program valgrind misuse cpu --quick
graph-long             full     cpu         on_one program gcc graph all --seeds 2000
profile-big            full     cpu         script tests/core/profile.sh --big
bench                  full     -           bench --quick
END
}

variants_of_cpu='cpu-one-engine,cpu-no-copy,cpu-narrow,cpu-nospin,cpu-no-native-wait'
variants_of_mock='mock-map,mock-no-copy,trace,trace-mock'

# ---- how a step runs ---------------------------------------------------------
# A step is this script again, under timeout(1), with its output in a log.
# Exit status 77 is a skip, whose reason is the log's last line; 78 is one that
# installing would not mend.

skip() {
    echo "$*"
    exit 77
}

cannot() {
    echo "$*"
    exit 78
}

need() { # TOOL...: skip the step where one is missing
    for tool in "$@"; do
        command -v "$tool" >/dev/null 2>&1 || skip "no $tool"
    done
}

run() { # a command, named in the log first, so that a killed one can be named
    echo "+ $*" >&2
    "$@"
}

cmocka_header() {
    need gcc
    echo '#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>' | gcc -E -x c - >/dev/null 2>&1 || skip "no cmocka.h"
}

vulkan_headers() {
    command -v gcc >/dev/null 2>&1 &&
        echo '#include <vulkan/vulkan.h>' | gcc -E -x c - >/dev/null 2>&1
}

need_vulkan_headers() { # and what makes the shaders of the tests
    need gcc glslangValidator spirv-as spirv-opt
    vulkan_headers || skip "no vulkan/vulkan.h"
}

compiler_of() { # CONFIG: the compiler and its flags
    case $1 in
    gcc) echo "gcc -std=c11 -O2" ;;
    check) echo "gcc -std=c11 -O2 -DHCQ_CHECK" ;;
    clang) echo "clang -std=c11 -O2" ;;
    condvar) echo "gcc -std=c11 -O1 -DHCQ_NO_FUTEX" ;;
    release) echo "gcc -std=c99 -O3 -DNDEBUG -DHCQ_VALIDATE=0" ;;
    cxx) echo "gcc -std=c11 -O2" ;;
    single) echo "gcc -std=c11 -O2 -DHCQ_TEST_HEADER=\"hcq_single.h\"" ;;
    single-check) echo "gcc -std=c11 -O2 -DHCQ_CHECK -DHCQ_TEST_HEADER=\"hcq_single.h\"" ;;
    # A sanitizer's own work is what such a program does: -O1 takes three times as long
    # to compile and no less to run.
    tsan) echo "gcc -std=c11 -O0 -g1 -fsanitize=thread" ;;
    tsan-condvar) echo "gcc -std=c11 -O0 -g1 -fsanitize=thread -DHCQ_NO_FUTEX" ;;
    clang-tsan) echo "clang -std=c11 -O0 -g1 -fsanitize=thread" ;;
    asan) echo "gcc -std=c11 -O0 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all" ;;
    clang-asan)
        echo "clang -std=c11 -O0 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all" ;;
    valgrind) echo "gcc -std=c11 -O1 -g" ;;
    esac
}

once() { # FILE COMMAND...: makes FILE by the command, whichever step comes first
    file=$1
    shift
    if mkdir "$file.lock" 2>/dev/null; then
        if run "$@"; then
            touch "$file.made"
        else
            touch "$file.failed"
        fi
    fi
    while [ ! -e "$file.made" ] && [ ! -e "$file.failed" ]; do
        sleep 0.2
    done
    [ -e "$file.made" ] || {
        echo "$file could not be built: see the step that tried first"
        return 1
    }
}

implementation() { # CONFIG COMPILER FLAGS...: most programs of a configuration share one
    object=$bin/$1-hcq.o
    shift
    [ "$1" = clang ] || set -- "$@" -fstack-usage
    # shellcheck disable=SC2086
    once "$object" "$@" $with_vulkan $with_cuda -I. -Itests -c \
        tests/support/implementation.c -o "$object"
}

single_file() {
    # shellcheck disable=SC2086
    sh tests/single.sh cpu cuda check ${with_vulkan:+vulkan} >"$bin/hcq_single.h"
}

choose_backends() { # CONFIG: those that its programs are built with
    with_vulkan='' with_cuda=''
    case $1 in
    gcc | check | single | single-check | asan | tsan)
        with_cuda=-DHCQ_TEST_CUDA
        ! vulkan_headers || ! command -v spirv-opt >/dev/null || with_vulkan=-DHCQ_TEST_VULKAN
        ;;
    esac
}

build() { # CONFIG PROGRAM: compiles tests/PROGRAM.c into $bin/CONFIG-PROGRAM
    choose_backends "$1"
    # Split on purpose: a compiler with its flags.
    # shellcheck disable=SC2046
    set -- "$1" "$2" $(compiler_of "$1")
    config=$1 program=$2 extra=
    shift 2
    need "$1"
    cmocka_header
    case $config in *san*) sanitizer_works "$@" ;; esac
    if [ "$program" = misuse ]; then
        need python3
        once "$bin/misuse_cases.h" misuse_cases || return 1
    fi
    [ "$program" != kernels ] || once "$bin/kernels" written_once tests/kernels/*.k || return 1
    [ -z "$with_vulkan$with_cuda" ] || once "$bin/shared" written_once tests/support/shared.k \
        tests/graph/mixing.k || return 1
    [ -z "$with_vulkan" ] || once "$bin/shaders.h" spirv_modules shaders \
        tests/support/shaders/*.comp || return 1
    # The library as its users build it; the suites, which are as long, without -O.
    case $config-$program in
    gcc-graph) extra=-O1 ;;            # so do these, which know more than is declared
    *-unit | *-graph | *-spirv | *-cuda | *-cuda_check | *-planner) extra=-O0 ;;
    single-*)
        once "$bin/hcq_single.h" single_file || return 1
        extra=-O0
        ;;
    cxx-*)
        need g++
        implementation cxx g++ -std=c++11 -O2 -x c++ || return 1
        extra="-O0 -include tests/support/apart.h $bin/cxx-hcq.o"
        ;;
    *)
        # shellcheck disable=SC2086
        implementation "$config" "$@" $warnings || return 1
        extra="-O0 -include tests/support/apart.h $bin/$config-hcq.o"
        ;;
    esac
    [ "$program" != kernels ] || extra="$extra -O3" # by vectors, as a user has them
    # A failed check ends a test by a jump that gcc cannot see, so that it takes
    # what comes after for reachable.
    # Nor that a refusal of NULL, which tests pass in plain sight, does return.
    [ "$1" != gcc ] || extra="$extra -Wno-maybe-uninitialized -Wno-uninitialized \
        -Wno-array-bounds -Wno-stringop-overflow"
    # shellcheck disable=SC2086
    once "$bin/$config-$program" "$@" $with_vulkan $with_cuda $warnings -pthread -I. -Itests \
        -I"$bin" tests/*/"$program.c" $extra -o "$bin/$config-$program" -lcmocka -ldl -lm
}

misuse_cases() { # made of the prototypes: a new function without its lines ends here
    python3 tests/core/misuse.py hcq.h hcq_vulkan.h hcq_cuda.h hcq_check.h tests/core/misuse.txt \
        >"$bin/misuse_cases.h"
}

written_once() { # FILE.k...: for GPUs, where there is what makes them
    sh hcq_kernel.sh -o "$bin" "$@" && return
    [ $? = 77 ] && { sh hcq_kernel.sh --spirv -o "$bin" "$@" || [ $? = 77 ]; }
}

sanitizer_works() { # COMPILER FLAGS...: can a program with this sanitizer run here?
    echo 'int main(void) { return 0; }' >"$bin/probe.$$.c"
    "$@" "$bin/probe.$$.c" -o "$bin/probe.$$" 2>/dev/null || skip "no runtime for: $*"
    # Some kernels place mappings where a sanitizer's shadow does not expect
    # them, and some containers do not let it look for leaks.
    prefix=
    setarch -R true 2>/dev/null && prefix="setarch -R"
    export ASAN_OPTIONS="detect_leaks=${leaks:-1} detect_stack_use_after_return=1"
    $prefix "$bin/probe.$$" || export ASAN_OPTIONS="detect_leaks=0"
    for try in 1 2 3; do
        $prefix "$bin/probe.$$" || cannot "programs with $* cannot run here (try $try)"
    done
}

kernel_library() {
    once "$bin/kernels.so" gcc -std=c99 -O2 -fPIC -shared -I. tests/support/kernel_library.c \
        -o "$bin/kernels.so"
}

program() { # CONFIG PROGRAM,PROGRAM... VARIANT,VARIANT... ARGS...: all: without one
    config=$1 programs=$2 variants=$3
    shift 3
    for program in $(echo "$programs" | tr , ' '); do
        one_program "$@" || return
    done
}

one_program() { # ARGS...: $program in $config on $variants
    prefix=
    build "$config" "$program" && kernel_library || return 1
    case $config:$program in
    *san*:* | valgrind:*) ;;
    *:conformance) export GLIBC_TUNABLES="$no_caches" ;;
    esac
    case $config in
    valgrind)
        need valgrind
        prefix="valgrind -q --error-exitcode=9 --leak-check=full --fair-sched=try
            --errors-for-leak-kinds=definite,indirect
            --suppressions=tests/support/valgrind.supp"
        ;;
    esac
    export TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1"
    export UBSAN_OPTIONS="print_stacktrace=1"
    for variant in $(echo "$variants" | tr , ' '); do
        [ "$variant" != all ] || variant=
        # shellcheck disable=SC2086
        run $prefix "$bin/$config-$program" $variant "$@" --library "$bin/kernels.so" $rounds ||
            return
    done
}

on_one() { # COMMAND...: threads that take turns wake each other in a tenth of the time there
    ! command -v taskset >/dev/null || taskset -pc "${own_cpu:-0}" $$ >/dev/null 2>&1
    "$@"
}

# ---- devices without threads

seeded() { # FROM TO: the suite in the orders of these seeds, checked
    build check conformance || return 1
    export GLIBC_TUNABLES="$no_caches"
    for seed in $(seq "$1" "$2"); do
        run "$bin/check-conformance" cpu-seeded --seed "$seed" --quick >"$bin/seeded" 2>&1 || {
            cat "$bin/seeded"
            echo "seed $seed"
            return 1
        }
        [ $((seed % 100)) -ne 0 ] || echo "seed $seed"
    done
    tail -n 3 "$bin/seeded"
}

explored() { # and two processes do the same with one seed, to the number
    program check explore cpu || return 1
    for seed in 1 2 3 4 5; do
        first=$("$bin/check-explore" trace "$seed") && [ -n "$first" ] &&
            [ "$first" = "$("$bin/check-explore" trace "$seed")" ] || {
            echo "two runs of seed $seed differ"
            return 1
        }
    done
}

no_threads() { # nor any symbol of theirs
    for how in "gcc -std=c99" "g++ -std=c++11 -x c++"; do
        # shellcheck disable=SC2086
        run $how $warnings -DHCQ_NO_THREADS -O1 -c examples/hello.c -o "$bin/no-threads.o" &&
            run gcc "$bin/no-threads.o" -o "$bin/no-threads" -ldl -lstdc++ &&
            run "$bin/no-threads" || return 1
        ! nm "$bin/no-threads.o" | grep -iE 'pthread|clone|thrd_' || return 1
    done
    echo '#include "hcq.h"' >"$bin/no-threads.c"
    ! gcc -std=c99 -DHCQ_NO_THREADS -DHCQ_CUDA -DHCQ_IMPLEMENTATION -I. -fsyntax-only \
        "$bin/no-threads.c" 2>"$bin/no-threads.said" || return 1
    run grep -q "HCQ_NO_THREADS the CPU is the only backend" "$bin/no-threads.said"
}

quickly() { # COMMAND...
    rounds=--quick
    "$@"
}

answers() { # CONFIG VARIANTS SEEDS...: every answer of a run on four threads
    config=$1 variants=$2
    shift 2
    for seed in "$@"; do
        program "$config" answers "$variants" --seed "$seed" || return 1
    done
}

many_seeds() { # FROM TO, all variants
    # shellcheck disable=SC2046
    answers gcc cpu $(seq "$1" "$2") &&
        quickly answers gcc "$variants_of_cpu,mock,$variants_of_mock" $(seq "$1" "$2") &&
        answers tsan cpu,cpu-narrow,mock $(seq "$1" 3 "$2")
}

repeat() { # COUNT: whole suites again and again: what fails once in a while
    for seed in $(seq 1 "$1"); do
        program gcc conformance,faults cpu,cpu-nospin,cpu-narrow,mock --seed "$seed" || return 1
    done
}

starts() { # COUNT: a short program opens, works, closes; a rare hang shows here.
    # Asked for what is not compiled in it says what README shows.
    need gcc
    run gcc -std=c99 -O2 -I. -pthread examples/hello.c -o "$bin/hello-$1" || return 1
    count=0
    echo "+ $bin/hello-$1, $1 times"
    while [ "$count" -lt "$1" ]; do
        timeout -k 5 20 "$bin/hello-$1" >"$bin/hello-$1.out" 2>&1 || {
            echo "run $count ended with $?:"
            cat "$bin/hello-$1.out"
            return 1
        }
        count=$((count + 1))
    done
    cat "$bin/hello-$1.out"
    ! "$bin/hello-$1" VULKAN 2>"$bin/hello-$1.said" || return 1
    run grep -qF "    $(head -n 1 "$bin/hello-$1.said")" README.md
}

script() {
    need gcc
    run sh "$@"
}

documented() { # SCRIPT ARGUMENTS...: with the implementation as a user compiles it, once
    need gcc
    script=$1
    shift
    with_vulkan=
    ! vulkan_headers || with_vulkan=-DHCQ_VULKAN
    # shellcheck disable=SC2086
    once "$bin/plain.o" gcc -std=c99 -O1 -Wall -Wextra -Werror -DHCQ_CPU -DHCQ_CUDA $with_vulkan \
        -I. -c "$bin/plain.c" -o "$bin/plain.o" || return 1
    HCQ_OBJECT=$bin/plain.o run sh "tests/examples/$script" "$@" gcc
}

matrix() { # COMPILER
    need "$1"
    # shellcheck disable=SC2086
    run sh tests/portability/matrix.sh $matrix_size --compiler "$1"
}

schedules() { # gcc leaves to scheduler.c what it has ThreadSanitizer's library for
    need gcc
    case $tier in --full) set -- --full ;; esac
    # shellcheck disable=SC2086
    run gcc -std=gnu11 -O2 $warnings -c tests/cpu/scheduler.c -o "$bin/scheduler.o" &&
        run gcc -std=gnu11 -O0 -gdwarf-4 $warnings -fsanitize=thread -fno-pie -I. \
            -c tests/cpu/schedules.c -o "$bin/schedules.o" &&
        run gcc -no-pie "$bin/scheduler.o" "$bin/schedules.o" -o "$bin/schedules" -ldl &&
        run "$bin/schedules" "$@"
}

layout() {
    need gcc
    # shellcheck disable=SC2086
    run gcc -std=c99 $warnings -I. tests/portability/layout.c -o "$bin/layout" || return 1
    run "$bin/layout"
}

tcc_header() { # the header part asks for nothing a small compiler lacks
    need tcc
    printf '#include "hcq.h"\n#include "hcq.h"\n' >"$bin/header.c"
    printf 'int main(void) { return (int)hcq_dim(0, 1, 1).x; }\n' >>"$bin/header.c"
    ! vulkan_headers || set -- -DHCQ_VULKAN
    for define in -UHCQ_CPU -DHCQ_CPU -DHCQ_CUDA "$@"; do
        run tcc -Wall -Werror "$define" -I. -c "$bin/header.c" -o "$bin/header.o" || return 1
    done
    run tcc -Wall -Werror -I. tests/portability/layout.c -o "$bin/tcc-layout" || return 1
    run "$bin/tcc-layout"
}

refused() { # what the implementation cannot be made for gets one message, the header part none
    need gcc
    cat >"$bin/refused.c" <<'END'
#define HCQ_CPU
#define HCQ_CUDA
#include "hcq.h"
#include "hcq.h"
int main(void) { return hcq_version() == 0 || hcq_close(0) != HCQ_OK; }
END
    # Without an operating system: the headers of other processors are not here.
    refused_by "32-bit x86" gcc -m32 -ffreestanding || return 1
    for standard in c89 gnu89 iso9899:199409; do
        refused_by "C99 or C++11" gcc -std=$standard || return 1
    done
    refused_by "atomics" gcc -U__ATOMIC_SEQ_CST || return 1
    ! command -v g++ >/dev/null || refused_by "C99 or C++11" g++ -x c++ -std=c++98 || return 1
    ! command -v tcc >/dev/null || refused_by "atomics" tcc -c -o "$bin/refused.o" || return 1
    command -v clang >/dev/null || return 0
    for target in i686-linux-gnu i686-pc-windows-msvc; do
        refused_by "32-bit x86" clang --target=$target -ffreestanding || return 1
    done
    refused_by "C99 or C++11" clang -std=c89 && refused_by "atomics" clang -U__ATOMIC_SEQ_CST
}

refused_by() { # WORDS COMPILER FLAGS...
    words=$1
    shift
    case $1 in tcc) ;; *) set -- "$@" -fsyntax-only -Wall -Wextra -Wundef ;; esac
    run "$@" -I. "$bin/refused.c" || return 1
    for define in -UHCQ_STATIC -DHCQ_STATIC; do
        run "$@" -I. -DHCQ_IMPLEMENTATION $define "$bin/refused.c" >"$bin/refused.log" 2>&1
        grep -E '(error|warning):' "$bin/refused.log" >"$bin/refused.said"
        if [ "$(grep -c . "$bin/refused.said")" != 1 ] ||
            ! grep -q "#*error.*hcq: .*$words" "$bin/refused.said"; then
            cat "$bin/refused.log"
            return 1
        fi
    done
}

stack() { # no function needs more than 16 KiB; threads of 64 KiB suffice
    build gcc stack && implementation plain gcc -std=c11 -O0 || return 1
    for usage in "$bin/plain-hcq.su" "$bin/gcc-hcq.su"; do
        echo "the largest of $usage: $(sort -k 2nr -t '	' "$usage" | head -n 1)"
        awk -F '\t' '$2 > 16384 || $3 == "dynamic" { print "too much stack: " $0; bad = 1 }
            END { exit bad || NR == 0 }' "$usage" || return 1
    done
    program gcc stack cpu && program gcc stack mock
}

lists() { # every number in the headers has its test, every variant its step, every mistake its
    # line; 1.0's names stay
    need python3
    run python3 tests/core/limits.py && run python3 -B tests/core/api.py &&
        run sh tests/mutants.sh --folder "$bin/mutants" --list fixed >"$bin/mistakes" || return 1
    # A dollar sign that is gpu.sh's.
    # shellcheck disable=SC2016
    tr -c 'a-z0-9$-' '\n' <tests/run.sh | cat - tests/gpu.sh |
        sed 's/.*"$variant-/cuda-/; s/".*//' >"$bin/words"
    sed -n 's/.*{\.name = "\([a-z-]*\)".*/\1/p' tests/support/util.h tests/mocks/*_variants.h |
        grep -vFx -f "$bin/words" || return 0
    echo "no step runs these variants"
    return 1
}

words() { # what other headers make macros of is no name here
    need gcc
    ! vulkan_headers || set -- -DHCQ_VULKAN
    run gcc -std=c11 -fsyntax-only "$@" -DHCQ_CUDA -DHCQ_CPU -DHCQ_CHECK -DHCQ_IMPLEMENTATION -I. \
        -include tests/portability/words.h hcq_kernel.h
}

unit() { # the pieces, through names that only the implementation knows
    build gcc unit && run "$bin/gcc-unit"
}

single_header() { # the amalgamated file, with every backend, does what the files do
    program single misuse cpu || return 1
    [ -z "$with_vulkan" ] || program single misuse vulkan || [ $? = 77 ] || return 1
    cuda_mock gcc && program single misuse cumock && program single-check misuse cpu
}

released() { # twice to the same bytes; each of its two files gives a user hello
    need gcc git gzip sha256sum
    git rev-parse HEAD >"$bin/commit" 2>&1 || cannot "not a git repository"
    run sh tests/release.sh "$bin/release" >"$bin/sums" &&
        run sh tests/release.sh "$bin/release" | diff "$bin/sums" - || return 1
    cat "$bin/sums"
    tar -x -z -C "$bin/release" -f "$bin"/release/hcq-*.tar.gz || return 1
    cd "$bin"/release/hcq-*/ && run gcc examples/hello.c -pthread && run ./a.out || return 1
    rm hcq_cpu.h hcq_vulkan.h hcq_cuda.h hcq_check.h && mv "$bin"/release/hcq-*.h hcq.h &&
        run gcc examples/hello.c -pthread && run ./a.out
}

# ---- on Vulkan: each program ends with 77 where no device is

vulkan() { # CONFIG PROGRAM VARIANT,VARIANT... ARGS...
    # Small rounds but for --full, as a submission costs 100 us.
    case $tier:$2 in --full:* | *:graph) ;; *) rounds=--quick ;; esac
    # Of Mesa's driver 128 bytes are left when its library has been closed, from a
    # place that has no name any more: no suppression finds them. Our own leaks
    # are seen on the mock, and by the tests' counting hooks.
    case $3 in vulkan*) leaks=0 ;; *) leaks=1 ;; esac
    need_vulkan_headers
    program "$@"
}

vulkan_mock() { # other drivers than the one that is here, and their failures
    need_vulkan_headers
    build gcc vulkan_check || return
    run "$bin/gcc-vulkan_check" || return
    vulkan gcc conformance vkmock-low,vkmock-turns
}

validated() { # PROGRAM VARIANTS...: the layer's first message fails a test
    export HCQ_TEST_VALIDATION=1
    vulkan gcc "$@"
}

vulkan_seeds() { # FROM TO
    need_vulkan_headers
    for seed in $(seq "$1" "$2"); do
        program gcc answers vulkan,vulkan-staged,vulkan-narrow,vkmock --seed "$seed" || return
    done
    program gcc graph vulkan --seeds 300
}

on_vulkan() { # COMMAND...
    need_vulkan_headers
    "$@"
}

kernels_check() { # what is refused, where; the .k.h beside the .k
    need gcc clang glslangValidator
    run sh tests/kernels/check.sh
}

spirv() { # CONFIG: what is read from modules; needs no device
    need_vulkan_headers
    once "$bin/spirv_modules.h" spirv_modules spirv_modules tests/vulkan/spirv/* || return 1
    build "$1" spirv && run "$bin/$1-spirv"
}

spirv_modules() { # NAME SOURCES...: NAME.h
    header=$1
    shift
    sh tests/vulkan/spirv_modules.sh "$@" >"$bin/$header.h"
}

no_vulkan() { # what a program meets where there is no loader, none of use, or no driver
    need_vulkan_headers
    # shellcheck disable=SC2086
    run gcc -std=c99 -O0 $warnings -I. -Itests tests/vulkan/no_vulkan.c -o "$bin/no-vulkan" -pthread ||
        return 1
    mkdir -p "$bin/broken" "$bin/useless"
    for name in libvulkan.so.1 libvulkan.so; do
        echo "not a library" >"$bin/broken/$name"
        echo 'int hcq_test_nothing;' | run gcc -shared -fPIC -x c - -o "$bin/useless/$name" ||
            return 1
    done
    LD_LIBRARY_PATH=$bin/broken run "$bin/no-vulkan" "libvulkan" || return 1
    LD_LIBRARY_PATH=$bin/useless run "$bin/no-vulkan" "vkGetInstanceProcAddr" || return 1
    VK_DRIVER_FILES=/nowhere VK_ICD_FILENAMES=/nowhere run "$bin/no-vulkan" \
        "finds no driver"
}

# ---- on CUDA: the mock driver is a library, each version of the driver one

cuda_mock() { # CONFIG VERSIONS...: the newest, 11.4, and others if asked for
    folder=$bin/cuda-$1 compiler=$(compiler_of "$1")
    shift
    mkdir -p "$folder"
    export HCQ_TEST_CUDA_MOCK="$folder"
    for version in '' 11040 "$@"; do
        library=$folder/libcuda${version:+-$version}.so.1
        # shellcheck disable=SC2086
        once "$library" $compiler $warnings -shared -fPIC -I. -Itests \
            ${version:+-DMOCK_CUDA_VERSION=$version} tests/mocks/libcuda.c -o "$library" \
            -pthread -ldl || return 1
    done
}

cuda() { # CONFIG PROGRAM VARIANT,VARIANT... ARGS...
    case $tier in --full) ;; *) rounds=--quick ;; esac
    cuda_mock "$1" && program "$@"
}

cuda_versions() { # what holds on one version of the driver holds on all
    for known in 11040 11070 12000; do # the others' is the newest
        cuda_mock gcc "$known" || return
        export HCQ_TEST_CUDA_VERSION="$known"
        cuda gcc conformance,cuda cumock,cumock-events || return
    done
}

cuda_all() { # CONFIG VARIANT VARIANTS
    cuda "$1" cuda_check all && # misuse loads NVRTC, which leaks
        cuda "$1" cuda,answers,graph "$2" && cuda "$1" conformance "$2,$3"
}

cuda_seeds() { # FROM TO: versions of the driver in turns
    rounds=--quick
    for seed in $(seq "$1" "$2"); do
        case $((seed % 4)) in
        0) known=11040 ;;
        1) known=11070 ;;
        2) known=12000 ;;
        3) known=13000 ;;
        esac
        cuda_mock gcc "$known" || return
        export HCQ_TEST_CUDA_VERSION="$known"
        program gcc answers cumock,cumock-events,cumock-lists,cumock-one,cumock-narrow \
            --seed "$seed" || return
    done
    cuda gcc graph cumock,cumock-events --seeds 200
}

no_cuda() { # what a program meets where there is no driver, none of use, or a part of one
    cuda_mock gcc || return
    # shellcheck disable=SC2086
    run gcc -std=gnu11 -O0 $warnings -I. -Itests tests/cuda/no_cuda.c -o "$bin/no-cuda" -pthread -ldl &&
        run "$bin/no-cuda"
}

cuda_examples() {
    cuda_mock gcc || return
    documented examples.sh --cuda
}

broken() { # COUNT: changes drawn by the day's seed; what no test can see is among them
    need python3
    need_vulkan_headers
    run sh tests/mutants.sh --folder "$bin/mutants" --jobs 1 fixed &&
        run sh tests/mutants.sh --folder "$bin/mutants" --jobs 1 --seed "$(date +%Y%m%d)" \
            --count "$1" --least 75
}

gpu_script() { # what needs a GPU can be run: no use without one, but it must not rot
    cuda_mock gcc || return
    run sh tests/gpu.sh --mock "$HCQ_TEST_CUDA_MOCK" "$bin/gpu-results"
}

cuda_include() { # prints where cuda.h is
    for folder in "${CUDA_HOME:-/usr/local/cuda}/include" /usr/local/cuda*/include /usr/include
    do
        if [ -f "$folder/cuda.h" ]; then
            echo "$folder"
            return
        fi
    done
    return 1
}

cuda_header() { # our declarations against those of the toolkit, which may come first
    need gcc g++
    folder=$(cuda_include) || skip "no cuda.h"
    for order in -UCUDA_H_AFTER -DCUDA_H_AFTER; do
        cuda_header_as gcc -std=c11 -Wstrict-prototypes -Wmissing-prototypes &&
            cuda_header_as g++ -x c++ -std=c++11 || return 1
    done
}

cuda_header_as() { # COMPILER FLAGS...
    # shellcheck disable=SC2046
    run "$@" $(echo "$warnings" | sed 's/-W[a-z]*-prototypes//g') "$order" -I. \
        -isystem "$folder" tests/cuda/header.c -o "$bin/cuda-header" -pthread -ldl &&
        run "$bin/cuda-header"
}

cross_backends() { # $with_gpus: the flags; cross compilers have no headers of Vulkan
    with_gpus=-DHCQ_CUDA
    vulkan_headers || return 0
    folder=$(echo '#include <vulkan/vulkan.h>' | gcc -E -x c - |
        sed -n 's|^# [0-9]* "\(.*\)/vulkan/vulkan\.h".*|\1|p' | head -n 1)
    mkdir -p "$bin/headers"
    for name in vulkan vk_video; do
        [ ! -d "$folder/$name" ] || ln -sfn "$folder/$name" "$bin/headers/$name"
    done
    with_gpus="-DHCQ_CUDA -DHCQ_VULKAN -I$bin/headers"
}

windows() {
    need x86_64-w64-mingw32-gcc wine
    export WINEPREFIX="$bin/wine" WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml="
    trap 'wineserver -k 2>/dev/null; wineserver -w 2>/dev/null' EXIT
    layout >/dev/null || return 1
    cross_backends
    compile="x86_64-w64-mingw32-gcc -std=c11 -O1 $warnings -I. -static"
    linked .exe tests/portability/layout examples/hello examples/replay examples/backend || return 1
    run timeout 240 wine "$bin/layout.exe" >"$bin/layout.crlf" || {
        [ -s "$bin/layout.crlf" ] || cannot "wine cannot run a program here"
        return 1
    }
    tr -d '\r' <"$bin/layout.crlf" >"$bin/layout.wine"
    same_layout wine || return 1
    run timeout 120 wine "$bin/hello.exe" || return 1
    no_device timeout 120 wine "$bin/hello.exe" CUDA || return 1
    run timeout 120 wine "$bin/replay.exe" 1000 || return 1
    run timeout 120 wine "$bin/backend.exe" || return 1
    # As for MSVC, which is not here and does not warn of inline functions.
    compile="$compile -Wno-unused-function -include tests/portability/msvc.h"
    linked -msvc.exe examples/hello examples/replay || return 1
    run timeout 120 wine "$bin/hello-msvc.exe" || return 1
    run timeout 120 wine "$bin/replay-msvc.exe" 1000 || return 1
    printf '#include <winsock2.h>\n#include <windows.h>\n#include <d3d11.h>\n' >"$bin/first.h"
    # shellcheck disable=SC2086
    run x86_64-w64-mingw32-gcc -std=c11 -fsyntax-only $with_gpus -I. -include "$bin/first.h" \
        examples/hello.c
}

linked() { # SUFFIX PROGRAMS...: the library once by $compile, and each program with it
    suffix=$1 apart=-DHCQ_API=extern
    shift
    for part in '' CPU_ VULKAN_ CUDA_; do
        apart="$apart -DHCQI_${part}IMPLEMENTED"
    done
    # shellcheck disable=SC2086
    run $compile -DHCQ_CPU $with_gpus -c "$bin/plain.c" -o "$bin/hcq$suffix.o" || return 1
    for program in "$@"; do
        # shellcheck disable=SC2086
        run $compile $apart $with_gpus "$program.c" "$bin/hcq$suffix.o" \
            -o "$bin/$(basename "$program")$suffix" || return 1
    done
}

cross() { # PROCESSOR EMULATOR PROGRAMS...: Linux on another processor, emulated
    processor=$1 emulator=$2
    shift 2
    need "$processor-gcc" "$emulator"
    cross_backends
    compile="$processor-gcc -std=c11 -O1 $warnings -I. -pthread"
    linked ".$processor" "$@" || return 1
    hello="$emulator -L /usr/$processor $bin/hello.$processor"
    # shellcheck disable=SC2086
    run $hello && no_device $hello CUDA &&
        run "$emulator" -L "/usr/$processor" "$bin/backend.$processor"
}

aarch64() {
    layout >/dev/null || return 1
    cross aarch64-linux-gnu qemu-aarch64 tests/portability/layout examples/hello \
        examples/backend || return
    run qemu-aarch64 -L /usr/aarch64-linux-gnu "$bin/layout.aarch64-linux-gnu" \
        >"$bin/layout.qemu" && same_layout qemu || return
    for cc in gcc aarch64-linux-gnu-gcc; do # one seed is one run on both
        run $cc -std=c11 -O1 -w -Itests/support/mini -Itests -I. tests/check/explore.c \
            -o "$bin/explore.$cc" -pthread -ldl -lm || return
    done
    for seed in 1 2 3; do
        [ "$("$bin/explore.gcc" trace "$seed")" = "$(qemu-aarch64 -L /usr/aarch64-linux-gnu \
            "$bin/explore.aarch64-linux-gnu-gcc" trace "$seed")" ] || {
            echo "seed $seed is another run on aarch64"
            return 1
        }
    done
}

armhf() { # 32 bits; not among the packages of --install
    command -v arm-linux-gnueabihf-gcc >/dev/null || cannot "no arm-linux-gnueabihf-gcc"
    cross arm-linux-gnueabihf qemu-arm examples/hello examples/backend
}

no_device() { # COMMAND: says so by its exit status
    run "$@"
    [ $? = 1 ] || { echo "did not end with 1" && return 1; }
}

same_layout() { # WHERE: its table against this machine's
    "$bin/layout" >"$bin/layout.here.$1"
    run diff "$bin/layout.here.$1" "$bin/layout.$1"
}

bench() { # HOW: only that it runs: its figures are no gate
    need gcc
    run sh tests/bench/run.sh "$1" --json "$bin/bench.json" && run test -s "$bin/bench.json"
}

# ---- the scheduler -----------------------------------------------------------

session() { # SESSION STAT...: the lines of its processes or threads, from their state on
    number=$1
    shift
    cat "$@" 2>/dev/null | awk -v number="$number" '{ sub(/^.*\) /, "") } $4 == number'
}

cpu_seconds() { # SESSION: what its processes have used, with those that they waited for
    session "$1" /proc/[0-9]*/stat | awk -v hertz="$(getconf CLK_TCK)" '
        { used += $12 + $13 + $14 + $15 }
        END { print int(used / hertz) }'
}

# A step is ended where nothing moves, never for being slow: for two minutes it has
# neither printed nor used any CPU time nor waited for its turn to, or it has printed
# nothing while it used ten minutes of that; and after two hours.
watch_step() { # SESSION LOG
    printed=0 used=0 quiet=0 from=0 age=0
    while sleep 5 && kill -0 "$1" 2>/dev/null; do
        size=$(wc -c <"$2") cpu=$(cpu_seconds "$1") age=$((age + 5)) quiet=$((quiet + 5))
        [ "$cpu" = "$used" ] || quiet=0
        ! session "$1" /proc/[0-9]*/task/[0-9]*/stat | grep -q '^R' || quiet=0
        [ "$size" = "$printed" ] || quiet=0 from=$cpu
        printed=$size used=$cpu
        if [ "$quiet" -ge 120 ] || [ $((cpu - from)) -ge 600 ] || [ "$age" -ge 7200 ]; then
            echo "$quiet s without CPU time, $((cpu - from)) s of it without a word" >"$2.ended"
            kill -- "-$1"
            sleep 5
            kill -9 -- "-$1"
            return
        fi
    done 2>/dev/null
}

run_step() { # NAME BACKEND: runs one, prints its line, keeps its result
    log=$tmp/$1.log
    began=$(date +%s)
    setsid sh tests/run.sh "$tier" --folder "$tmp" --step "$1" >"$log" 2>&1 </dev/null &
    running=$!
    watch_step "$running" "$log" >/dev/null 2>&1 &
    watching=$!
    wait "$running"
    status=$?
    kill "$watching" 2>/dev/null
    wait "$watching" 2>/dev/null
    running=''
    note='' result=FAIL
    case $status in
    0) result=PASS ;;
    77 | 78)
        note=$(tail -n 1 "$log")
        result=SKIP
        case $status:$installed:$2 in *:cuda) ;; 77:1:*) result=FAIL ;; esac
        case ",$require," in *",$2,"*) result=FAIL ;; esac
        [ "$result" = SKIP ] || note="may not be skipped: $note"
        ;;
    *)
        in=$(grep -aE '^\[ RUN' "$log" | tail -n 1 | cut -c14-)
        first=$(grep -aE 'Sanitizer: |^\[  FAILED|error: |^FAIL' "$log" | head -n 1)
        note="exit status $status${in:+, in $in}: ${first:-$(tail -n 1 "$log")}"
        ;;
    esac
    if [ -e "$log.ended" ]; then
        note="ended: $(cat "$log.ended"): $(grep '^+ ' "$log" | tail -n 1 | cut -c3-)"
    fi
    echo "$result" >"$tmp/$1.result"
    {
        printf '%s  %-24s %3d s%s\n' "$result" "$1" $(($(date +%s) - began)) "${note:+  ($note)}"
        if [ "$result" = FAIL ]; then
            sed 's/^/    | /' "$log" | tail -n 120
        fi
        grep -aE '^\[(==========|  (PASSED|FAILED|SKIPPED) +)\] .*test\(s\)' "$log" |
            grep -av 'Running '
    } >"$tmp/$1.report"
    cat "$tmp/$1.report"
}

worker() { # NUMBER: takes steps until none is left
    running=
    export own_cpu=$(($1 % $(nproc 2>/dev/null || echo 1)))
    trap '[ -z "$running" ] || kill -- "-$running" "$watching" 2>/dev/null; exit 1' TERM INT
    while read -r name _ backend _; do
        if mkdir "$tmp/$name.claim" 2>/dev/null; then
            run_step "$name" "$backend"
        fi
    done <"$tmp/steps"
}

chosen_steps() {
    step_table | while read -r name level backend command; do
        if [ -n "$only" ]; then
            # A pattern on purpose.
            # shellcheck disable=SC2254
            case $name in $only) ;; *) continue ;; esac
        else
            case $tier:$level in
            --quick:default | --quick:full | --default:full) continue ;;
            esac
            # What a larger step covers.
            case $tier:$name in
            --quick:*) ;;
            *:matrix-quick | *:conformance-vulkan) continue ;;
            esac
        fi
        echo "$name $level $backend $command"
    done
}

run_all() {
    tmp=$(mktemp -d "${TMPDIR:-/tmp}/hcq-tests.XXXXXX") || exit 1
    mkdir "$tmp/bin"
    printf '#define HCQ_IMPLEMENTATION\n#include "hcq.h"\n' >"$tmp/bin/plain.c"
    chosen_steps >"$tmp/steps"
    [ -s "$tmp/steps" ] || { echo "no step is called '$only' (try --list)"; exit 2; }
    began=$(date +%s)
    workers=
    trap 'kill $workers 2>/dev/null; wait; rm -rf "${tmp:?}/bin"; exit 1' INT TERM
    count=0
    while [ "$count" -lt "$jobs" ]; do
        worker "$count" &
        workers="$workers $!"
        count=$((count + 1))
    done
    wait
    rm -rf "${tmp:?}/bin" "$tmp"/*.claim
    echo "logs: $tmp, $(($(date +%s) - began)) s"
    passed=$(cat "$tmp"/*.result | grep -c PASS)
    failed=$(cat "$tmp"/*.result | grep -c FAIL)
    skipped=$(cat "$tmp"/*.result | grep -c SKIP)
    lost=$(($(wc -l <"$tmp/steps") - passed - failed - skipped))
    echo "$passed passed, $((failed + lost)) failed, $skipped skipped"
    [ $((failed + lost)) -eq 0 ]
}

# ---- installing --------------------------------------------------------------

packages() { # Debian's names; the Windows cross tools exist on amd64 only
    echo gcc g++ libc6-dev clang make tcc valgrind libcmocka-dev
    echo gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
    echo mesa-vulkan-drivers vulkan-validationlayers libvulkan-dev glslang-tools spirv-tools
    echo libtbb-dev opencl-headers ocl-icd-opencl-dev pocl-opencl-icd
    echo libopenmpi-dev openmpi-bin
    echo python3 chromium
    if [ "$(dpkg --print-architecture)" = amd64 ]; then
        echo gcc-mingw-w64-x86-64 wine wine64
    fi
    # clang's sanitizers are a package of their own since Debian 12
    if apt-cache show libclang-rt-dev >/dev/null 2>&1; then
        echo libclang-rt-dev
    fi
}

missing_packages() {
    for package in $(packages); do
        dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed' ||
            echo "$package"
    done
}

known_packages() { # what this system's lists do not have is left to its steps
    for package in "$@"; do
        if apt-cache show "$package" >/dev/null 2>&1; then
            echo "$package"
        else
            echo "no package is called $package here" >&2
        fi
    done
}

install_packages() {
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "--install knows Debian's apt-get only. Please install by hand: gcc, g++, clang,"
        echo "cmocka, valgrind, tcc, a mingw-w64 compiler for x86-64 and wine, an aarch64-linux"
        echo "compiler and qemu-user, python3, chromium; a Vulkan driver (Mesa's lavapipe needs"
        echo "no GPU), Vulkan's headers, loader and validation layer, glslang and the SPIR-V"
        echo "tools; Open MPI; for the benchmark oneTBB, OpenCL headers and PoCL."
        exit 1
    fi
    [ -n "$(missing_packages)" ] || return 0
    become=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null 2>&1 || {
            echo "neither root nor sudo; please install: $(missing_packages | tr '\n' ' ')"
            exit 1
        }
        become=sudo
    fi
    apt="$become env DEBIAN_FRONTEND=noninteractive apt-get -y -o DPkg::Lock::Timeout=300"
    $apt update || echo "apt-get update failed, trying with the lists that are here"
    # shellcheck disable=SC2046
    $apt install --no-install-recommends $(known_packages $(missing_packages)) || {
        echo "apt-get could not install: $(missing_packages | tr '\n' ' ')"
        exit 1
    }
}

# ---- options -----------------------------------------------------------------

tier=--default only='' require='' step='' tmp='' list=0 installed=0
jobs=$(nproc 2>/dev/null || echo 2)
usage() {
    sed -n '4,12s/^# *//p' tests/run.sh
    exit 2
}
while [ $# -gt 0 ]; do
    case $1 in
    --quick | --default | --full) tier=$1 ;;
    --install) installed=1 ;;
    --list) list=1 ;;
    --require | --only | --jobs | --step | --folder)
        [ $# -ge 2 ] || usage
        case $1 in
        --require) require=$2 ;;
        --only) only=$2 ;;
        --jobs) jobs=$2 ;;
        --step) step=$2 ;;
        --folder) tmp=$2 ;;
        esac
        shift
        ;;
    *) usage ;;
    esac
    shift
done
rounds='' matrix_size=''
case $tier in
--quick) rounds=--quick matrix_size=--quick ;;
--full) matrix_size=--full ;;
esac

if [ -n "$step" ]; then
    bin=$tmp/bin
    # shellcheck disable=SC2046
    set -- $(step_table | grep "^$step ")
    shift 3
    "$@"
    exit
fi
for backend in $(echo "$require" | tr , ' '); do
    case $backend in
    cpu | vulkan | cuda-mock | cuda) ;;
    *) usage ;;
    esac
done
case $jobs in
'' | 0 | *[!0-9]*) usage ;;
esac
if [ "$list" = 1 ]; then
    chosen_steps | while read -r name level backend _; do
        printf '%-24s %-8s %s\n' "$name" "$level" "$backend"
    done
    exit
fi
[ "$installed" = 0 ] || install_packages
run_all
