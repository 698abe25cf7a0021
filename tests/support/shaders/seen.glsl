// Words that the host and kernels of all devices see while they run: test_seen
// in util.h. The host writes its address into the module, as the default of two
// constants.
layout(constant_id = 20) const uint seen_low = 0u;
layout(constant_id = 21) const uint seen_high = 0u;

layout(buffer_reference, std430) volatile coherent buffer seen_words {
    uint hold_go, hold_began, hold_ended;
    uint mark_clock, marks[16];
};

layout(buffer_reference, std430) volatile coherent buffer gate_word { uint shut; };

const uint GATE_HOLD = 1u, GATE_SLOW = 2u;
const uint TURNS = 10000000u; // of a loop that waits: 10 seconds or so, where memory is far

uvec2 seen_at(uint offset) {
    uint carry;
    uint low = uaddCarry(seen_low, offset, carry);
    return uvec2(low, seen_high + carry);
}

seen_words seen() {
    return seen_words(seen_at(0u));
}

// Some drivers end a loop after 65,535 turns, so that a loop cannot wait long. Where
// a device uses the host's addresses, this load is enough: it does not return
// before the host opens the gate. It gives 0.
uint pass(uint gate) {
    return gate_word(seen_at(gate * 65536u)).shut;
}

void until_hold_go() {
    seen_words s = seen();
    for (uint i = 0u; i < TURNS && (pass(GATE_HOLD) | s.hold_go) == 0u; i++) {}
}
