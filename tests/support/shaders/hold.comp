// By hand: words that the host sees while it runs, at an address put into the code.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel.glsl"
#include "seen.glsl"

void main() {
    if (FIRST_OF_BLOCK) {
        seen_words s = seen();
        atomicAdd(s.hold_began, 1u);
        until_hold_go();
        atomicAdd(s.hold_ended, 1u);
    }
}
