#!/bin/sh
# Joins hcq.h and the chosen companions into one header on stdout:
#
#     sh tests/single.sh cpu > hcq_single.h
#
# Arguments: any of cpu vulkan cuda check. A companion takes the place of its line
# #include "hcq_NAME.h" in hcq.h, so HCQ_CPU and the like still choose what is
# compiled in; one that was left out is an #error when it is asked for.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
for name in "${@:-none}"; do
    case $name in cpu | vulkan | cuda | check) continue ;; esac
    echo "usage: sh tests/single.sh cpu|vulkan|cuda|check ... > FILE" >&2
    exit 1
done

# Only directives in column 1 count: the examples in comments are indented.
# A companion's own #include "hcq.h" is dropped.
awk -v chosen=" $* " -v root="$root" '
    NR == 1 {
        print "/* hcq.h and its companions in one file, joined by tests/single.sh:" chosen "*/"
    }
    !/^#[ ]*include "hcq_(cpu|vulkan|cuda|check)\.h"/ { print; next }
    {
        name = $0
        sub(/^[^"]*"hcq_/, "", name)
        sub(/\.h".*/, "", name)
        if (index(chosen, " " name " ") == 0) {
            print "#error \"this single header was made without: " name "\""
            next
        }
        while ((getline line < (root "/hcq_" name ".h")) > 0) {
            if (line !~ /^#[ ]*include "hcq\.h"/) { print line }
        }
    }
' "$root/hcq.h"
