#!/bin/sh
# Runs hcq's tests.
#
#   sh tests/run.sh                what a change must pass      six minutes
#   sh tests/run.sh --quick        after every edit             a minute
#   sh tests/run.sh --full         before a release             three quarters of an hour
#   sh tests/run.sh --install      installs what is missing (Debian), then tests
#   sh tests/run.sh --require LIST backends not to be skipped: cpu,vulkan,cuda-mock,cuda
#   sh tests/run.sh --only NAME    one step, whatever its tier; patterns: 'tsan-*'
#   sh tests/run.sh --jobs N       steps at a time [two for a CPU: some wait]
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
#   default  the checker tells 37 programs that lack an ordering, and 500 drawn ones,
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
graph-seeds            default  cpu         on_one program gcc graph all --seeds 500
asan-graph             default  -           on_one program asan graph all --seeds 50
windows                default  -           windows
bench-smoke            default  -           bench --smoke
tsan-graph             default  -           program tsan graph all --seeds 20
tsan-answers           default  -           quickly answers tsan cpu,cpu-narrow,mock 1
release-conformance    default  cpu         program release conformance cpu --quick
aarch64                default  -           aarch64
schedules              quick    -           schedules
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
answers                quick    cpu         answers gcc cpu 1
answers-signals        default  cpu         on_one program gcc answers cpu,mock --signals 5
unit                   quick    cpu         unit
graph                  quick    cpu         program gcc graph all --seeds 100
symbols                quick    cpu         script tests/portability/symbols.sh
snippets               default  cpu         documented snippets.sh
heat                   default  -           documented heat.sh
page                   full     cpu         documented page.sh
starts                 default  cpu         starts 300
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
spirv                  default  vulkan      spirv asan
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
profile                default  cpu         script tests/core/profile.sh
flat                   default  cpu         program gcc flat cpu
flat-mock              default  cpu         program gcc flat mock --submissions 50000
clang-conformance      full     cpu         program clang conformance cpu
cxx-conformance        full     cpu         program cxx conformance cpu
condvar-conformance    full     cpu         program condvar conformance cpu --quick
condvar-answers        default  cpu         quickly answers condvar cpu 6
single                 default  cpu         single_header
release                default  cpu         released
asan-answers           default  -           quickly answers asan cpu,cpu-narrow,mock 3
asan-mock              default  -           on_one program asan conformance mock --quick
asan-misuse            default  -           program asan misuse cpu
asan-faults            full     -           program asan faults cpu --quick
armhf                  default  -           armhf
conformance-cuda       default  cuda        program gcc conformance cuda
tsan-variants          full     -           program tsan conformance mock,trace,cpu-nospin,cpu-narrow,cpu-no-native-wait,trace-mock
valgrind-faults        full     -           program valgrind faults cpu-nospin --quick
condvar-nospin         full     cpu         program condvar conformance cpu-nospin
single-conformance     full     cpu         program single conformance cpu
validation-all         full     vulkan      quickly validated conformance vulkan,vulkan-staged,vulkan-plain,vulkan-no-copy,vulkan-narrow
validation-suites      full     vulkan      quickly validated vulkan,graph,kernels vulkan
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

# A step is this script again, in a session of its own, with its output in a log.
. tests/support/steps.sh
. tests/support/steps_gpu.sh

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
    echo libclang-rt-dev               # clang's sanitizers, since Debian 12
    if [ "$(dpkg --print-architecture)" = amd64 ]; then
        echo gcc-mingw-w64-x86-64 wine wine64
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
jobs=$((jobs * 2))                   # while some wait for something
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
