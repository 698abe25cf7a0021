#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel.glsl"
#include "seen.glsl"

layout(buffer_reference, std430) volatile coherent buffer pace {
    uint runs[4];
    uint armed, open, seen;
    uint hold_call, hold_run, watch_call, watch_run;
    uint let;
    uint limit_low, limit_high; // nanoseconds
};
layout(buffer_reference, std430) buffer args { words dst, src; pace p; uint id, add; };
layout(push_constant) uniform block { args k; };

void hold(pace p) {
    uint left = p.limit_high != 0u ? TURNS : p.limit_low / 1000u;
    for (uint i = 0u; i < TURNS && left != 0u && (p.let | p.open) == 0u; i++) {
        if (p.runs[p.watch_call] >= p.watch_run) {
            p.seen = 1u;
            return;
        }
        left -= p.armed;
    }
}

void main() {
    if (FIRST_OF_BLOCK) {
        pace p = k.p;
        uint run = atomicAdd(p.runs[k.id], 1u) + 1u;
        if (p.hold_call == k.id && p.hold_run == run && pass(GATE_PACE) == 0u) {
            hold(p);
        }
        k.dst.v[0] = k.dst.v[0] * 31u + k.src.v[0] + k.add;
    }
}
