#!/bin/sh
# Makes a release of the commit HEAD: hcq-VERSION.tar.gz with all its files, and hcq-VERSION.h,
# one header with every backend and the checker. The same commit gives the same bytes. Where
# README, CHANGELOG and header do not agree on the version nothing is made.
#
#     sh tests/release.sh DIR
set -eu
[ $# = 1 ] || { echo "usage: sh tests/release.sh DIR" >&2; exit 1; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
git archive --format=tar HEAD | tar -x -C "$files"

number() { sed -n "s/^#define HCQ_VERSION_$1 \([0-9]*\)\$/\1/p" "$files/hcq.h"; }
version=$(number MAJOR).$(number MINOR).$(number PATCH)
fail() {
    echo "release: $*" >&2
    exit 1
}
grep -q -F "Version $version;" "$files/README.md" || fail "README.md is not of version $version"
[ "$(sed -n 's/^## \([0-9][0-9.]*\).*/\1/p' "$files/CHANGELOG.md" | head -n 1)" = "$version" ] ||
    fail "CHANGELOG.md does not begin with version $version"

sh "$files/tests/single.sh" cpu vulkan cuda check >"$out/hcq-$version.h"
git archive --format=tar --prefix="hcq-$version/" HEAD | gzip -n -9 >"$out/hcq-$version.tar.gz"
cd "$out"
sha256sum "hcq-$version.h" "hcq-$version.tar.gz"
