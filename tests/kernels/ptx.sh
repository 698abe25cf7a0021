#!/bin/sh
# The tests' kernels as PTX for old and new GPUs: what clang makes for sm_60 and sm_80
# assembles, where there is a ptxas, for all devices from there on that it knows.
#     sh tests/kernels/ptx.sh                                    77 without clang
set -eu
cd "$(dirname "$0")/../.."
command -v clang >/dev/null || { echo "no clang"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
known=$(ptxas --help 2>/dev/null | grep -o "'sm_[0-9]*'" | tr -d "'" | sort -u -t_ -k2n) || known=
for arch in sm_60 sm_80; do
    for file in tests/kernels/*.k; do
        name=$(basename "$file" .k)
        sh hcq_kernel.sh --ptx --arch $arch -o "$dir" "$file"
        grep -q "\.target $arch" "$dir/$name.k.h"
        printf '#include "%s"\n#include "%s.h"\n#include <stdio.h>\nint main(void) { %s }\n' \
            "$file" "$dir/$name.k" "return fputs(${name}_ptx, stdout) < 0;" >"$dir/print.c"
        gcc -std=c99 -I. "$dir/print.c" -o "$dir/print" -lm
        "$dir/print" >"$dir/text"
        for device in $known; do
            [ "${device#sm_}" -lt "${arch#sm_}" ] ||
                ptxas -arch="$device" "$dir/text" -o "$dir/cubin"
        done
    done
done
echo "assembled for:" ${known:-"nothing: no ptxas"}
