#!/bin/sh
# Makes C strings of the CUDA kernels, tests/support/kernels.h and examples/kernels/*.h:
#
#   sh tests/support/kernels.sh            writes them
#   sh tests/support/kernels.sh --check    fails if what is there is not what it would write
#
# tests/support/kernels/NAME.cu becomes an entry of test_ptx in tests/support/kernels.h,
# examples/kernels/EXAMPLE_NAME.cu the string ptx_NAME in examples/kernels/EXAMPLE.h.
#
# nvcc writes PTX for drivers that are at least as new as it is, and for devices from
# sm_75 on. Nothing in these kernels needs that: the text says .version 6.0 and
# .target sm_50 (sm_60 where an atomic reaches the host), which ptxas has to take for
# the oldest and the newest device that it knows.
#
# Another compiler makes other text of the same kernels: each header names the one
# that made it, and where that is not the one at hand --check only compiles them all,
# says so, and ends with 77, as it does without nvcc.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
PATH=$PATH${CUDA_HOME:+:$CUDA_HOME/bin}:/usr/local/cuda/bin

fail() {
    echo "kernels: FAIL: $*" >&2
    exit 1
}

for tool in nvcc ptxas; do
    command -v "$tool" >/dev/null 2>&1 || {
        echo "no $tool"
        exit 77
    }
done

compiler() { # what made the text, in one line
    nvcc --version | sed -n 's/^Cuda compilation tools, release .*, V/nvcc /p'
}

architectures() { # the oldest and the newest that ptxas knows
    ptxas --help | grep -o "'sm_[0-9]*'" | tr -d "'" | sort -u -t_ -k2n | sed -n '1p;$p'
}

lower() { # TARGET: the text of stdin without comments, with short names
    awk -v target="$1" '
        { sub(/\/\/.*/, ""); gsub(/[ \t]+/, " "); sub(/^ /, ""); sub(/ $/, "") }
        /^$/ || /^\.loc / || /^\.file / { next }
        /^\.version/ { $0 = ".version 6.0" }
        /^\.target/ { $0 = ".target " target }
        { gsub(/[A-Za-z0-9_]+_param_/, "p"); gsub(/\$L__BB[0-9]*_/, "$L"); print }'
}

compile() { # FILE: into $dir/text
    nvcc -ptx -arch=compute_75 --fmad=false -o "$dir/full" "$1" || fail "$1 does not compile"
    target=sm_50
    ! grep -q '^[^/]*\.sys\.' "$dir/full" || target=sm_60
    lower "$target" < "$dir/full" > "$dir/text"
    [ "$(grep -c '\.entry' "$dir/text")" -eq 1 ] || fail "$1 is not one kernel"
    # C99 promises no longer strings.
    [ "$(wc -c < "$dir/text")" -lt 4095 ] || fail "$1 becomes more than 4095 characters"
    for architecture in $(architectures); do
        ptxas -arch="$architecture" -o "$dir/code" "$dir/text" ||
            fail "$1 is refused for $architecture"
    done
}

string() { # NAME: of $dir/text
    echo
    echo "static const char $1[] ="
    sed -e 's/["\\]/\\&/g' -e 's/.*/    "&\\n"/' -e '$s/$/;/' "$dir/text"
}

head_of() { # GUARD TITLE
    echo "/* $2"
    echo "   Made by tests/support/kernels.sh with $(compiler). */"
    echo "#ifndef $1"
    echo "#define $1"
}

tests_header() {
    head_of HCQ_TEST_KERNELS_H \
        "kernels.h - the CUDA kernels of the tests, in tests/support/kernels, as PTX."
    for file in "$root"/tests/support/kernels/*.cu; do
        compile "$file"
        string "ptx_$(basename "$file" .cu)"
    done
    echo
    echo "static const struct {"
    echo "    const char *name;"
    echo "    const char *text;"
    echo "} test_ptx[] = {"
    for file in "$root"/tests/support/kernels/*.cu; do
        name=$(basename "$file" .cu)
        echo "    {\"$name\", ptx_$name},"
    done
    echo "};"
    echo
    echo "#endif /* HCQ_TEST_KERNELS_H */"
}

example_header() { # EXAMPLE
    guard=HCQ_EXAMPLE_$(echo "$1" | tr '[:lower:]' '[:upper:]')_KERNELS_H
    head_of "$guard" "$1.h - the CUDA kernels of examples/$1.c, as PTX."
    for file in "$root"/examples/kernels/"$1"_*.cu; do
        compile "$file"
        name=$(basename "$file" .cu)
        string "ptx_${name#*_}"
    done
    echo
    echo "#endif /* $guard */"
}

examples() { # those with kernels
    for file in "$root"/examples/kernels/*.cu; do
        [ -f "$file" ] || continue
        basename "$file" .cu | sed 's/_.*//'
    done | sort -u
}

[ $# -eq 0 ] || [ "$*" = --check ] || fail "usage: kernels.sh [--check]"
mkdir "$dir/examples"
tests_header > "$dir/kernels.h"
for example in $(examples); do
    example_header "$example" > "$dir/examples/$example.h"
done

if [ $# -eq 0 ]; then
    cp "$dir/kernels.h" "$root/tests/support/kernels.h"
    for example in $(examples); do
        cp "$dir/examples/$example.h" "$root/examples/kernels/"
    done
    exit 0
fi
made=$(sed -n 's/^   Made by .* with \(.*\)\. \*\/$/\1/p' "$root/tests/support/kernels.h")
if [ "$made" != "$(compiler)" ]; then
    echo "all compile; the text was made with $made, here is $(compiler)"
    exit 77
fi
cmp "$dir/kernels.h" "$root/tests/support/kernels.h" >&2 ||
    fail "tests/support/kernels.h is out of date"
for example in $(examples); do
    cmp "$dir/examples/$example.h" "$root/examples/kernels/$example.h" >&2 ||
        fail "examples/kernels/$example.h is out of date"
done
