# steps_gpu.sh - the steps of Vulkan and CUDA. Part of run.sh, as steps.sh is.

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
    vulkan gcc vulkan_check vkmock && vulkan gcc conformance vkmock-low,vkmock-turns
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
    for order in "-o $bin/cuda-header" "-DCUDA_H_AFTER -fsyntax-only"; do
        cuda_header_as gcc -std=c11 -Wstrict-prototypes -Wmissing-prototypes &&
            cuda_header_as g++ -x c++ -std=c++11 || return 1
    done
}

cuda_header_as() { # COMPILER FLAGS...
    # shellcheck disable=SC2046,SC2086
    run "$@" $(echo "$warnings" | sed 's/-W[a-z]*-prototypes//g') $order -I. \
        -isystem "$folder" tests/cuda/header.c -pthread -ldl && run "$bin/cuda-header"
}
