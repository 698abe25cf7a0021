#!/bin/sh
# Builds examples/engine.c as C99 and C++11 and checks what it draws:
#
#     sh tests/examples/engine.sh [CC]                     [$CC, else cc]
#
# Its picture has to be that of plain C, with a known number of lit pixels; the validation
# layer has nothing to say, of synchronization either; hcq and the engine wait for each other
# (in_order.c). Then the example is spoilt, line by line, and each time one of the three has
# to tell. 77 without Vulkan's headers or loader, without a device for graphics, and without
# the layer; linked as examples.sh does.
set -eu
cc=${1:-${CC:-cc}}
. "$(dirname "$0")/shared.sh"

build() { # NAME C|C++-STANDARD [SED]: engine, changed by the script
    sed "${3:-}" "$root/examples/engine.c" > "$dir/engine.c"
    sed "${3:-}" "$root/examples/engine.h" > "$dir/engine.h"
    [ -z "${3:-}" ] || ! cat "$dir/engine.c" "$dir/engine.h" | cmp -s "$dir/unchanged" - ||
        fail "nothing is changed by: $3"
    sed -i 's,"../hcq.h","hcq.h",' "$dir/engine.c"
    case $2 in c++*) language=c++ ;; *) language=c ;; esac
    "$cc" -x $language -std="$2" $apart $warnings -O${3:+0} -I"$root/examples" -I"$root" \
        -c "$dir/engine.c" -o "$dir/engine.o" || fail "engine.c does not compile as $2: $cc"
    "$cc" "$dir/engine.o" "$hcq" -o "$dir/$1" -pthread -ldl -lvulkan ||
        fail "engine.c does not link: $cc"
}

run() { # PROGRAM ARGUMENTS: output in $dir/out and $dir/err
    program=$1
    shift
    "$dir/$program" "$@" > "$dir/out" 2> "$dir/err" ||
        fail "$program ended with $?: $(cat "$dir/out" "$dir/err")"
}

in_order() { # NAME: what in_order.c says
    LD_PRELOAD=$dir/in_order.so run "$1"
    cat "$dir/err"
}

validated() { # NAME: what the layer says
    VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation \
        VK_LAYER_ENABLES=VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT \
        run "$1"
    cat "$dir/out" "$dir/err" | sed '/^ok: /d'
}

# ---- what there is ---------------------------------------------------------------

vulkan_headers || skip "no vulkan/vulkan.h"
echo 'int main(void) { return 0; }' | "$cc" -x c - -o "$dir/probe" -lvulkan 2>/dev/null ||
    skip "no libvulkan to link with"
implementation
cat "$root/examples/engine.c" "$root/examples/engine.h" > "$dir/unchanged"
"$cc" $warnings -shared -fPIC "$root/tests/examples/in_order.c" -o "$dir/in_order.so" -ldl ||
    fail "in_order.c does not compile: $cc"

# ---- the shaders -----------------------------------------------------------------

# Another glslangValidator may write other words.
if command -v glslangValidator >/dev/null; then
    for stage in vert frag; do
        glslangValidator -V -g0 --vn engine_$stage -o "$dir/$stage.h" \
            "$root/examples/engine.$stage" >"$dir/out" || fail "$(cat "$dir/out")"
        [ "$(head -n 1 "$dir/$stage.h")" != "$(head -n 1 "$root/examples/engine.$stage.h")" ] ||
            cmp "$dir/$stage.h" "$root/examples/engine.$stage.h" >&2 ||
            fail "engine.$stage.h is not of engine.$stage"
    done
fi

# ---- as it is --------------------------------------------------------------------

build engine c99
"$dir/engine" "$dir/engine.ppm" > "$dir/out" 2> "$dir/err" || {
    ! grep -qE 'engine: no (Vulkan|queue)' "$dir/err" || skip "$(cat "$dir/err")"
    fail "engine ended with 1: $(cat "$dir/out" "$dir/err")"
}
[ ! -s "$dir/err" ] || fail "engine complains: $(cat "$dir/err")"
wanted="ok: 120 frames, 413046 pixels lit"
[ "$(cat "$dir/out")" = "$wanted" ] || fail "not '$wanted': $(cat "$dir/out")"
[ "$(head -c 15 "$dir/engine.ppm" | tr '\n' ' ')" = "P6 960 540 255 " ] &&
    [ "$(wc -c < "$dir/engine.ppm")" -eq $((960 * 540 * 3 + 15)) ] || fail "not a picture"
! "$dir/engine" "$dir/nowhere/engine.ppm" 2> "$dir/err" >&2 || fail "a picture was written nowhere"
grep -q "cannot write" "$dir/err" || fail "not said: $(cat "$dir/err")"

few='s/FRAMES = 120/FRAMES = 6/'
echo 'int main() { return 0; }' | "$cc" -x c++ - -o "$dir/probe" 2>/dev/null && standard=c++11 ||
    standard=c99
build few $standard "$few"
[ "$(in_order few)" = "0 of 11 turns are hurried" ] || fail "not in order: $(cat "$dir/err")"

# ---- spoilt ----------------------------------------------------------------------

build hurried_hcq c99 "$few; s/work.wait_count = 1/work.wait_count = 0/"
build hurried_engine c99 "$few; s/waitSemaphoreInfoCount = info/waitSemaphoreInfoCount = 0; info/"
for spoilt in hurried_hcq hurried_engine; do
    in_order $spoilt | grep -q '^[1-9]' || fail "$spoilt: waits are missing, and nobody tells"
done
build moved c99 "$few; s/args = { p->particles.address, PARTICLES }/args = { p->particles.address, 9 }/"
! "$dir/moved" > "$dir/out" 2>&1 || fail "another picture, and nobody tells: $(cat "$dir/out")"

# ---- under the layer -------------------------------------------------------------

build disordered c99 "$few; s/change_layout(e, commands, VK_IMAGE_LAYOUT_COLOR/if (0) &/"
[ -n "$(validated disordered)" ] || skip "no validation layer; the rest is ok"
said=$(validated few)
[ -z "$said" ] || fail "the validation layer says: $said"
echo "ok: the picture, the waits, the validation layer"
