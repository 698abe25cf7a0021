# shared.sh - part of examples.sh and snippets.sh: a folder for what they make, and an
# implementation to link with. They set $cc.
root=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
warnings="-Wall -Wextra -Werror"
# What a file is told whose implementation stands elsewhere.
apart="-DHCQI_IMPLEMENTED -DHCQI_CPU_IMPLEMENTED -DHCQI_VULKAN_IMPLEMENTED -DHCQI_CUDA_IMPLEMENTED
    -DHCQ_API=extern"
hcq=${HCQ_OBJECT:-$dir/hcq.o}

fail() {
    echo "$(basename "$0"): FAIL: $*" >&2
    exit 1
}

skip() {
    echo "$*"
    exit 77
}

vulkan_headers() {
    echo '#include <vulkan/vulkan.h>' | "$cc" -E -x c - >/dev/null 2>&1
}

implementation() { # with all backends; $HCQ_OBJECT if that is set
    vulkan=
    ! vulkan_headers || vulkan=-DHCQ_VULKAN
    printf '#define HCQ_IMPLEMENTATION\n#include "hcq.h"\n' >"$dir/hcq.c"
    [ -n "${HCQ_OBJECT:-}" ] || "$cc" -std=c99 $warnings -O1 -DHCQ_CPU -DHCQ_CUDA $vulkan \
        -I"$root" -c "$dir/hcq.c" -o "$hcq" || fail "hcq.h does not compile: $cc"
}
