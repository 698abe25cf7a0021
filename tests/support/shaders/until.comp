#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel.glsl"
#include "seen.glsl"

void main() {
    if (FIRST_OF_BLOCK) {
        seen_words s = seen();
        atomicExchange(s.until_began, 1u);
        for (uint i = 0u; i < TURNS && (pass(GATE_UNTIL) | s.until_go) == 0u; i++) {}
    }
}
