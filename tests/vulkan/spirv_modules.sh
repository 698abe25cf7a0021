#!/bin/sh
# Prints a C header with the modules of some sources, as arrays spirv_NAME, and
# SPIRV_MODULES(X), which is X(NAME) for each:
#
#   sh tests/vulkan/spirv_modules.sh SOURCE...
#
# run.sh makes spirv.c's of all in tests/vulkan/spirv/ and those of all tests, of
# tests/support/shaders/; bench/run.sh the benchmark's, of tiny.comp.
#
# Wants glslangValidator, spirv-as and spirv-opt. The target is vulkan1.2 for GLSL
# unless a comment of the source says "target NAME".

set -eu
LC_ALL=C
export LC_ALL
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

echo "/* Made by tests/vulkan/spirv_modules.sh; not to be edited. */"
printf '#pragma once\n\n#include <stdint.h>\n'
names=
for source in "$@"; do
    array "$source"
    names="$names X($name)"
done
printf '\n#define SPIRV_MODULES(X)%s\n' "$names"
