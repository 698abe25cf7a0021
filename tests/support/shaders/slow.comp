// By hand: time, or words that the host sees while it runs.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel.glsl"
#include "seen.glsl"

// 20 milliseconds at least: behind the gate, or by so many loads from the host's memory.
void main() {
    for (uint i = 0u; i < 100000u && pass(GATE_SLOW) == 0u; i++) {}
}
