#!/bin/sh
# Benchmarks: hcq and the other side in one run, taking turns.
#
#   sh tests/bench/run.sh [--json FILE] [--quick] [--smoke] [--only NAME]
#
# --json FILE   also write the results as a list of JSON objects
# --quick       fewer passes; ends within 75 s
# --smoke       next to none: whether it runs, the figures mean nothing
# --only NAME   only benches whose name starts with NAME, "cpu.grid" say
#
# oneTBB, OpenMP and OpenCL (PoCL) are peers where they are installed. The Vulkan
# backend is measured where Vulkan's headers and a device are, the CUDA backend
# where an NVIDIA driver and a device are (tests/gpu.sh measures it alone, with
# less around). CC and CXX choose the compilers [gcc, g++]. Not a test: a missed
# goal is printed, the exit status only says whether every bench ran.
# compare.sh holds the figures of one commit against those of another.

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

flags="-O2 -g -Wall -Wextra -pthread"
libs="-lm -ldl"
queue_flags=
objects=

# Prints a source line to a probe file and says whether it compiles and links.
probe() { # compiler, suffix, source text, flags
    printf '%b' "$3" > "$BENCH_TMP/probe.$2"
    # shellcheck disable=SC2086
    $1 "$BENCH_TMP/probe.$2" -o "$BENCH_TMP/probe" $4 > /dev/null 2>&1
}

compile() { # compiler, source, more flags
    object=$BENCH_TMP/$(basename "$2").o
    objects="$objects $object"
    # shellcheck disable=SC2086
    $1 $flags $3 -c "$2" -o "$object" &
    jobs="$jobs $!"
}

if probe "$cxx" cpp '#include <oneapi/tbb/flow_graph.h>\nint main() { oneapi::tbb::flow::graph g; g.wait_for_all(); }\n' '-std=c++17 -ltbb'; then
    tbb=yes
    queue_flags="$queue_flags -DBENCH_TBB"
    libs="$libs -ltbb -lstdc++"
else
    tbb=no
    echo "no oneTBB (a C++ compiler, headers, library): its peer is left out"
fi
if probe "$BENCH_CC" c '#include <CL/cl.h>\nint main(void) { return clGetPlatformIDs(0, 0, 0) == 1; }\n' \
    '-DCL_TARGET_OPENCL_VERSION=120 -lOpenCL'; then
    pocl=yes
    queue_flags="$queue_flags -DBENCH_POCL"
    libs="$libs -lOpenCL"
else
    pocl=no
    echo "no OpenCL headers or loader: PoCL is left out"
fi
if probe "$BENCH_CC" c '#include <omp.h>\nint main(void) { return omp_get_max_threads() < 0; }\n' -fopenmp; then
    openmp=-fopenmp
else
    openmp=
    echo "no OpenMP: grids have no peer"
fi
if [ ! -f "$BENCH_ROOT/hcq_vulkan.h" ]; then
    vulkan=no
elif probe "$BENCH_CC" c '#include <vulkan/vulkan.h>\nint main(void) { return VK_API_VERSION_1_3 == 0; }\n' ''; then
    vulkan=yes
else
    vulkan=no
    echo "no Vulkan headers of version 1.3: the Vulkan backend is left out"
fi

if [ -f "$BENCH_ROOT/hcq_cuda.h" ]; then
    cuda=yes
else
    cuda=no
fi

jobs=
c="-std=gnu11"
main_flags=
hcq_flags=
[ $vulkan = no ] || main_flags=-DBENCH_VULKAN hcq_flags=-DHCQ_VULKAN
[ $cuda = no ] || main_flags="$main_flags -DBENCH_CUDA" hcq_flags="$hcq_flags -DHCQ_CUDA"
[ $tbb = no ] || compile "$cxx" "$here/bench_tbb.cpp" -std=c++17
compile "$BENCH_CC" "$here/bench_hcq.c" "$c $hcq_flags"
compile "$BENCH_CC" "$here/bench_grid.c" "$c $openmp"
compile "$BENCH_CC" "$here/bench_queue.c" "$c $queue_flags"
compile "$BENCH_CC" "$here/bench_signal.c" "$c"
compile "$BENCH_CC" "$here/bench.c" "$c $main_flags"
compile "$BENCH_CC" "$here/bench_copy.c" "$c"
compile "$BENCH_CC" "$here/bench_parked.c" "$c"
compile "$BENCH_CC" "$here/bench_graph.c" "$c"
compile "$BENCH_CC" "$here/bench_header.c" "$c"
compile "$BENCH_CC" "$here/bench_stall.c" "$c"
[ $pocl = no ] || compile "$BENCH_CC" "$here/bench_pocl.c" "$c"
[ $vulkan = no ] || compile "$BENCH_CC" "$here/bench_vulkan.c" "$c"
[ $cuda = no ] || compile "$BENCH_CC" "$here/bench_cuda.c" "$c"
failed=0
for job in $jobs; do
    wait "$job" || failed=1
done
[ $failed = 0 ] || exit 1
# shellcheck disable=SC2086
$BENCH_CC -pthread $openmp $objects -o "$BENCH_TMP/bench" $libs || exit 1
"$BENCH_TMP/bench" "$@"
