#!/bin/sh
# Profiles a graph on two devices and opens what is written as others would:
#
#     sh tests/core/profile.sh [--big] [CC]      [$CC, else cc]
#
# profile.c writes the files, profile.py opens them; --big: a page of 100,000
# events, which takes three seconds of CPU time at most. Without python3 or chromium the rest
# is skipped; with CI=true it is a failure.
set -eu
cd "$(dirname "$0")/../.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
big=
[ "${1:-}" != --big ] || { big=--big && shift; }
cc=${1:-${CC:-cc}}
build() { # FLAGS...
    "$cc" -std=c11 -O0 -Wall -Wextra -Werror "$@" -I. -Itests tests/core/profile.c \
        -o "$dir/profile" -pthread -lcmocka -ldl
}
write() { "$dir/profile" "$dir" "$1"; }
if [ -n "$big" ]; then
    build
    write files_of_very_many
else
    build -DHCQ_CHECK
    write files_of_races
    build
    write files_of_shares
    write files_of_a_profile
fi
result=0
python3 tests/core/profile.py "$dir" $big || result=$?
case $result:${CI:-} in
77:true) exit 1 ;;
127:*) echo "no python3" && exit 77 ;;
esac
exit "$result"
