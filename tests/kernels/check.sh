#!/bin/sh
# What hcq_kernel.sh refuses, and that it says where; that the same source gives the same
# bytes; that every .k.h is of the .k beside it.  sh tests/kernels/check.sh
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$root"

fail() {
    echo "check.sh: FAIL: $*" >&2
    exit 1
}

kernel() { # BODY: of a phase, in line 8
    cat <<END
#include "hcq_kernel.h"
#define K(ARG) ARG(INOUT, f32s, y) ARG(IN, f32s, x) ARG(OUT, u32s, z) ARG(VALUE, u32, n)
#define K_SHARED(VAR) VAR(f32, part, [64])
#define LEAVE(condition) if (condition) { return; }
HCQ_FN void store(f32s at) { at.at[0] = 0.0f; }
HCQ_BLOCK_KERNEL(k, K, K_SHARED, 64, 1, 1) {
    f32 sum = 0.0f; /* } */
    HCQ_PHASE_X(t) { $1 }
    HCQ_PHASE_X(t) { y.at[t] = sum; }
}
END
}

kernel 'part[t] = x.at[t] * 0x8000000u / 2147483648u* 1e-3f; /* 0.5 */' >"$dir/good.k"
sh hcq_kernel.sh "$dir/good.k" || fail "a good kernel"
cp "$dir/good.k.h" "$dir/first"
sh hcq_kernel.sh --check "$dir/good.k" || fail "a good kernel is no longer"
sh hcq_kernel.sh -o "$dir" "$dir/good.k" && cmp "$dir/good.k.h" "$dir/first" || fail "other bytes"
echo >>"$dir/good.k"
! sh hcq_kernel.sh --check "$dir/good.k" 2>"$dir/said" || fail "a .k.h of another source passes"
grep -q 'good.k.h was made of another' "$dir/said" || fail "$(cat "$dir/said")"

mkdir "$dir/out" && mv "$dir/good.k.h" "$dir/out"
! sh hcq_kernel.sh --check -o "$dir/out" "$dir/good.k" 2>"$dir/said" || fail "--check of -o"
grep -q 'out/good.k.h was made of another' "$dir/said" || fail "$(cat "$dir/said")"

mkdir "$dir/more"
printf '#include "hcq_kernel.h"\nHCQ_FN u32 twice(u32 n) { return 2u * n; }\n' >"$dir/more/twice.h"
{ echo '#include "twice.h"' && kernel 'z.at[t] = twice(STEP);'; } >"$dir/twice.k"
sh hcq_kernel.sh --spirv -I "$dir/more" -D STEP=7u "$dir/twice.k" 2>"$dir/said" || fail "$(cat "$dir/said")"
[ ! -s "$dir/said" ] && ! grep -q PTX "$dir/twice.k.h" || fail "-I, -D, --spirv: $(cat "$dir/said")"
sh hcq_kernel.sh --ptx -I"$dir/more" -DSTEP=7u "$dir/twice.k" && ! grep -q SPIRV "$dir/twice.k.h" ||
    fail "--ptx"
sh hcq_kernel.sh --check -I"$dir/more" -DSTEP=7u "$dir/twice.k" || fail "the same with -I"
echo >>"$dir/more/twice.h"
! sh hcq_kernel.sh --check -I"$dir/more" -DSTEP=7u "$dir/twice.k" 2>"$dir/said" ||
    fail "another file of -I passes"
grep -q 'twice.k.h was made of another' "$dir/said" || fail "$(cat "$dir/said")"

mkdir "$dir/a b" && cp hcq.h hcq_kernel.h hcq_kernel.sh "$dir/good.k" "$dir/a b"
sh "$dir/a b/hcq_kernel.sh" "$dir/a b/good.k" || fail "a folder with a space"

for name in one two; do
    printf '#ifndef %s\n#define %s\n#include "../more/one.h"\n#include "two.h"\n#endif\n' $name $name \
        >"$dir/more/$name.h"
done
{ echo '#include "more/one.h"' && cat "$dir/good.k"; } >"$dir/round.k"
sh hcq_kernel.sh --spirv "$dir/round.k" || fail "files that include each other"

cp "$dir/good.k" "$dir/2d.k"
sh hcq_kernel.sh "$dir/2d.k" || fail "a name that begins with a digit"
printf '#include "hcq.h"\n#include "2d.k"\n#include "2d.k.h"\n' >"$dir/2d.c"
gcc -fsyntax-only -I. "$dir/2d.c" || fail "a name that begins with a digit is not C"

{ cat "$dir/good.k" && echo '  HCQ_KERNEL ( two , K) { HCQ_FOR_X(i, n) { y.at[i] = 1.0f; } }'; } \
    >"$dir/blanks.k"
sh hcq_kernel.sh --spirv "$dir/blanks.k" || fail "blanks around a name"
grep -q two_spirv "$dir/blanks.k.h" || fail "blanks around a name: no kernel"
printf '#define TWO HCQ_KERNEL(two, K) { HCQ_FOR_X(i, n) { y.at[i] = 1.0f; } }\nTWO\n' >>"$dir/blanks.k"
! sh hcq_kernel.sh --spirv "$dir/blanks.k" 2>"$dir/said" || fail "a kernel of a macro is left out"
grep -q 'blanks.k:13: error: begin a line' "$dir/said" || fail "$(cat "$dir/said")"

mkdir "$dir/empty" && ln -s "$(command -v dirname)" "$(command -v mktemp)" "$(command -v rm)" "$dir/empty"
status=0
PATH=$dir/empty /bin/sh hcq_kernel.sh "$dir/good.k" 2>"$dir/said" || status=$?
[ "$status" = 77 ] || fail "no tools, and $status"
head -n 1 "$dir/said" | grep -q 'no glslangValidator (or glslc) clang (or nvcc)' || fail "$(cat "$dir/said")"

while IFS='@' read -r words body; do
    kernel "$body" >"$dir/bad.k"
    ! sh hcq_kernel.sh --check "$dir/bad.k" 2>"$dir/said" || fail "taken: $body"
    grep "bad.k:8:.*error: .*$words" "$dir/said" >"$dir/line" || fail "$body: $(cat "$dir/said")"
done <<'END'
assign\|read-only@sum += x.at[t];
assign\|read-only@n = 1u;
assign\|read-only@x.at[t] = 0.0f;
return out of@if (t > 3u) { return; }
should return a value@LEAVE(t > 3u)
break@if (t > 3u) { break; }
continue@if (t > 3u) { continue; }
HCQ_PHASE_X inside@HCQ_PHASE_X(u) { part[u] = 0.0f; }
one HCQ_FOR@} HCQ_FOR_X(i, n) { part[i] = 0.0f;
without { }@} HCQ_PHASE_X(u) part[u] = 0.0f; {
deleted operator@} part[0] = 0.0f; {
deleted operator@} f32 total = part[0]; {
deleted operator@} HCQ_PHASE_BELOW(u, u32(part[0])) {
const@} y.at[0] = 0.0f; {
const@} y.at[0]++; {
pointer to non-const@} hcq_atomic_add(z.at[0], 1u); {
pointer to non-const@} hcq_atomic_max(z.at[0], 1u); {
deleted function@} store(y); {
writeonly@part[t] = f32(z.at[t]);
begin a line@} } HCQ_KERNEL(two, K) { HCQ_FOR_X(i, n) {
bool has 1 byte@} } HCQ_STRUCT(seen) { f32 x; bool y; }; HCQ_FN void other(hcqi_k_place block, f32s y, f32 sum) { {
bool has 1 byte@} } HCQ_BUFFERS(bools, bool, 1); HCQ_FN void other(hcqi_k_place block, f32s y, f32 sum) { {
hcq_sqrt.*no matching@f64 k = f64(2.0f); y.at[t] = f32(hcq_sqrt(k));
hcq_fma.*no matching@f64 k = f64(2.0f); y.at[t] = f32(hcq_fma(k, k, k));
0.1 is double@y.at[t] = 0.1 * x.at[t];
2. is double@y.at[t] = 2.*x.at[t];
1e-3 is double@y.at[t] = x.at[t] < 1e-3 ? 0.5f : 1.0e+3f;
.5 is double@f64 k = .5;
0x80000000 is unsigned@z.at[t] = u32(x.at[t]) / 0x80000000;
0x0ffffffff is unsigned@z.at[t] = 0x7fffffff + 0x0ffffffff + 0xffffffffu;
2147483648 is unsigned@z.at[t] = 2147483647 + 2147483648 + 4294967295u;
syntax@f32 *p = 0;
half@f32 half = 0.5f;
convert@i32 v = n;
END

for file in examples/*.k tests/bench/*.k; do # the others are made by the steps that run them
    sh hcq_kernel.sh --check "$file" || fail "$file"
done
echo "ok"
