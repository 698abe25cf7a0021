#!/bin/sh
# Makes the page to show, docs/index.html, again and checks it and the one that is there:
#
#     sh tests/examples/page.sh [CC]                       [$CC, else cc]
#
# Both have to be complete, of one file, and small enough (page.py); the one that is there has
# to be what the script makes now, in its words: else run docs/page.py. 77 without python3.
# With $HCQ_OBJECT the examples are linked with that, which has all backends.
set -eu
cc=${1:-${CC:-cc}}
. "$(dirname "$0")/shared.sh"
command -v python3 >/dev/null 2>&1 || skip "no python3"
implementation
CC=$cc python3 "$root/docs/page.py" --object "$hcq" "$dir/index.html" || fail "docs/page.py"
python3 "$root/tests/examples/page.py" "$dir/index.html" "$root/docs/index.html"
