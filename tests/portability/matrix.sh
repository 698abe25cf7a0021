#!/bin/sh
# Compiles the library in every way a user might, all warnings as errors, and
# runs what was linked.
#
#   sh tests/portability/matrix.sh [--quick | --full] [--compiler gcc|clang]
#
# For each compiler, language standard and optimisation:
#
#   one      one file with the implementation, header included twice
#   two      implementation in one object, use in another
#   static   HCQ_STATIC; symbols.sh holds that it exports nothing
#   subsets  the implementation with each choice of backends, and none
#   options  HCQ_VALIDATE 0, and 1 with NDEBUG; NDEBUG; HCQ_NO_FUTEX
#   checked  HCQ_CHECK, with every backend, static with that of the CPU, and without it
#   late     the implementation after declarations and system headers
#   header   the header part alone, of every companion
#
# All but subsets have every backend that is there. Without vulkan/vulkan.h that of
# Vulkan is left out, and a note says so. --full builds and runs them all in the oldest of
# both languages, some in the newest, and looks at those between without making code. The
# default does what differs: C99 in all ways, with one or no backend as subsets, and C++11 as
# two; at C++11's other shapes, the newest of both languages and the options it looks.

# Lists of flags and of words are split on purpose.
# shellcheck disable=SC2086
set -u
cd "$(dirname "$0")/../.." || exit 1

c_warnings="-Wstrict-prototypes -Wmissing-prototypes"
warnings="-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wundef -Wcast-qual"
warnings="$warnings -Wdouble-promotion -Wvla -Werror"

size=--default compilers="gcc clang"
while [ $# -gt 0 ]; do
    case $1 in
    --quick | --default | --full) size=$1 ;;
    --compiler)
        compilers=${2:?a compiler}
        shift
        ;;
    *)
        sed -n '5p' "$0"
        exit 2
        ;;
    esac
    shift
done

tmp=$(mktemp -d "${TMPDIR:-/tmp}/hcq-matrix.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM

# ---- the sources -------------------------------------------------------------

# What hello.c does works on the CPU if that is compiled in, maybe on a GPU that is, and
# nowhere else. What a companion declares is there, and knows no device of another backend.
sed '/^#define HCQ_/d; /hcq\.h"/d; s/^int main(/static int hello(/' examples/hello.c >"$tmp/hello.h"
cat >"$tmp/use.h" <<'END'
#include "hcq.h"
#include "hcq.h"
#include "hello.h"

static int fails_on(const char *name) {
    char text[16];
    char *arguments[2] = { text, text };
    snprintf(text, sizeof text, "%s", name);
    return hello(2, arguments);
}

static uint32_t sum_of(const hcq_block *block) { /* a macro that hello.c does not need */
    uint32_t sum = 0;
    HCQ_FOR_THREADS(block, t) { sum += t.x; }
    return sum;
}

static int use(void) {
    const hcq_block block = { { 0, 0, 0 }, { 1, 1, 1 }, { 3, 1, 1 }, NULL };
    int cpu = 1, vulkan = fails_on("VULKAN"), cuda = fails_on("CUDA");
    hcq_device *device = NULL;
#ifdef HCQ_CPU
    cpu = 0;
    if (hcq_open("CPU", NULL, &device) != HCQ_OK) { return 1; }
#endif
#ifdef HCQ_VULKAN
    hcq_vulkan_info vulkan_info;
    vulkan = hcq_vulkan_info_get(device, &vulkan_info) != HCQ_OK;
#endif
#ifdef HCQ_CUDA
    hcq_cuda_info cuda_info;
    cuda = hcq_cuda_info_get(device, &cuda_info) != HCQ_OK;
#endif
#ifdef HCQ_CHECK
    if (hcq_check_meet(device) != HCQ_OK || hcq_check_host(NULL, 0, 0) == HCQ_OK) { return 1; }
#endif
#if defined(HCQ_CHECK) && !defined(HCQ_CPU)
    if (hcq_explore(NULL, NULL) != HCQ_ERROR_UNSUPPORTED) { return 1; }
#endif
    if (hcq_close(device) != HCQ_OK || sum_of(&block) != 3) { return 1; }
    return fails_on("CPU") != cpu || vulkan != 1 || cuda != 1;
}
END

printf '#define HCQ_IMPLEMENTATION\n#include "hcq.h"\n#include "hcq.h"\ntypedef int not_empty;\n' \
    >"$tmp/implementation.c"
printf '#include "use.h"\nint main(void) { return use(); }\n' >"$tmp/user.c"
printf '#define HCQ_IMPLEMENTATION\n#include "user.c"\n' >"$tmp/one.c"
printf '#define HCQ_STATIC\n#include "one.c"\n' >"$tmp/static.c"
# Declarations and system headers came first. A strict -std has then lost what
# the implementation needs from the system, which has to be said, not guessed.
printf '#include <stdio.h>\n#include "hcq.h"\n#include "one.c"\n' >"$tmp/late.c"
cat >"$tmp/header.c" <<'END'
#include "hcq.h"
#include "hcq.h"
extern int user(hcq_device *device);
int user(hcq_device *device) { return hcq_close(device) == HCQ_OK; }
END

# ---- compiling and running ---------------------------------------------------

count=0 failed=0

fail() {
    echo "FAIL $*"
    failed=$((failed + 1))
}

compile() { # SOURCE FLAGS...: one command line; $cc, $std, $opt are the combination
    source=$1
    shift
    count=$((count + 1))
    $cc $std $opt $lang_warnings $warnings -pthread -I. -Iexamples -I"$tmp" -x $lang "$@" "$tmp/$source.c" || {
        fail "$cc $std $opt: $source $*"
        false
    }
}

start() { # OBJECTS...: links and runs them
    count=$((count + 1))
    $cc -pthread "$@" -o "$tmp/program" -ldl && "$tmp/program" ||
        fail "$cc $std $opt: $* linked or ran with $?"
}

build() { # SOURCE FLAGS...
    compile "$@" -c -o "$tmp/built.o" && start "$tmp/built.o"
}

look() { # FLAGS...: the warnings, and no code
    compile one "$@" -fsyntax-only
}

one() { build one $backends; }
looked_at() { look $backends; }
static() {
    [ "$size-$lang" != --default-c++ ] || { compile static $backends -fsyntax-only; return; }
    build static $backends
}

two() {
    compile implementation $backends -c -o "$tmp/implementation.o" &&
        compile user $backends -c -o "$tmp/user.o" &&
        start "$tmp/implementation.o" "$tmp/user.o"
}

subsets() { # those that are not $backends
    build one
    build one -DHCQ_CPU
    build one -DHCQ_CUDA
    [ -z "$vulkan" ] || build one -DHCQ_VULKAN
    [ "$size$vulkan" = --full-DHCQ_VULKAN ] || return 0
    build one -DHCQ_VULKAN -DHCQ_CUDA
    build one -DHCQ_CPU -DHCQ_CUDA
    build one -DHCQ_CPU -DHCQ_VULKAN
}

options() {
    if [ "$size" = --default ]; then
        look $backends -DHCQ_VALIDATE=0
        look $backends -DHCQ_VALIDATE=1 -DNDEBUG -DHCQ_NO_FUTEX
        return
    fi
    for option in -DHCQ_VALIDATE=0 "-DHCQ_VALIDATE=1 -DNDEBUG" -DNDEBUG -DHCQ_NO_FUTEX; do
        build one $backends $option
    done
}

checked() {
    if [ "$size" = --full ]; then
        build one $backends -DHCQ_CHECK
    else
        look $backends -DHCQ_CHECK
        [ "$size-$lang" != --default-c++ ] || return 0
    fi
    build static -DHCQ_CPU -DHCQ_CHECK
    build one -DHCQ_CUDA -DHCQ_CHECK   # without a CPU, too
}

late() {
    strict=$std
    std=$(echo "$strict" | sed 's/=c/=gnu/')
    build late $backends
    std=$strict
    if ! $cc $std -I. -Iexamples -I"$tmp" -x $lang $backends -fsyntax-only "$tmp/late.c" 2>"$tmp/said"; then
        grep -q '#error.*hcq' "$tmp/said" || fail "$cc $std: late, without a word from hcq"
    fi
}

header() { # includes alone need no library, no flag and no implementation
    for backend in -UHCQ_CPU -DHCQ_CPU -DHCQ_CUDA -DHCQ_CHECK $vulkan; do
        compile header "$backend" -c -o "$tmp/header.o"
    done
}

combination() { # COMPILER STANDARD OPTIMISATION SHAPES...
    compiler=$1 std=-std=$2 opt=$3
    shift 3
    case $std:$compiler in
    *++*:gcc) lang=c++ lang_warnings='' cc=g++ ;;
    *++*:*) lang=c++ lang_warnings='' cc=$compiler++ ;;
    *) lang=c lang_warnings=$c_warnings cc=$compiler ;;
    esac
    if ! echo | "$cc" "$std" -x $lang -fsyntax-only - 2>/dev/null; then
        echo "note: $compiler does not know $std" >&2
        return
    fi
    for shape in "$@"; do
        "$shape"
    done
}

for compiler in $compilers; do
    command -v "$compiler" >/dev/null 2>&1 || {
        echo "note: no $compiler" >&2
        [ "$size" = --quick ] && continue
        exit 1
    }
    vulkan=-DHCQ_VULKAN
    echo '#include <vulkan/vulkan.h>' | "$compiler" -E -x c - >/dev/null 2>&1 || {
        echo "note: no vulkan/vulkan.h: without HCQ_VULKAN" >&2
        vulkan=
    }
    backends="-DHCQ_CPU -DHCQ_CUDA $vulkan"
    case $size in
    --quick)
        combination "$compiler" c99 -O0 one static header
        combination "$compiler" c++11 -O0 two checked
        ;;
    --default)
        combination "$compiler" c99 -O0 two static header late subsets options checked
        combination "$compiler" c++11 -O0 two static header checked
        combination "$compiler" c2x -O0 looked_at header
        combination "$compiler" c++20 -O0 looked_at header
        ;;
    --full)
        for standard in c99 c++11; do
            combination "$compiler" $standard -O0 one two static header late subsets options \
                checked
        done
        combination "$compiler" c99 -O2 one two static subsets options checked
        combination "$compiler" c++11 -O2 two static
        for standard in c11 c17 c++14 c++17; do
            combination "$compiler" $standard -O0 looked_at header
        done
        for standard in c2x c++20; do
            combination "$compiler" $standard -O0 two header late
            combination "$compiler" $standard -O2 static
        done
        ;;
    esac
done

echo "$count commands, $failed failures"
[ "$count" -gt 0 ] && [ "$failed" -eq 0 ]
