#!/bin/sh
# Joins hcq.h and the chosen companions into one header on stdout:
#
#     sh tests/single.sh cpu > hcq_single.h
#
# Arguments: any of cpu vulkan cuda. A companion takes the place of its line
# #include "hcq_NAME.h" in hcq.h, so HCQ_CPU and the like still choose what is
# compiled in; a backend that was left out is an #error when it is asked for.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)

fail() {
    echo "single.sh: $*" >&2
    exit 1
}

[ $# -gt 0 ] || fail "usage: sh tests/single.sh cpu|vulkan|cuda ... > FILE"
for name in "$@"; do
    case $name in
        cpu | vulkan | cuda) ;;
        *) fail "no backend is called '$name': cpu, vulkan or cuda" ;;
    esac
    [ -f "$root/hcq_$name.h" ] || fail "hcq_$name.h is missing"
    grep -q "^#[ ]*include \"hcq_$name\.h\"" "$root/hcq.h" ||
        fail "hcq.h does not include hcq_$name.h"
done

# Only directives in column 1 count: the examples in comments are indented.
# A companion's own #include "hcq.h" is dropped.
awk -v chosen=" $* " -v root="$root" '
    function join(name, line, path) {
        if (index(chosen, " " name " ") == 0) {
            print "#error \"this single header was made without the backend: " name "\""
            return
        }
        path = root "/hcq_" name ".h"
        while ((getline line < path) > 0) {
            if (line !~ /^#[ ]*include "hcq\.h"/) { print line }
        }
        close(path)
    }
    NR == 1 {
        print "/* hcq.h and its companions in one file, joined by tests/single.sh:" chosen "*/"
    }
    /^#[ ]*include "hcq_(cpu|vulkan|cuda)\.h"/ {
        name = $0
        sub(/^[^"]*"hcq_/, "", name)
        sub(/\.h".*/, "", name)
        join(name)
        next
    }
    { print }
' "$root/hcq.h"
