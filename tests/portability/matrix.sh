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
#   static   HCQ_STATIC in two objects of one program
#   subsets  the implementation with each choice of backends, and none
#   check0   HCQ_VALIDATE 0
#   check1   HCQ_VALIDATE 1 with NDEBUG
#   ndebug   NDEBUG
#   condvar  HCQ_NO_FUTEX
#   late     the implementation after declarations and system headers
#   header   the header part alone, of every companion
#   windows  one, for Windows, where gcc has a sister that compiles for it
#
# All but subsets have every backend that is there. Without vulkan/vulkan.h that of
# Vulkan is left out, and a note says so. --full builds and runs them all. --default
# does so for C99, in C++11 one, two, static and header, and with -O2 for one standard
# of each language; of the others it looks at one and header without making code.

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

# ---- the backends ------------------------------------------------------------

backends="-DHCQ_CPU -DHCQ_CUDA"
vulkan=
for compiler in $compilers; do
    command -v "$compiler" >/dev/null 2>&1 || continue
    if echo '#include <vulkan/vulkan.h>' | "$compiler" -E -x c - >/dev/null 2>&1; then
        vulkan=-DHCQ_VULKAN
        backends="$backends -DHCQ_VULKAN"
    else
        echo "note: no vulkan/vulkan.h: without HCQ_VULKAN" >&2
    fi
    break
done

# ---- the sources -------------------------------------------------------------

cat >"$tmp/implementation.c" <<'END'
#define HCQ_IMPLEMENTATION
#include "hcq.h"
#include "hcq.h"
typedef int not_empty;
END

# Runs a kernel and checks what it wrote; 0 is success.
cat >"$tmp/use.h" <<'END'
#if defined(HCQ_CPU) || defined(HCQ_VULKAN) || defined(HCQ_CUDA)
typedef struct { uint64_t data; uint32_t add, count; } use_args;

static void use_kernel(const void *args, const hcq_block *block) {
    const use_args *k = HCQ_ARGS(use_args, args);
    uint32_t *data = HCQ_PTR(uint32_t, k->data);
    HCQ_FOR_THREADS(block, t) {
        uint32_t i = block->id.x * block->block.x + t.x;
        if (i < k->count) {
            data[i] += k->add;
        }
    }
}

static int use_queue(hcq_device *device, hcq_buffer buffer) {
    hcq_program_desc desc = { "add", use_kernel, { HCQ_ARG_INOUT, HCQ_ARG_U32, HCQ_ARG_U32 },
                              NULL, NULL, { NULL, 0, NULL }, { NULL, 0, NULL }, 0 };
    use_args args = { 0, 5, 100 };
    hcq_program *program;
    hcq_queue *queue;
    hcq_point done;
    hcq_result result;
    args.data = buffer.address;
    if (hcq_program_create(device, &desc, &program) != HCQ_OK) { return 1; }
    if (hcq_queue_create(device, HCQ_COMPUTE, &queue) != HCQ_OK) { return 2; }
    hcq_queue_exec(queue, program, &args, sizeof args, hcq_dim(4, 1, 1), hcq_dim(32, 1, 1));
    result = hcq_queue_submit(queue, device, &done);
    if (result == HCQ_OK) { result = hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER); }
    hcq_queue_destroy(queue);
    hcq_program_destroy(program);
    return result == HCQ_OK ? 0 : 3;
}

/* What the companions declare is there, and each knows its own devices alone. */
static int use_companions(hcq_device *device, int cpu) {
    int known = cpu;
#ifdef HCQ_VULKAN
    hcq_vulkan_info vulkan;
    known += hcq_vulkan_info_get(device, &vulkan) == HCQ_OK;
#endif
#ifdef HCQ_CUDA
    hcq_cuda_info cuda;
    known += hcq_cuda_info_get(device, &cuda) == HCQ_OK;
#endif
    return device != NULL && known == 1 ? 0 : 4;
}

static int use_device(const char *name, int cpu) {
    uint32_t data[100];
    hcq_device *device;
    hcq_buffer buffer;
    int status;
    hcq_result opened = hcq_open(name, NULL, &device);
    if (opened == HCQ_ERROR_NO_DEVICE && !cpu) { return 0; }
    if (opened != HCQ_OK) { return 10; }
    for (uint32_t i = 0; i < 100; i++) { data[i] = i; }
    if (hcq_alloc(device, sizeof data, 0, &buffer) != HCQ_OK) { return 11; }
    if (hcq_copyin(buffer, data, sizeof data) != HCQ_OK) { return 12; }
    status = use_companions(device, cpu);
    if (status == 0 && cpu) { status = use_queue(device, buffer); }
    if (hcq_copyout(data, buffer, sizeof data) != HCQ_OK) { return 13; }
    for (uint32_t i = 0; i < 100; i++) {
        if (data[i] != i + (cpu ? 5 : 0)) { return 14; }
    }
    if (hcq_free(buffer) != HCQ_OK) { return 15; }
    return hcq_close(device) == HCQ_OK ? status : 16;
}

#endif

/* Without a backend its devices are unknown, and everything still links. */
#if !defined(HCQ_CPU) || !defined(HCQ_VULKAN) || !defined(HCQ_CUDA)
static int use_unknown(const char *name) {
    hcq_device *device = NULL;
    return hcq_open(name, NULL, &device) != HCQ_ERROR_NO_DEVICE || device != NULL;
}
#endif

static int use(void) {
#ifndef HCQ_CPU
    if (use_unknown("CPU")) { return 20; }
#endif
#ifndef HCQ_VULKAN
    if (use_unknown("VULKAN")) { return 21; }
#endif
#ifndef HCQ_CUDA
    if (use_unknown("CUDA")) { return 22; }
#endif
#if defined(HCQ_CPU)
    return use_device("CPU", 1);
#elif defined(HCQ_VULKAN)
    return use_device("VULKAN", 0);
#elif defined(HCQ_CUDA)
    return use_device("CUDA", 0);
#else
    return 0;
#endif
}
END

cat >"$tmp/one.c" <<'END'
#define HCQ_IMPLEMENTATION
#include "hcq.h"
#include "hcq.h"
#include "use.h"
int main(void) { return use(); }
END

# Declarations and system headers came first. A strict -std has then lost what
# the implementation needs from the system, which has to be said, not guessed.
cat >"$tmp/late.c" <<'END'
#include <stdio.h>
#include "hcq.h"
#define HCQ_IMPLEMENTATION
#include "hcq.h"
#include "use.h"
int main(void) { return use(); }
END

cat >"$tmp/user.c" <<'END'
#include "hcq.h"
#include "hcq.h"
#include "use.h"
int main(void) { return use(); }
END

cat >"$tmp/static_other.c" <<'END'
#define HCQ_STATIC
#define HCQ_IMPLEMENTATION
#include "hcq.h"
#include "use.h"
extern int other(void);
int other(void) { return use(); }
END

cat >"$tmp/static_main.c" <<'END'
#define HCQ_STATIC
#define HCQ_IMPLEMENTATION
#include "hcq.h"
#include "use.h"
extern int other(void);
int main(void) { return use() != 0 || other() != 0; }
END

cat >"$tmp/header.c" <<'END'
#include "hcq.h"
#include "hcq.h"
extern int user(hcq_device *device);
int user(hcq_device *device) { return hcq_close(device) == HCQ_OK; }
END

# ---- compiling and running ---------------------------------------------------

count=0
failed=0

fail() {
    echo "FAIL $*"
    failed=$((failed + 1))
}

compile() { # OUT FLAGS...: one command line; $cc, $std, $opt are the combination
    out=$1
    shift
    count=$((count + 1))
    $cc $std $opt $lang_warnings $warnings -pthread -I. -I"$tmp" -x $lang "$@" \
        -o "$tmp/$out" || {
        fail "$cc $std $opt: $*"
        false
    }
}

link_run() { # OUT OBJECTS...: links objects and runs the program
    out=$1
    shift
    count=$((count + 1))
    objects=
    for object in "$@"; do
        objects="$objects $tmp/$object"
    done
    $linker -pthread $objects -o "$tmp/$out" -ldl || {
        fail "$cc $std $opt: linking $*"
        return 1
    }
    start "$out"
}

start() { # OUT
    timeout -k 5 60 "$tmp/$1" || fail "$cc $std $opt: $1 ran with exit status $?"
}

look() { # NAME FLAGS...: the warnings, and no code
    name=$1
    shift
    count=$((count + 1))
    $cc $std $opt $lang_warnings $warnings -pthread -I. -I"$tmp" -x $lang "$@" -fsyntax-only \
        "$tmp/one.c" || fail "$cc $std $opt: $name"
}

looked_at() {
    look one $backends
}

one_file() {
    compile one.o $backends -c "$tmp/one.c" && link_run one one.o
}

two_files() {
    compile implementation.o $backends -c "$tmp/implementation.c" &&
        compile user.o $backends -c "$tmp/user.c" && link_run two implementation.o user.o
}

static_files() {
    compile static_main.o $backends -c "$tmp/static_main.c" &&
        compile static_other.o $backends -c "$tmp/static_other.c" &&
        link_run static static_main.o static_other.o
}

subsets() { # those that are not $backends
    subset none
    subset cpu -DHCQ_CPU
    subset cuda -DHCQ_CUDA
    [ -n "$vulkan" ] || return 0
    subset vulkan -DHCQ_VULKAN
    subset no-cpu -DHCQ_VULKAN -DHCQ_CUDA
    subset no-vulkan -DHCQ_CPU -DHCQ_CUDA
    subset no-cuda -DHCQ_CPU -DHCQ_VULKAN
}

subset() { # NAME FLAGS...
    name=$1
    shift
    compile "$name.o" "$@" -c "$tmp/one.c" && link_run "$name" "$name.o"
}

options() {
    if [ "$size" = --default ]; then
        look check0 $backends -DHCQ_VALIDATE=0
        look check1 $backends -DHCQ_VALIDATE=1 -DNDEBUG
        look ndebug $backends -DNDEBUG
        look condvar $backends -DHCQ_NO_FUTEX
        return
    fi
    compile check0.o $backends -DHCQ_VALIDATE=0 -c "$tmp/one.c" && link_run check0 check0.o
    compile check1.o $backends -DHCQ_VALIDATE=1 -DNDEBUG -c "$tmp/one.c" &&
        link_run check1 check1.o
    compile ndebug.o $backends -DNDEBUG -c "$tmp/one.c" && link_run ndebug ndebug.o
    compile condvar.o $backends -DHCQ_NO_FUTEX -c "$tmp/one.c" && link_run condvar condvar.o
}

late() {
    strict=$std
    std=$(echo "$strict" | sed 's/=c/=gnu/')
    compile late.o $backends -c "$tmp/late.c" && link_run late late.o
    std=$strict
    count=$((count + 1))
    if ! $cc $std -I. -I"$tmp" -x $lang $backends -c "$tmp/late.c" -o "$tmp/late.o" 2>"$tmp/said"
    then
        grep -q '#error.*hcq' "$tmp/said" || fail "$cc $std: late, without a word from hcq"
    fi
}

windows() { # compiled and linked, not run, and without Vulkan's headers
    [ "$compiler:$lang" = gcc:c ] || return 0
    if command -v x86_64-w64-mingw32-gcc >/dev/null 2>&1; then
        cc=x86_64-w64-mingw32-gcc
        compile one.exe -DHCQ_CPU -DHCQ_CUDA "$tmp/one.c" -static
        cc=$compiler
    else
        echo "note: no x86_64-w64-mingw32-gcc" >&2
    fi
}

header() { # includes alone need no library, no flag and no implementation
    compile header.o -c "$tmp/header.c"
    for companion in hcq_*.h; do
        [ -f "$companion" ] || continue
        case $companion:$vulkan in hcq_vulkan.h:) continue ;; esac
        backend=$(basename "$companion" .h | tr '[:lower:]' '[:upper:]')
        compile header.o "-D$backend" -c "$tmp/header.c"
    done
}

combination() { # COMPILER STANDARD OPTIMISATION SHAPES...
    compiler=$1 std=-std=$2 opt=$3
    shift 3
    case $std in
    *++*)
        lang=c++ lang_warnings=
        case $compiler in gcc) cc=g++ ;; clang) cc=clang++ ;; *) cc=$compiler ;; esac
        ;;
    *) lang=c lang_warnings=$c_warnings cc=$compiler ;;
    esac
    linker=$cc
    for shape in "$@"; do
        "$shape"
    done
}

known_standards() { # COMPILER: those it understands
    for standard in c99 c11 c17 c2x c++11 c++14 c++17 c++20; do
        lang=c
        case $standard in c++*) lang=c++ ;; esac
        if echo | "$1" "-std=$standard" -x $lang -fsyntax-only - 2>/dev/null; then
            echo "$standard"
        else
            echo "note: $1 does not know $standard" >&2
        fi
    done
}

for compiler in $compilers; do
    command -v "$compiler" >/dev/null 2>&1 || {
        echo "note: no $compiler" >&2
        [ "$size" = --quick ] && continue
        exit 1
    }
    case $size in
    --quick)
        combination "$compiler" c99 -O0 one_file static_files header
        combination "$compiler" c++11 -O0 two_files
        continue
        ;;
    esac
    for standard in $(known_standards "$compiler"); do
        shapes="looked_at header"
        case $size:$standard in
        --full:* | *:c99)
            shapes="one_file header two_files static_files late subsets options windows"
            ;;
        *:c++11) shapes="one_file header two_files static_files" ;;
        esac
            combination "$compiler" "$standard" -O0 $shapes
        case $size:$standard in
        --full:*) ;;
        *:c17 | *:c++20) shapes=one_file ;;
        *) continue ;;
        esac
            combination "$compiler" "$standard" -O2 $shapes
    done
done

echo "$count commands, $failed failures"
[ "$count" -gt 0 ] && [ "$failed" -eq 0 ]
