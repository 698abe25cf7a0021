#!/bin/sh
# Benchmarks: hcq and the other side in one run, taking turns.
#
#   sh tests/bench/run.sh [--json FILE] [--quick] [--smoke] [--only NAME]
#
# --json FILE   also write the results as a list of JSON objects
# --quick       fewer passes; ends within 150 s
# --smoke       next to none, not optimized, without the peers oneTBB and OpenCL and
#               their rows: whether it runs, the figures mean nothing
# --only NAME   only benches whose name starts with NAME, "cpu.grid" say
#
# oneTBB, OpenMP and OpenCL (PoCL) are peers where they are installed. The Vulkan
# backend is measured where Vulkan's headers and a device are, the CUDA backend
# where an NVIDIA driver and a device are (tests/gpu.sh measures it alone, with
# less around). CC and CXX choose the compilers [gcc, g++]. Not a test: a missed
# goal is printed, the exit status only says whether every bench ran.
# compare.sh holds the figures of one commit against those of another; markdown.py
# makes a chapter of docs/benchmarks.md of FILE.

set -u
BENCH_START=$(date +%s)
here=$(cd "$(dirname "$0")" && pwd) || exit 1
BENCH_ROOT=$(cd "$here/../.." && pwd) || exit 1
BENCH_CC=${CC:-gcc}
cxx=${CXX:-g++}
BENCH_TMP=$(mktemp -d "${TMPDIR:-/tmp}/hcq-bench.XXXXXX") || exit 1
trap 'rm -rf "$BENCH_TMP"' EXIT
trap 'exit 130' INT TERM HUP
POCL_CACHE_DIR=$BENCH_TMP/pocl
mkdir "$POCL_CACHE_DIR" || exit 1
export BENCH_START BENCH_ROOT BENCH_CC BENCH_TMP POCL_CACHE_DIR

smoke=0 level='-O2 -g'
for word in "$@"; do
    [ "$word" != --smoke ] || { smoke=1 level=-O0; }
done
flags="-std=gnu11 $level -Wall -Wextra -Wno-missing-field-initializers -pthread -DBENCH_CUDA"
libs="-lm -ldl"
openmp=''
sources="bench bench_check bench_copy bench_graph bench_grid bench_header bench_kernel bench_parked bench_queue bench_signal
    bench_stall bench_cuda"

# Does a source compile and link? Says what is missing without it.
probe() { # COMPILER SUFFIX SOURCE FLAGS WORDS
    printf '%b' "$3" >"$BENCH_TMP/probe.$2"
    # shellcheck disable=SC2086
    $1 "$BENCH_TMP/probe.$2" -o "$BENCH_TMP/probe" $4 >/dev/null 2>&1 || {
        echo "no $5"
        false
    }
}

make_shaders() {
    sh "$BENCH_ROOT/tests/vulkan/spirv_modules.sh" "$BENCH_ROOT/tests/vulkan/spirv/tiny.comp" \
        "$here"/shaders/*.comp >"$BENCH_TMP/bench_vulkan_spirv.h" || return
    sh "$BENCH_ROOT/hcq_kernel.sh" --spirv -o "$BENCH_TMP" "$here/kernels.k"
}

compile() { # COMPILER FILE FLAGS...
    compiler=$1 file=$2
    shift 2
    "$compiler" "$@" "-I$BENCH_TMP" -c "$here/$file" -o "$BENCH_TMP/$file.o" &
    jobs="$jobs $!"
}

jobs='' hcq=-DHCQ_CUDA
if [ "$smoke" = 0 ] && probe "$cxx" cpp '#include <oneapi/tbb/flow_graph.h>\nint main() { oneapi::tbb::flow::graph g; g.wait_for_all(); }\n' \
    '-std=c++17 -ltbb' "oneTBB (a C++ compiler, headers, library): its peer is left out"; then
    flags="$flags -DBENCH_TBB" libs="$libs -ltbb -lstdc++"
    compile "$cxx" bench_tbb.cpp -std=c++17 -O2 -Wall -Wextra -pthread
fi
if [ "$smoke" = 0 ] && probe "$BENCH_CC" c '#include <CL/cl.h>\n#include <CL/cl_ext.h>\nclCreateCommandBufferKHR_fn f;\nint main(void) { return clGetPlatformIDs(0, 0, 0) == 1; }\n' \
    '-DCL_TARGET_OPENCL_VERSION=120 -lOpenCL' "OpenCL headers or loader: PoCL is left out"; then
    flags="$flags -DBENCH_POCL" libs="$libs -lOpenCL" sources="$sources bench_pocl"
fi
if probe "$BENCH_CC" c '#include <omp.h>\nint main(void) { return omp_get_max_threads() < 0; }\n' \
    -fopenmp "OpenMP: grids have no peer"; then
    openmp=-fopenmp
fi
if probe "$BENCH_CC" c '#include <vulkan/vulkan.h>\nint main(void) { return VK_API_VERSION_1_3 == 0; }\n' \
    '' "Vulkan headers of version 1.3: the Vulkan backend is left out" &&
    { make_shaders || { echo "no shaders: the Vulkan backend is left out"; false; }; }; then
    flags="$flags -DBENCH_VULKAN" hcq="$hcq -DHCQ_VULKAN" sources="$sources bench_vulkan"
fi
# shellcheck disable=SC2086
compile "$BENCH_CC" bench_hcq.c $flags $hcq
for source in $sources; do
    # OpenMP's threads are not those of the other benches.
    case $source in bench_grid) more=$openmp ;; *) more='' ;; esac
    # shellcheck disable=SC2086
    compile "$BENCH_CC" "$source.c" $flags $more
done
loops() { # TABLE COMPILER LEVEL...: bench_loops.c; where a loop begins is to decide nothing
    table=$1
    shift
    command -v "$1" >/dev/null || return
    "$@" -falign-loops=32 -std=gnu11 -Wall -Wextra "-DBENCH_LOOPS=$table" -c "$here/bench_loops.c" \
        -o "$BENCH_TMP/$table.o" &
    jobs="$jobs $!"
}
loops bench_loops_gcc3 gcc -O3
loops bench_loops_gcc2 gcc -O2 -ftree-vectorize
loops bench_loops_clang clang -O2
for job in $jobs; do
    wait "$job" || exit 1
done
# shellcheck disable=SC2086
$BENCH_CC -pthread $openmp "$BENCH_TMP"/bench*.o -o "$BENCH_TMP/bench" $libs || exit 1
"$BENCH_TMP/bench" "$@"
