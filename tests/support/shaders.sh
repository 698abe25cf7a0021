#!/bin/sh
# Makes C arrays of the shaders, tests/support/shaders.h and examples/shaders/*.h:
#
#   sh tests/support/shaders.sh            writes them
#   sh tests/support/shaders.sh --check    fails if what is there is not what it would write
#
# tests/support/shaders/NAME.comp becomes an entry of test_shaders in tests/support/shaders.h,
# examples/shaders/EXAMPLE_NAME.comp the array spirv_NAME in
# examples/shaders/EXAMPLE.h.
#
# Another compiler makes other code of the same shaders: each header names the one
# that made it, and where that is not the one at hand --check only compiles and
# validates them all, says so, and ends with 77. The word of a module that names
# its generator is written as 0.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM

fail() {
    echo "shaders: FAIL: $*" >&2
    exit 1
}

for tool in glslangValidator spirv-opt spirv-val; do
    command -v "$tool" >/dev/null 2>&1 || {
        echo "no $tool"
        exit 77
    }
done

compiler() { # what made the arrays, in one line
    glslang=$(glslangValidator --version | sed -n 's/^Glslang Version: *//p')
    tools=$(spirv-opt --version 2>&1 | awk 'NR == 1 { print $1, $2 }')
    echo "glslang $glslang, $tools"
}

compile() { # FILE: into $dir/module
    glslangValidator --quiet --target-env vulkan1.2 -I"$root/tests/support/shaders" \
        -o "$dir/full" "$1" ||
        fail "$1 does not compile"
    spirv-val --target-env vulkan1.2 "$dir/full" || fail "$1 is not valid"
    # Not optimized: the tool drops loads whose value is not used, volatile or not.
    spirv-opt --strip-debug "$dir/full" -o "$dir/module" || fail "$1 cannot be stripped"
    spirv-val --target-env vulkan1.2 "$dir/module" || fail "$1, stripped, is not valid"
}

array() { # NAME: of $dir/module
    echo
    echo "static const uint32_t $1[] = {"
    od -An -v -tx4 "$dir/module" | tr -s ' \n' '\n\n' | sed '/^$/d' | awk '
        NR == 3 { $0 = "0" }
        { sub(/^0+/, ""); word = "0x" ($0 == "" ? "0" : $0) "," }
        length(line) + length(word) > 99 { print line; line = "" }
        { line = line word }
        END { sub(/,$/, "", line); print line }'
    echo "};"
}

head_of() { # GUARD TITLE
    echo "/* $2"
    echo "   Made by tests/support/shaders.sh with $(compiler). */"
    echo "#ifndef $1"
    echo "#define $1"
    echo
    echo "#include <stddef.h>"
    echo "#include <stdint.h>"
}

tests_header() {
    head_of HCQ_TEST_SHADERS_H \
        "shaders.h - the shaders of the tests, in tests/support/shaders, as arrays."
    echo
    echo "typedef struct test_shader {"
    echo "    const char *name;"
    echo "    const uint32_t *words;"
    echo "    size_t size;                       /* bytes */"
    echo "} test_shader;"
    for file in "$root"/tests/support/shaders/*.comp; do
        compile "$file"
        array "shader_$(basename "$file" .comp)"
    done
    echo
    echo "static const test_shader test_shaders[] = {"
    for file in "$root"/tests/support/shaders/*.comp; do
        name=$(basename "$file" .comp)
        echo "    {\"$name\", shader_$name, sizeof shader_$name},"
    done
    echo "};"
    echo
    echo "#endif /* HCQ_TEST_SHADERS_H */"
}

example_header() { # EXAMPLE
    guard=HCQ_EXAMPLE_$(echo "$1" | tr '[:lower:]' '[:upper:]')_SHADERS_H
    head_of "$guard" "$1.h - the shaders of examples/$1.c, as arrays."
    for file in "$root"/examples/shaders/"$1"_*.comp; do
        compile "$file"
        name=$(basename "$file" .comp)
        array "spirv_${name#*_}"
    done
    echo
    echo "#endif /* $guard */"
}

examples() { # those with shaders
    for file in "$root"/examples/shaders/*.comp; do
        [ -f "$file" ] || continue
        basename "$file" .comp | sed 's/_.*//'
    done | sort -u
}

[ $# -eq 0 ] || [ "$*" = --check ] || fail "usage: shaders.sh [--check]"
mkdir "$dir/examples"
tests_header > "$dir/shaders.h"
for example in $(examples); do
    example_header "$example" > "$dir/examples/$example.h"
done

if [ $# -eq 0 ]; then
    cp "$dir/shaders.h" "$root/tests/support/shaders.h"
    for example in $(examples); do
        cp "$dir/examples/$example.h" "$root/examples/shaders/"
    done
    exit 0
fi
made=$(sed -n 's/^   Made by .* with \(.*\)\. \*\/$/\1/p' "$root/tests/support/shaders.h")
if [ "$made" != "$(compiler)" ]; then
    echo "all compile; the arrays were made with $made, here is $(compiler)"
    exit 77
fi
cmp "$dir/shaders.h" "$root/tests/support/shaders.h" >&2 ||
    fail "tests/support/shaders.h is out of date"
for example in $(examples); do
    cmp "$dir/examples/$example.h" "$root/examples/shaders/$example.h" >&2 ||
        fail "examples/shaders/$example.h is out of date"
done
