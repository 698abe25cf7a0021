#!/bin/sh
# Checks what the implementation's object file shows to a linker, and what it
# asks of the system.
#
#   sh tests/portability/symbols.sh [COMPILER]

set -u
cd "$(dirname "$0")/../.." || exit 1
cc=${1:-gcc}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/hcq-symbols.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
failed=0

object() { # OUT FLAGS...
    out=$1
    shift
    printf '#define HCQ_IMPLEMENTATION\n#include "hcq.h"\n' |
        "$cc" -std=c11 -O0 -I. "$@" -x c -c - -o "$tmp/$out" || {
        echo "$out does not compile"
        exit 1
    }
}

refuse() { # WHAT NAMES: fails if there are any
    if [ -n "$2" ]; then
        echo "$1:"
        echo "$2" | sed 's/^/    /'
        failed=1
    fi
}

exported() { nm -g --defined-only "$tmp/$1" | awk '{ print $NF }'; }
wanted() { nm -u "$tmp/$1" | awk '{ print $NF }' | sed 's/@.*//'; }

backends="-DHCQ_CPU -DHCQ_CUDA"
some="cpu cuda bare release condvar"
if echo '#include <vulkan/vulkan.h>' | "$cc" -E -x c - >/dev/null 2>&1; then
    backends="$backends -DHCQ_VULKAN"
    some="$some vulkan"
    object vulkan.o -DHCQ_VULKAN
else
    echo "no vulkan/vulkan.h: without HCQ_VULKAN"
fi
object cpu.o -DHCQ_CPU
object cuda.o -DHCQ_CUDA
object bare.o
# Flags and words are split on purpose, here and below.
# shellcheck disable=SC2086
object all.o $backends
# shellcheck disable=SC2086
object static.o $backends -DHCQ_STATIC
object release.o -DHCQ_CPU -DNDEBUG
object condvar.o -DHCQ_CPU -DHCQ_NO_FUTEX

for name in all $some; do
    [ -n "$(exported "$name.o")" ] || refuse "$name exports" nothing
    refuse "$name exports what does not start with hcq_" "$(exported "$name.o" | grep -v '^hcq_')"
done
refuse "HCQ_STATIC still exports" "$(exported static.o)"

# Declared in the header part, so it has to be there; and nothing else is.
# Types, macros and inline helpers have no symbol.
# shellcheck disable=SC2086
"$cc" -std=c11 -E -P -I. $backends -x c hcq.h | tr '\n' ' ' | tr ';{}' '\n' |
    sed -n 's/^.*extern[^"]*[ *]\(hcq_[a-z0-9_]*\)(.*$/\1/p' | sort -u >"$tmp/declared"
exported all.o | sort -u >"$tmp/exported"
refuse "declared, but not defined" "$(comm -23 "$tmp/declared" "$tmp/exported")"
refuse "exported, but not declared" "$(comm -13 "$tmp/declared" "$tmp/exported")"

# A library of it links with threads and the dynamic loader alone. What Vulkan and CUDA
# have is looked up when a device is opened.
for name in all $some; do
    refuse "$name links Vulkan or CUDA" "$(wanted "$name.o" | grep -E '^(vk|cu|nvrtc)')"
done
printf '#define HCQ_IMPLEMENTATION\n#include "hcq.h"\n' >"$tmp/library.c"
# shellcheck disable=SC2086
"$cc" -std=c11 -O0 -fPIC -shared -Wl,--no-undefined -I. $backends "$tmp/library.c" \
    -o "$tmp/library.so" -pthread -ldl 2>"$tmp/missing" ||
    refuse "a library of it lacks" "$(cat "$tmp/missing")"

# No environment, no exit handlers, no signals, no output but a logger's: hcq_log_stderr
# is the one function that writes.
unwanted="getenv secure_getenv setenv putenv environ atexit on_exit exit _exit signal sigaction
    system popen printf __printf_chk vprintf __vprintf_chk puts putchar stdout perror gets sprintf
    strcpy strcat strtok rand srand setlocale localtime"
for name in all $some; do
    # shellcheck disable=SC2086
    refuse "$name asks the system for" "$(wanted "$name.o" | grep -xF "$(printf '%s\n' $unwanted)")"
done

writers=$(nm -u "$tmp/release.o" | awk '{ print $NF }' | grep -xE 'stderr|fprintf|fputs|fwrite')
[ -z "$writers" ] || echo "for hcq_log_stderr: $(echo "$writers" | tr '\n' ' ')"
echo "$(wc -l <"$tmp/exported") symbols exported, $(wc -l <"$tmp/declared") declared"
exit $failed
