#!/bin/sh
# Compiles and runs every code block of the documentation, so that none of it
# can go stale:   sh tests/examples/snippets.sh [CC]      [$CC, else cc]
#
# Taken are the ```c blocks of README.md and docs/ideas.md and the QUICK START in the
# comments of hcq.h and its companions. How a block is compiled depends on what is in it:
#
#   int main      a whole program: as it is; it must end with 0
#   otherwise     a fragment: the body of a function, in which there are
#                     hcq_device *dev        open, complains on stderr
#                     hcq_queue *q, *c       a compute and a copy queue, empty
#                     hcq_program *axpy      the kernel of examples/hello.c
#                     axpy_args args         for x, y, 2 and 1000
#                     hcq_buffer x, y        1000 int32_t each
#                     int32_t data[1000]     memory of the host
#                     hcq_signal s, t        at 0
#                     hcq_point done         of nothing
#                     hcq_result r           HCQ_OK
#                 It must leave r at HCQ_OK, log nothing, and all that it
#                 submitted must end within 10 seconds.
#
# All as C99 and, without running it again, as C++11 with -Wall -Wextra -Werror, linked
# with one implementation, which takes longest to compile ($HCQ_OBJECT if that is set: one
# with all backends).
# The first block of the README must be examples/hello.c, byte for byte; examples.sh
# runs it. A block that needs vulkan/vulkan.h is left out without it, and that is said.
#
# Their "```c vulkan" blocks are fragments with HCQ_VULKAN, in which there
# are VkSemaphore engine_semaphore and uint64_t engine_value. They are compiled, not
# run.
#
# Their "```c cuda" blocks are fragments with HCQ_CUDA, run on the mock of
# CUDA's driver (in $HCQ_TEST_CUDA_MOCK, else built): dev is of CUDA, and there are, in
# its context, which is current,
#     CUstream your_stream   with nothing in it
#     CUevent your_event     recorded in it
# and some functions of <cuda.h>, which is not needed.
#
# What README and ideas.md show of a refusal, an explanation, a table of the profile and a
# sanitizer's report is what programs say, but for numbers.
#
# The lines of GLSL in hcq_vulkan.h's first comment are compiled where there is a
# glslangValidator. Without a main they are declarations of one to which a main is
# added. The kernel in hcq_cuda.h's first comment is compiled where there is nvcc.
set -eu
cc=${1:-${CC:-cc}}
. "$(dirname "$0")/shared.sh"

# ---- finding them --------------------------------------------------------------
# Their blocks become c-1.c, c-2.c ..., c_vulkan-1.c ..., glsl-1.c ...

awk -v dir="$dir/" '
    /^```/ && inside { inside = 0; close(file); next }
    /^```./ { inside = 1; sub(/^```/, ""); gsub(/ /, "_"); file = dir $0 "-" ++count[$0] ".c"; next }
    /^```/ { inside = 1; file = "/dev/null"; next }
    inside { print > file }
    END { exit inside }' "$root/README.md" "$root/docs/ideas.md" ||
    fail "a block of code has no end"
for header in hcq hcq_cpu hcq_vulkan hcq_cuda; do
    awk -v file="$dir/$header-quick.c" '
        /^   QUICK START/ { inside = 1; next }
        inside && /^   ====/ { exit }
        inside { sub(/^   /, ""); print > file }' "$root/$header.h"
done
# Far to the right in the headers' first comments: declarations of a shader, a kernel.
# Of those with push constants a shader has one; what uses a base is code.
sed -n '/^\*\//q; /^ \{1,\}layout(/p; /^ \{1,\}uvec3 [a-z]* =/p' "$root/hcq_vulkan.h" >"$dir/lines"
grep push_constant "$dir/lines" | while read -r line; do
    shaders=$((${shaders:-0} + 1))
    {
        grep layout "$dir/lines" | grep -v push_constant
        echo "$line"
        ! echo "$line" | grep -q base || echo "void main() { $(grep -v layout "$dir/lines") }"
    } >"$dir/glsl-hcq_vulkan-$shaders.c"
done
sed -n '/^\*\//q; s/^ \{1,\}extern "C" __global__.*/& {}/p' "$root/hcq_cuda.h" >"$dir/cuda-hcq_cuda.c"
for block in c-1 hcq-quick glsl-hcq_vulkan-4 cuda-hcq_cuda; do
    [ -s "$dir/$block.c" ] || fail "the documentation has no $block"
done
cmp "$dir/c-1.c" "$root/examples/hello.c" >&2 ||
    fail "the first block of README.md is not examples/hello.c"
rm "$dir/c-1.c"

# ---- what a fragment stands in -------------------------------------------------

cat > "$dir/context.h" <<'END'
#ifdef ON_CUDA
#define HCQ_CUDA
#endif
#include "hcq.h"
#include <stdio.h>
#include <string.h>
#include "hello.k"
#include "hello.k.h"
hcq_device *dev;
hcq_queue *q, *c;
hcq_program *axpy;
axpy_args args;
hcq_buffer x, y;
int32_t data[1000];
hcq_signal s, t;
hcq_point done;
hcq_result r;
#ifdef ON_CUDA
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
#ifdef __cplusplus
extern "C" {
#endif
#define cuEventDestroy cuEventDestroy_v2
int cuCtxPushCurrent_v2(CUcontext context);
int cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority);
int cuStreamSynchronize(CUstream stream);
int cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
int cuEventCreate(CUevent *event, unsigned flags);
int cuEventDestroy(CUevent event);
int cuEventRecord(CUevent event, CUstream stream);
int cuEventSynchronize(CUevent event);
int cuMemsetD32Async(unsigned long long at, unsigned value, size_t count, CUstream stream);
#ifdef __cplusplus
}
#endif
CUstream your_stream;
CUevent your_event;
#endif
END

cat > "$dir/context.c" <<'END'
#include "context.h"
static int logged;
static void fragment(void);

#ifdef ON_CUDA
#define DEVICE "CUDA"

static int make_engine(void) {
    hcq_cuda_info info;
    return hcq_cuda_info_get(dev, &info) == HCQ_OK && cuCtxPushCurrent_v2(info.context) == 0 &&
           cuStreamCreateWithPriority(&your_stream, 1, 0) == 0 &&
           cuEventCreate(&your_event, 2) == 0 && cuEventRecord(your_event, your_stream) == 0;
}
#else
#define DEVICE "CPU"
static int make_engine(void) { return 1; }
#endif

static void log_line(void *user, hcq_result result, const char *text) {
    (void)user;
    fprintf(stderr, "logged: %s: %s\n", hcq_result_name(result), text);
    logged++;
}

static int make_all(void) {
    hcq_program_desc program = HCQ_PROGRAM(axpy);
    hcq_device_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.log_fn = log_line;
    if (hcq_open(DEVICE, &desc, &dev) != HCQ_OK || !make_engine() ||
        hcq_alloc(dev, sizeof data, HCQ_ZEROED, &x) != HCQ_OK ||
        hcq_alloc(dev, sizeof data, HCQ_ZEROED, &y) != HCQ_OK ||
        hcq_program_create(dev, &program, &axpy) != HCQ_OK ||
        hcq_queue_create(dev, HCQ_COMPUTE, &q) != HCQ_OK ||
        hcq_queue_create(dev, HCQ_COPY, &c) != HCQ_OK ||
        hcq_signal_create(dev, 0, &s) != HCQ_OK || hcq_signal_create(dev, 0, &t) != HCQ_OK) {
        return 0;
    }
    args.y = y.address;
    args.x = x.address;
    args.a = 2;
    args.n = 1000;
    return 1;
}

int main(void) {
    if (!make_all()) {
        fprintf(stderr, "no context\n");
        return 1;
    }
    fragment();
    if (r == HCQ_OK) { r = hcq_device_synchronize(dev, UINT64_C(10000000000)); }
    if (r != HCQ_OK) { fprintf(stderr, "r: %s\n", hcq_result_text(r)); }
    return hcq_close(dev) != HCQ_OK || r != HCQ_OK || logged != 0;
}
END

# ---- compiling and running them ------------------------------------------------

mock=${HCQ_TEST_CUDA_MOCK:-$dir}

compile() { # LANGUAGE SOURCE FLAGS...: into SOURCE's place, .o for .c
    language=$1 source=$2
    shift 2
    case $language in c++) standard=c++11 look=-fsyntax-only ;; *) standard=c99 look='' ;; esac
    # examples/ is on the path for the kernel of hello.c
    "$cc" -x "$language" -std=$standard $warnings $apart -O1 -I"$root" \
        -I"$root/examples" -I"$dir" "$@" $look -c "$source" -o "${source%.c}.o" ||
        fail "$(basename "$source" .c) does not compile as $standard"
}

build() { # what all are linked with
    implementation
    [ -f "$mock/libcuda.so.1" ] ||
        "$cc" -std=c11 -O1 -shared -fPIC "$root/tests/mocks/libcuda.c" -o "$mock/libcuda.so.1" \
            -pthread -ldl || fail "the mock of CUDA does not compile"
}

run() { # NAME LANGUAGE OBJECTS...
    name=$1 language=$2
    shift 2
    [ "$language" = c ] || return 0
    "$cc" "$@" "$hcq" -o "$dir/block" -pthread -ldl || fail "$name does not link as $language"
    LD_LIBRARY_PATH=$mock "$dir/block" >"$dir/output" 2>&1 ||
        fail "$name as $language ended with $?: $(cat "$dir/output")"
}

wrap() { # LANGUAGE FRAGMENT LINES...: the same as a function, with the lines it has in its block
    language=$1 fragment=$2
    shift 2
    {
        printf '%s\n' "$@" '#include "context.c"' 'static void fragment(void) {' '#line 1'
        cat "$fragment"
        echo '}'
    } >"$dir/wrapped.c"
    compile "$language" "$dir/wrapped.c"
}

check() { # LANGUAGE BLOCK
    block=${2##*/}
    case $block in
    c_vulkan-*)
        wrap "$1" "$2" '#define HCQ_VULKAN' '#include "hcq.h"' \
            'extern VkSemaphore engine_semaphore;' 'extern uint64_t engine_value;'
        ;;
    c_cuda-*)
        wrap "$1" "$2" '#define ON_CUDA'
        run "$block" "$1" "$dir/wrapped.o" "$mock/libcuda.so.1"
        ;;
    *)
        if grep -q 'int main(' "$2"; then
            compile "$1" "$2"
            run "$block" "$1" "${2%.c}.o"
        else
            wrap "$1" "$2" ''
            run "$block" "$1" "$dir/wrapped.o"
        fi
        ;;
    esac
    echo "ok $block $1"
}

glsl() { # FILE
    {
        if ! grep -q '#version' "$1"; then
            echo "#version 460"
            echo "#extension GL_EXT_buffer_reference : require"
            echo "layout(local_size_x = 64) in;"
        fi
        cat "$1"
        grep -q 'void main' "$1" || echo "void main() {}"
    } >"$dir/whole.comp"
    glslangValidator --quiet --target-env vulkan1.2 -o "$dir/module" "$dir/whole.comp"
}

kernel() { # FILE
    nvcc -ptx -x cu -o "$dir/module" "$1"
}

shaders_and_kernels() { # TOOL FUNCTION FILES...
    tool=$1 function=$2
    shift 2
    for block in "$@"; do
        if command -v "$tool" >/dev/null 2>&1; then
            "$function" "$block" || fail "$tool refuses $(basename "$block")"
            echo "ok $(basename "$block") $tool"
        else
            echo "no $tool: $(basename "$block") is not compiled"
        fi
    done
}

shaders_and_kernels glslangValidator glsl "$dir"/glsl-*.c
shaders_and_kernels nvcc kernel "$dir"/cuda-*.c
echo 'int main(void) { return 0; }' | "$cc" -x c++ -c - -o "$dir/probe.o" 2>/dev/null ||
    skip "$cc compiles no C++"
build
for language in c c++; do
    for block in "$dir"/c-*.c "$dir"/c_vulkan-*.c "$dir"/c_cuda-*.c "$dir"/hcq*-quick.c; do
        case $vulkan:$block:$(grep '^#define HCQ_VULKAN' "$block") in
        :*/c_vulkan-*: | :*:?*) echo "no vulkan/vulkan.h: $(basename "$block") is not compiled" ;;
        *) check "$language" "$block" ;;
        esac
    done
done

# ---- what they say ---------------------------------------------------------------

cat >"$dir/says.c" <<'END'
#include "context.h"
#include <stddef.h>

static void submit(int times) {
    while (times-- > 0) { hcq_queue_submit(q, dev, &done); }
}

int main(void) {
    static char text[4096];
    const hcq_dims grid = hcq_dim(16, 1, 1), block = hcq_dim(64, 1, 1);
    hcq_program_desc desc = HCQ_PROGRAM(axpy);
    if (hcq_open("CPU", NULL, &dev) != HCQ_OK) { return 1; }
    hcq_alloc(dev, sizeof data, HCQ_ZEROED, &x);
    hcq_program_create(dev, &desc, &axpy);
    hcq_queue_create(dev, HCQ_COMPUTE, &q);
    hcq_queue_label(q, "draw");
    args.y = x.address;
    args.x = 0x10;
    hcq_queue_exec(q, axpy, &args, sizeof args, grid, block);
    hcq_queue_reset(q);
    args.x = x.address;
    hcq_queue_fill(q, x, x.size, 7, 4);
    hcq_queue_exec(q, axpy, &args, sizeof args, grid, block);
    hcq_profile_start(dev, NULL);
    submit(3);
    hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER);
    hcq_profile_stop(dev);
    hcq_profile_print(&dev, 1, HCQ_PROFILE_SUMMARY, text, sizeof text);
    fprintf(stderr, "%.*s", (int)(strstr(text, "6 events") - text), text);
    hcq_signal_create(dev, 0, &s);
    hcq_signal_label(s, "uploads");
    hcq_queue_reset(q);
    hcq_queue_wait(q, hcq_at(s, 1));
    submit(1);
    hcq_explain(&done, 1, text, sizeof text);
    fprintf(stderr, "%s", text);
    hcq_signal_set(s, 1);
    return hcq_close(dev) != HCQ_OK;
}
END

flat() { # words alone, on one line
    sed -E 's/0x[0-9a-f]+/N/g; s/[0-9]+(\.[0-9]+)?/N/g; s/hcq worker/hcq lane/' | tr -s ' \n' ' '
}

shown() { # FILE DOCUMENT...: each line of FILE is in each of them
    file=$1
    shift
    for document in "$@"; do
        flat <"$root/$document" >"$dir/flat"
        while IFS= read -r line; do
            grep -qF -- "$(echo "$line" | flat)" "$dir/flat" || fail "$document does not show: $line"
        done <"$file"
    done
}

compile c "$dir/says.c"
run says c "$dir/says.o"
[ "$(grep -c . "$dir/output")" = 6 ] || fail "says: $(cat "$dir/output")"
shown "$dir/output" README.md
grep -A 1 '^submission' "$dir/output" >"$dir/explained"
shown "$dir/explained" README.md docs/ideas.md

mkdir "$dir/examples"
sed 's/{ y\.at\[i\].*/{\n        y.at[i] += a * x.at[i + 1]; }/' "$root/examples/hello.k" >"$dir/examples/bad.k"
sed 's/"hello\.k"/"bad.k"/; s,"../hcq.h","hcq.h",' "$root/examples/hello.c" >"$dir/examples/bad.c"
echo 'int main(void) { return 0; }' >"$dir/probe.c"
if (cd "$dir" && "$cc" -fsanitize=address probe.c -o probe && ASAN_OPTIONS=detect_leaks=0 ./probe) \
    >"$dir/said" 2>&1; then
    (cd "$dir" && "$cc" -g -fsanitize=address $apart -I"$root" -I"$root/examples" examples/bad.c \
        "$hcq" -o block -pthread -ldl) || fail "bad.k does not compile"
    ! ASAN_OPTIONS=detect_leaks=0 "$dir/block" >/dev/null 2>"$dir/output" || fail "bad.k is not found out"
    sed -n '/^READ of size/,/#0/p' "$dir/output" >"$dir/report"
    [ "$(grep -c . "$dir/report")" = 2 ] || fail "bad.k: $(cat "$dir/output")"
    shown "$dir/report" README.md
else
    echo "no -fsanitize=address: $(tail -n 1 "$dir/said")"
fi
echo "ok what is shown"
