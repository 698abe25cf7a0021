#!/bin/sh
# Compiles and runs every code block of the documentation, so that none of it
# can go stale:   sh tests/examples/snippets.sh [CC]      [$CC, else cc]
#
# Taken are the ```c blocks of README.md and the QUICK START in the comments of
# hcq.h and its companions. How a block is compiled depends on what is in it:
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
# All as C99 and as C++11 with -Wall -Wextra -Werror. The first block of the
# README must be examples/hello.c, byte for byte. A block that defines HCQ_VULKAN
# needs vulkan/vulkan.h; without it, it is left out, and that is said.
#
# The "```c vulkan" blocks of README.md are fragments with HCQ_VULKAN, in which there
# are VkSemaphore engine_semaphore and uint64_t engine_value. They are compiled, not
# run; without vulkan/vulkan.h they are left out, and that is said.
#
# The "```c cuda" blocks of README.md are fragments with HCQ_CUDA, run on the mock of
# CUDA's driver: dev is of CUDA, and there are, in its context, which is current,
#     CUstream your_stream   with nothing in it
#     CUevent your_event     recorded in it
# and some functions of <cuda.h>, which is not needed.
#
# The lines of GLSL in hcq_vulkan.h's first comment and the ```glsl blocks of
# README.md are compiled where there is a glslangValidator. Without a main they
# are declarations of one to which a main is added. The ```cuda blocks of README.md
# and the kernel in hcq_cuda.h's first comment are compiled where there is nvcc.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
cc=${1:-${CC:-cc}}
warnings="-Wall -Wextra -Werror"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM

fail() {
    echo "snippets: FAIL: $*" >&2
    exit 1
}

# ---- finding them --------------------------------------------------------------

readme_blocks() { # MARK NAME: writes NAME-1.c, NAME-2.c ... of the blocks "```MARK"
    awk -v mark="$1" -v start="$dir/$2-" '
        $0 == "```" mark { inside = 1; file = start (++count) ".c"; printf "" > file; next }
        /^```/ { if (inside) { close(file) } inside = 0; next }
        inside { print > file }
        END { if (inside) { exit 1 } }
    ' "$root/README.md" || fail "README.md: a block of code has no end"
}

quick_start() { # HEADER: writes HEADER-quick.c if there is one in its comment
    awk -v file="$dir/${1%.h}-quick.c" '
        /^   QUICK START/ { inside = 1; next }
        inside && /^   ====/ { exit }
        inside { sub(/^   /, ""); print > file }
    ' "$root/$1"
}

readme_kernels() { # MARK SUFFIX: writes readme-1.SUFFIX, readme-2.SUFFIX ...
    awk -v mark="$1" -v start="$dir/readme-" -v suffix="$2" '
        $0 == "```" mark { inside = 1; file = start (++count) suffix; printf "" > file; next }
        /^```/ { inside = 0 }
        inside { print > file }
    ' "$root/README.md"
}

vulkan_glsl() { # writes hcq_vulkan.comp: lines that begin with layout(, far to the right
    awk -v file="$dir/hcq_vulkan.comp" '
        /^\*\// { exit }
        /^ +layout\(/ { print > file }
    ' "$root/hcq_vulkan.h"
}

cuda_kernels() { # writes hcq_cuda.cu: lines that begin with extern "C" __global__
    awk -v file="$dir/hcq_cuda.cu" '
        /^\*\// { exit }
        /^ +extern "C" __global__/ { print $0 " {}" > file }
    ' "$root/hcq_cuda.h"
}

readme_blocks c readme
readme_blocks "c vulkan" vulkan
readme_blocks "c cuda" cuda
readme_kernels glsl .comp
readme_kernels cuda .cu
vulkan_glsl
cuda_kernels
for header in hcq.h hcq_cpu.h hcq_vulkan.h hcq_cuda.h; do
    [ ! -f "$root/$header" ] || quick_start "$header"
done
[ -f "$dir/readme-1.c" ] || fail "README.md has no block of code"
[ -f "$dir/hcq_vulkan.comp" ] || fail "hcq_vulkan.h has no GLSL in its comment"
[ -f "$dir/hcq_cuda.cu" ] || fail "hcq_cuda.h has no kernel in its comment"
[ -f "$dir/hcq-quick.c" ] || fail "hcq.h has no QUICK START"
cmp "$dir/readme-1.c" "$root/examples/hello.c" >&2 ||
    fail "the first block of README.md is not examples/hello.c"

# ---- what a fragment stands in -------------------------------------------------

cat > "$dir/context.h" <<'END'
#ifdef ON_CUDA
#define HCQ_CUDA
#endif
#include "hcq.h"
#include <stdio.h>
#include <string.h>
typedef struct axpy_args { uint64_t y, x; int32_t a; uint32_t n; } axpy_args;
extern hcq_device *dev;
extern hcq_queue *q, *c;
extern hcq_program *axpy;
extern axpy_args args;
extern hcq_buffer x, y;
extern int32_t data[1000];
extern hcq_signal s, t;
extern hcq_point done;
extern hcq_result r;
void fragment(void);
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
extern CUstream your_stream;
extern CUevent your_event;
#endif
END

cat > "$dir/context.c" <<'END'
#define HCQ_IMPLEMENTATION
#define HCQ_CPU
#include "context.h"
hcq_device *dev;
hcq_queue *q, *c;
hcq_program *axpy;
axpy_args args;
hcq_buffer x, y;
int32_t data[1000];
hcq_signal s, t;
hcq_point done;
hcq_result r;
static int logged;

#ifdef ON_CUDA
#include "kernels/hello.h"
#define DEVICE "CUDA"
#define PTX { ptx_axpy, sizeof ptx_axpy, "axpy" }
CUstream your_stream;
CUevent your_event;

static void make_engine(void) {
    hcq_cuda_info info;
    r = hcq_cuda_info_get(dev, &info);
    if (r == HCQ_OK && (cuCtxPushCurrent_v2(info.context) != 0 ||
                        cuStreamCreateWithPriority(&your_stream, 1, 0) != 0 ||
                        cuEventCreate(&your_event, 2) != 0 ||
                        cuEventRecord(your_event, your_stream) != 0)) {
        r = HCQ_ERROR_HOST;
    }
}
#else
#define DEVICE "CPU"
#define PTX { NULL, 0, NULL }
static void make_engine(void) {}
#endif

static void kernel(const void *block_args, const hcq_block *b) {
    const axpy_args *k = HCQ_ARGS(axpy_args, block_args);
    HCQ_FOR_THREADS(b, at) {
        uint32_t i = b->id.x * b->block.x + at.x;
        if (i < k->n) { HCQ_PTR(int32_t, k->y)[i] += k->a * HCQ_PTR(int32_t, k->x)[i]; }
    }
}

static void log_line(void *user, hcq_result result, const char *text) {
    (void)user;
    fprintf(stderr, "logged: %s: %s\n", hcq_result_name(result), text);
    logged++;
}

static hcq_result make_all(void) {
    hcq_program_desc program = { "axpy", kernel, { HCQ_ARG_INOUT, HCQ_ARG_IN, HCQ_ARG_I32,
                                                   HCQ_ARG_U32 },
                                 NULL, NULL, { NULL, 0, NULL }, PTX, 0 };
    hcq_device_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.log_fn = log_line;
    r = hcq_open(DEVICE, &desc, &dev);
    if (r == HCQ_OK) { make_engine(); }
    if (r == HCQ_OK) { r = hcq_alloc(dev, sizeof data, HCQ_ZEROED, &x); }
    if (r == HCQ_OK) { r = hcq_alloc(dev, sizeof data, HCQ_ZEROED, &y); }
    if (r == HCQ_OK) { r = hcq_program_create(dev, &program, &axpy); }
    if (r == HCQ_OK) { r = hcq_queue_create(dev, HCQ_COMPUTE, &q); }
    if (r == HCQ_OK) { r = hcq_queue_create(dev, HCQ_COPY, &c); }
    if (r == HCQ_OK) { r = hcq_signal_create(dev, 0, &s); }
    if (r == HCQ_OK) { r = hcq_signal_create(dev, 0, &t); }
    args.y = y.address;
    args.x = x.address;
    args.a = 2;
    args.n = 1000;
    return r;
}

int main(void) {
    if (make_all() != HCQ_OK) {
        fprintf(stderr, "context: %s\n", hcq_result_text(r));
        return 1;
    }
    fragment();
    if (r == HCQ_OK) { r = hcq_device_synchronize(dev, UINT64_C(10000000000)); }
    if (r != HCQ_OK) { fprintf(stderr, "r: %s\n", hcq_result_text(r)); }
    return hcq_close(dev) != HCQ_OK || r != HCQ_OK || logged != 0;
}
END

wrap() { # FRAGMENT: the same as a function, with the lines it has in its block
    echo '#include "context.h"'
    echo 'void fragment(void) {'
    echo '#line 1'
    cat "$1"
    echo '}'
}

# ---- compiling and running them ------------------------------------------------

# All are linked with one implementation, which takes longest to compile.
apart="-DHCQI_IMPLEMENTED -DHCQI_CPU_IMPLEMENTED -DHCQI_VULKAN_IMPLEMENTED -DHCQI_CUDA_IMPLEMENTED"

implementation() { # makes $dir/hcq.o
    printf '#define HCQ_IMPLEMENTATION\n#include "hcq.h"\n' > "$dir/hcq.c"
    ! vulkan_headers || set -- -DHCQ_VULKAN
    "$cc" -std=c99 $warnings -O1 -DHCQ_CPU -DHCQ_CUDA "$@" -I"$root" -c "$dir/hcq.c" \
        -o "$dir/hcq.o" || fail "hcq.h does not compile"
}

compile() { # LANGUAGE SOURCE OBJECT
    case $1 in
        c) set -- "$2" "$3" -x c -std=c99 ;;
        c++) set -- "$2" "$3" -x c++ -std=c++11 ;;
    esac
    from=$1
    to=$2
    shift 2
    # examples/ is on the path because hello.c includes ../hcq.h
    "$cc" "$@" $warnings $apart -O1 -I"$root" -I"$root/examples" -I"$dir" -c "$from" -o "$to"
}

run() { # PROGRAM
    if command -v timeout >/dev/null 2>&1; then
        timeout 30 "$1"
    else
        "$1"
    fi
}

check() { # LANGUAGE BLOCK CONTEXT-OBJECT
    name=$(basename "$2" .c)
    if grep -q 'int main(' "$2"; then
        compile "$1" "$2" "$dir/block.o" || fail "$name does not compile as $1"
        "$cc" "$dir/block.o" "$dir/hcq.o" -o "$dir/block" -pthread || fail "$name does not link as $1"
    else
        wrap "$2" > "$dir/wrapped.c"
        compile "$1" "$dir/wrapped.c" "$dir/block.o" || fail "$name does not compile as $1"
        "$cc" "$dir/block.o" "$3" "$dir/hcq.o" -o "$dir/block" -pthread ||
            fail "$name does not link as $1"
    fi
    run "$dir/block" > "$dir/output" 2>&1 ||
        fail "$name as $1 ended with $?: $(cat "$dir/output")"
    echo "ok $name $1"
}

cuda_context() { # LANGUAGE: writes cuda-context-LANGUAGE.o, and the mock it is linked with
    { echo '#define ON_CUDA' && cat "$dir/context.c"; } > "$dir/cuda-context.txt"
    compile "$1" "$dir/cuda-context.txt" "$dir/cuda-context-$1.o" ||
        fail "the context for CUDA does not compile"
    [ -f "$dir/libcuda.so.1" ] || "$cc" -std=c11 -O1 -shared -fPIC -Wl,-soname,libcuda.so.1 \
        "$root/tests/mocks/libcuda.c" -o "$dir/libcuda.so.1" -pthread -ldl ||
        fail "the mock of CUDA does not compile"
}

check_cuda() { # LANGUAGE BLOCK: on the mock
    name=README.md-$(basename "$2" .c)
    [ -f "$dir/cuda-context-$1.o" ] || cuda_context "$1"
    { echo '#define ON_CUDA' && wrap "$2"; } > "$dir/wrapped.c"
    compile "$1" "$dir/wrapped.c" "$dir/block.o" || fail "$name does not compile as $1"
    "$cc" "$dir/block.o" "$dir/cuda-context-$1.o" "$dir/hcq.o" "$dir/libcuda.so.1" \
        -o "$dir/block" -pthread || fail "$name does not link as $1"
    LD_LIBRARY_PATH=$dir run "$dir/block" > "$dir/output" 2>&1 ||
        fail "$name as $1 ended with $?: $(cat "$dir/output")"
    echo "ok $name $1, on the mock"
}

glsl() { # FILE
    command -v glslangValidator >/dev/null 2>&1 || {
        echo "no glslangValidator: $(basename "$1") is not compiled"
        return 0
    }
    {
        if ! grep -q '#version' "$1"; then
            echo "#version 460"
            echo "#extension GL_EXT_buffer_reference : require"
            echo "layout(local_size_x = 64) in;"
        fi
        cat "$1"
        grep -q 'void main' "$1" || echo "void main() {}"
    } > "$dir/whole.comp"
    glslangValidator --quiet --target-env vulkan1.2 -o "$dir/module" "$dir/whole.comp" ||
        fail "$(basename "$1") is not GLSL for Vulkan"
    echo "ok $(basename "$1") glsl"
}

kernel() { # FILE
    command -v nvcc >/dev/null 2>&1 || {
        echo "no nvcc: $(basename "$1") is not compiled"
        return 0
    }
    nvcc -ptx -o "$dir/module" "$1" || fail "$(basename "$1") is not CUDA C++"
    echo "ok $(basename "$1") cuda"
}

wrap_vulkan() { # FRAGMENT: the same as a function of an engine
    echo '#include "context.h"'
    echo 'extern VkSemaphore engine_semaphore;'
    echo 'extern uint64_t engine_value;'
    echo 'void fragment(void) {'
    echo '#line 1'
    cat "$1"
    echo '}'
}

check_vulkan() { # LANGUAGE BLOCK
    name=README.md-$(basename "$2" .c)
    vulkan_headers || {
        echo "no vulkan/vulkan.h: $name is not compiled"
        return 0
    }
    { echo '#define HCQ_VULKAN' && wrap_vulkan "$2"; } > "$dir/wrapped.c"
    compile "$1" "$dir/wrapped.c" "$dir/block.o" || fail "$name does not compile as $1"
    echo "ok $name $1, compiled"
}

vulkan_headers() {
    echo '#include <vulkan/vulkan.h>' | "$cc" -E -x c - >/dev/null 2>&1
}

for block in "$dir"/*.comp; do
    [ ! -f "$block" ] || glsl "$block"
done
for block in "$dir"/*.cu; do
    [ ! -f "$block" ] || kernel "$block"
done
if ! echo 'int main(void) { return 0; }' | "$cc" -x c++ -c - -o "$dir/probe.o" 2>/dev/null; then
    echo "$cc compiles no C++"
    exit 77
fi
implementation
for language in c c++; do
    context=$dir/context-$language.o
    compile "$language" "$dir/context.c" "$context" || fail "the context does not compile"
    for block in "$dir"/readme-*.c "$dir"/hcq*-quick.c; do
        if grep -q '^#define HCQ_VULKAN' "$block" && ! vulkan_headers; then
            echo "no vulkan/vulkan.h: $(basename "$block") is not compiled"
            continue
        fi
        check "$language" "$block" "$context"
    done
    for block in "$dir"/vulkan-*.c; do
        [ ! -f "$block" ] || check_vulkan "$language" "$block"
    done
    for block in "$dir"/cuda-[0-9]*.c; do
        [ ! -f "$block" ] || check_cuda "$language" "$block"
    done
done
