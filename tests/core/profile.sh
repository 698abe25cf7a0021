#!/bin/sh
# Profiles a graph on two devices and opens what is written as others would:
#
#     sh tests/core/profile.sh [CC]      [$CC, else cc]
#
# profile.c writes the files, profile.py opens them. Without python3 or chromium
# the rest is skipped; with CI=true it is a failure.
set -eu
cd "$(dirname "$0")/../.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
"${1:-${CC:-cc}}" -std=c11 -O1 -Wall -Wextra -Werror -I. -Itests tests/core/profile.c \
    -o "$dir/profile" -pthread -lcmocka -ldl
"$dir/profile" "$dir"
result=0
python3 tests/core/profile.py "$dir" || result=$?
case $result:${CI:-} in
77:true) exit 1 ;;
127:*) echo "no python3" && exit 77 ;;
esac
exit "$result"
