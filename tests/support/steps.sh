# steps.sh - what run.sh's steps are made of: what is built, once for all steps of a
# configuration, and run how. Part of run.sh, which sets $bin, $tier, $rounds, $warnings.
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
        run $how $warnings -DHCQ_NO_THREADS -O0 -c examples/hello.c -o "$bin/no-threads.o" &&
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
    cat tests/run.sh tests/support/steps*.sh | tr -c 'a-z0-9$-' '\n' | cat - tests/gpu.sh |
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
    # shellcheck disable=SC2046,SC2086
    cuda_mock gcc && program single misuse cumock && choose_backends single-check &&
        run $(compiler_of single-check) $with_vulkan $with_cuda $warnings -I. -I"$bin" -Itests \
            -fsyntax-only tests/core/misuse.c
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

# ---- on other systems

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
    compile="$compile -O0 -Wno-unused-function -include tests/portability/msvc.h"
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
        run $cc -std=c11 -O0 -w -Itests/support/mini -Itests -I. tests/check/explore.c \
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
    export BENCH_LIMIT_S=900           # beside other steps
    run sh tests/bench/run.sh "$1" --json "$bin/bench.json" && run test -s "$bin/bench.json"
}
