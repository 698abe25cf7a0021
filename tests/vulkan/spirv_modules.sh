#!/bin/sh
# Makes tests/vulkan/spirv_modules.h and tests/bench/bench_vulkan_spirv.h from the
# sources in tests/vulkan/spirv/. Only needed after a change there.
#
#   sh tests/vulkan/spirv_modules.sh
#
# Wants glslangValidator, spirv-as and spirv-opt. The target is vulkan1.2 for GLSL
# unless a comment of the source says "target NAME".

set -eu
cd "$(dirname "$0")"
tmp=$(mktemp -d "${TMPDIR:-/tmp}/hcq-spirv.XXXXXX")
trap 'rm -rf "$tmp"' EXIT

array() { # SOURCE: its module as an array of C, without names for debuggers
    name=$(basename "$1")
    name=${name%.*}
    target=$(sed -n 's/^[/; ]* target \([a-z0-9.]*\)$/\1/p' "$1")
    case $1 in
    *.spvasm) spirv-as --target-env "$target" "$1" -o "$tmp/$name.full" ;;
    *) glslangValidator --quiet --target-env "${target:-vulkan1.2}" -V "$1" -o "$tmp/$name.full" ;;
    esac
    spirv-opt --strip-debug "$tmp/$name.full" -o "$tmp/$name"
    printf '\nstatic const uint32_t spirv_%s[] = {\n' "$name"
    od -An -v -tx4 -w32 "$tmp/$name" | sed 's/^ */    /; s/\([0-9a-f]\{8\}\) */0x\1, /g; s/ $//'
    printf '};\n'
}

header() { # GUARD SOURCE...
    guard=$1
    shift
    printf '/* Made by tests/vulkan/spirv_modules.sh from tests/vulkan/spirv/; '
    printf 'not to be edited. */\n'
    printf '#ifndef %s\n#define %s\n\n#include <stdint.h>\n' "$guard" "$guard"
    for source in "$@"; do
        array "$source"
    done
    printf '\n#endif /* %s */\n' "$guard"
}

LC_ALL=C
export LC_ALL
sources=
for source in spirv/*; do
    [ "$source" = spirv/tiny.comp ] || sources="$sources $source"
done
# shellcheck disable=SC2086
header HCQ_TEST_SPIRV_MODULES_H $sources >"$tmp/modules.h"
header BENCH_VULKAN_SPIRV_H spirv/tiny.comp >"$tmp/bench.h"
mv "$tmp/modules.h" spirv_modules.h
mv "$tmp/bench.h" ../bench/bench_vulkan_spirv.h
