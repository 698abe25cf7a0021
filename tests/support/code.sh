#!/bin/sh
# Makes C of what GPUs run and nobody should need a compiler for:
#
#   sh tests/support/code.sh shaders|kernels [--check]
#
# examples/shaders/EXAMPLE_NAME.comp becomes the array spirv_NAME in EXAMPLE.h beside it,
# examples/kernels/EXAMPLE_NAME.cu ptx_NAME; tests/support/kernels/NAME.cu an entry of
# test_ptx in kernels.h. (The tests' shaders are made where they are compiled.)
#
# Another compiler makes other code: each header names the one that made it. --check
# fails if it would write something else; where another compiler is at hand it only
# compiles all, says so, and ends with 77, as it does without one.
#
# The word of a SPIR-V module that names its generator is written as 0. nvcc writes PTX
# for drivers as new as itself and devices from sm_75 on, which nothing in these kernels
# needs: the text says .version 6.0 and .target sm_50 (sm_60 where an atomic reaches the
# host), and ptxas has to take it for the oldest and the newest device that it knows.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
PATH=$PATH${CUDA_HOME:+:$CUDA_HOME/bin}:/usr/local/cuda/bin

fail() {
    echo "code.sh: FAIL: $*" >&2
    exit 1
}

# ---- shaders -------------------------------------------------------------------

shaders_compiler() { # what makes the code, in one line
    glslang=$(glslangValidator --version | sed -n 's/^Glslang Version: *//p')
    echo "glslang $glslang, $(spirv-opt --version 2>&1 | awk 'NR == 1 { print $1, $2 }')"
}

shaders_compile() { # FILE: into $dir/code
    glslangValidator --quiet --target-env vulkan1.2 -o "$dir/full" "$1" ||
        fail "$1 does not compile"
    # Not optimized: the tool drops loads whose value is not used, volatile or not.
    spirv-opt --strip-debug "$dir/full" -o "$dir/code" || fail "$1 cannot be stripped"
    for module in full code; do
        spirv-val --target-env vulkan1.2 "$dir/$module" || fail "$1: $module is not valid"
    done
}

shaders_example() { # NAME
    echo "static const uint32_t spirv_$1[] = {"
    od -An -v -tx4 "$dir/code" | awk '
        {
            for (i = 1; i <= NF; i++) {
                word = ++count == 3 ? "0" : $i
                sub(/^0+/, "", word)
                word = "0x" (word == "" ? "0" : word) ","
                if (length(line) + length(word) > 99) { print line; line = "" }
                line = line word
            }
        }
        END { sub(/,$/, "", line); print line }'
    echo "};"
}

# ---- kernels -------------------------------------------------------------------

kernels_compiler() {
    nvcc --version | sed -n 's/^Cuda compilation tools, release .*, V/nvcc /p'
}

kernels_compile() { # FILE: into $dir/code, without comments, with short names
    nvcc -ptx -arch=compute_75 --fmad=false -o "$dir/full" "$1" || fail "$1 does not compile"
    target=sm_50
    ! grep -q '^[^/]*\.sys\.' "$dir/full" || target=sm_60
    awk -v target="$target" '
        { sub(/\/\/.*/, ""); gsub(/[ \t]+/, " "); sub(/^ /, ""); sub(/ $/, "") }
        /^$/ || /^\.loc / || /^\.file / { next }
        /^\.version/ { $0 = ".version 6.0" }
        /^\.target/ { $0 = ".target " target }
        { gsub(/[A-Za-z0-9_]+_param_/, "p"); gsub(/\$L__BB[0-9]*_/, "$L"); print }
    ' "$dir/full" > "$dir/code"
    [ "$(grep -c '\.entry' "$dir/code")" -eq 1 ] || fail "$1 is not one kernel"
    # C99 promises no longer strings.
    [ "$(wc -c < "$dir/code")" -lt 4095 ] || fail "$1 becomes more than 4095 characters"
    ptxas --help | grep -o "'sm_[0-9]*'" | tr -d "'" | sort -u -t_ -k2n | sed -n '1p;$p' |
        while read -r architecture; do
            ptxas -arch="$architecture" -o "$dir/binary" "$dir/code"
        done || fail "$1 is refused"
}

kernels_string() { # many of its lines in one
    awk 'function write() { if (line) { print "\"" line "\\n\"" } }
        { gsub(/["\\]/, "\\\\&") }
        length(line) + length($0) > 92 { write(); line = $0; next }
        { line = line (line ? " " : "") $0 }
        END { write() }' "$dir/code"
}

kernels_example() { # NAME
    echo "static const char ptx_$1[] ="
    sed -e 's/["\\]/\\&/g' -e 's/.*/    "&\\n"/' -e '$s/$/;/' "$dir/code"
}

# ---- headers -------------------------------------------------------------------

head_of() { # TITLE
    echo "/* $1"
    echo "   Made by tests/support/code.sh with $made. */"
    echo "#pragma once"
}

tests_header() {
    head_of "kernels.h - the kernels of the tests, in tests/support/kernels, as PTX."
    printf '\nstatic const struct { const char *name, *text; } test_ptx[] = {\n'
    for file in "$root"/tests/support/kernels/*.cu; do
        kernels_compile "$file"
        echo "{\"$(basename "$file" .cu)\","
        kernels_string | sed '$s/$/},/'
    done
    echo "};"
}

example_header() { # EXAMPLE
    head_of "$1.h - the $kind of examples/$1.c, as $form."
    [ "$kind" = kernels ] || printf '\n#include <stddef.h>\n#include <stdint.h>\n'
    for file in "$root/examples/$kind/$1"_*"$suffix"; do
        "${kind}_compile" "$file"
        name=$(basename "$file" "$suffix")
        echo
        "${kind}_example" "${name#*_}"
    done
}

kind=${1:-}
case $kind in
shaders) suffix=.comp form=arrays tools="glslangValidator spirv-opt spirv-val" ;;
kernels) suffix=.cu form=PTX tools="nvcc ptxas" ;;
*) fail "usage: code.sh shaders|kernels [--check]" ;;
esac
for tool in $tools; do
    command -v "$tool" >/dev/null 2>&1 || {
        echo "no $tool"
        exit 77
    }
done
made=$("${kind}_compiler")
mkdir "$dir/made"
[ "$kind" = shaders ] || tests_header > "$dir/made/kernels.h"
for example in $(basename -s "$suffix" "$root/examples/$kind"/*"$suffix" | sed 's/_.*//' | sort -u)
do
    example_header "$example" > "$dir/made/$example.h"
done
if [ "${2:-}" = --check ] && ! grep -qF "with $made. */" "$root/examples/$kind/photo.h"; then
    echo "all compile; what is there was made by another compiler than $made"
    exit 77
fi
for header in "$dir/made"/*.h; do
    at=$root/examples/$kind/$(basename "$header")
    [ "$(basename "$header")" != kernels.h ] || at=$root/tests/support/kernels.h
    if [ "${2:-}" = --check ]; then
        cmp "$header" "$at" >&2 || fail "$at is out of date"
    else
        cp "$header" "$at"
    fi
done
