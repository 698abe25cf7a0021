#!/bin/sh
# Makes C of the tests' CUDA kernels, which nobody should need a compiler for:
#
#     sh tests/support/code.sh [--check]
#
# tests/support/kernels/NAME.cu becomes an entry of test_ptx in kernels.h.
#
# Another compiler makes other code: the header names the one that made it. --check
# fails if it would write something else; where another compiler is at hand it only
# compiles all, says so, and ends with 77, as it does without one.
#
# nvcc writes PTX for drivers as new as itself and devices from sm_75 on, which nothing in
# these kernels needs: the text says .version 6.0 and .target sm_50 (sm_60 where an atomic
# reaches the host), and ptxas has to take it for the oldest and the newest device that it
# knows.
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

compile() { # FILE: into $dir/code, without comments, with short names
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

string() { # many of its lines in one
    awk 'function write() { if (line) { print "\"" line "\\n\"" } }
        { gsub(/["\\]/, "\\\\&") }
        length(line) + length($0) > 92 { write(); line = $0; next }
        { line = line (line ? " " : "") $0 }
        END { write() }' "$dir/code"
}

header() {
    echo "/* kernels.h - the kernels of the tests, in tests/support/kernels, as PTX."
    echo "   Made by tests/support/code.sh with $made. */"
    echo "#pragma once"
    printf '\nstatic const struct { const char *name, *text; } test_ptx[] = {\n'
    for file in "$root"/tests/support/kernels/*.cu; do
        compile "$file"
        echo "{\"$(basename "$file" .cu)\","
        string | sed '$s/$/},/'
    done
    echo "};"
}

for tool in nvcc ptxas; do
    command -v "$tool" >/dev/null 2>&1 || {
        echo "no $tool"
        exit 77
    }
done
made=$(nvcc --version | sed -n 's/^Cuda compilation tools, release .*, V/nvcc /p')
at=$root/tests/support/kernels.h
header > "$dir/kernels.h"
if [ "${1:-}" != --check ]; then
    cp "$dir/kernels.h" "$at"
elif grep -qF "with $made. */" "$at"; then
    cmp "$dir/kernels.h" "$at" >&2 || fail "$at is out of date"
else
    echo "all compile; what is there was made by another compiler than $made"
    exit 77
fi
