#!/bin/sh
# Checks what the implementation's object file shows to a linker, and what it
# asks of the system. What one backend has the object with all of them has, too.
#
#   sh tests/portability/symbols.sh [COMPILER]

# Flags and words are split on purpose.
# shellcheck disable=SC2086
set -u
cd "$(dirname "$0")/../.." || exit 1
cc=${1:-gcc}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/hcq-symbols.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
failed=0

backends="-DHCQ_CPU -DHCQ_CUDA"
if echo '#include <vulkan/vulkan.h>' | "$cc" -E -x c - >/dev/null 2>&1; then
    backends="$backends -DHCQ_VULKAN"
else
    echo "no vulkan/vulkan.h: without HCQ_VULKAN"
fi

object() { # OUT FLAGS...
    out=$1
    shift
    printf '#define HCQ_IMPLEMENTATION\n#include "hcq.h"\n' |
        "$cc" -std=c11 -O0 -fPIC -I. $backends "$@" -x c -c - -o "$tmp/$out" || {
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

object all.o
object static.o -DHCQ_STATIC
object other.o -DNDEBUG -DHCQ_NO_FUTEX
object checked.o -DHCQ_CHECK

# No environment, no exit handlers, no signals, no output but a logger's: hcq_log_stderr
# is the one function that writes. No processes, files but what fopen opens, or shared
# memory: so one that is killed leaves nothing behind.
unwanted="getenv secure_getenv setenv putenv environ atexit on_exit exit _exit signal sigaction
    system popen printf __printf_chk vprintf __vprintf_chk puts putchar stdout perror gets sprintf
    strcpy strcat strtok rand srand setlocale localtime fork vfork clone execv execve execvp
    posix_spawn posix_spawnp open open64 creat mkdir mkfifo mkstemp tmpfile memfd_create shm_open
    shmget msgget semget sem_open"
for name in all other checked; do
    refuse "$name exports what does not start with hcq_" "$(exported $name.o | grep -v '^hcq_')"
    # What Vulkan and CUDA have is looked up when a device is opened.
    refuse "$name links Vulkan or CUDA" "$(wanted $name.o | grep -E '^(vk|cu|nvrtc)')"
    refuse "$name asks the system for" "$(wanted $name.o | grep -xF "$(printf '%s\n' $unwanted)")"
done
refuse "HCQ_STATIC still exports" "$(exported static.o)"

# Declared in the header part, so it has to be there; and nothing else is.
# Types, macros and inline helpers have no symbol.
for name in checked all; do
    check=-UHCQ_CHECK
    [ $name = all ] || check=-DHCQ_CHECK
    "$cc" -std=c11 -E -P -I. $backends $check -x c hcq.h | tr '\n' ' ' | tr ';{}' '\n' |
        sed -n 's/^.*extern[^"]*[ *]\(hcq_[a-z0-9_]*\)(.*$/\1/p' | sort -u >"$tmp/declared"
    exported $name.o | sort -u >"$tmp/exported"
    refuse "declared, but not defined" "$(comm -23 "$tmp/declared" "$tmp/exported")"
    refuse "exported, but not declared" "$(comm -13 "$tmp/declared" "$tmp/exported")"
done
[ -s "$tmp/exported" ] || refuse "exported" nothing

# A library of it links with threads and the dynamic loader alone.
"$cc" -shared -Wl,--no-undefined "$tmp/all.o" -o "$tmp/library.so" -pthread -ldl \
    2>"$tmp/missing" || refuse "a library of it lacks" "$(cat "$tmp/missing")"

echo "$(wc -l <"$tmp/exported") symbols exported, $(wc -l <"$tmp/declared") declared"
exit $failed
