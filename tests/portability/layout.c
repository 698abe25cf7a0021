/* Prints the layout of hcq's public structs and checks what is promised: a
   64-byte packet with fields at fixed places, the same on every 64-bit system.
   The caller compares the tables of several systems. */
#include "../../hcq.h"

#include <stdio.h>

#define ANY ((size_t)-1) /* no promise but that all systems agree */
#define SIZE(type, promised) {#type, sizeof(type), promised}
#define FIELD(type, field, promised) {#type "." #field, offsetof(type, field), promised}

static const struct {
    const char *name;
    size_t value, promised;
} rows[] = {
    SIZE(hcq_result, 4),
    SIZE(hcq_dims, 12), FIELD(hcq_dims, y, 4), FIELD(hcq_dims, z, 8),
    SIZE(hcq_signal, 8),
    SIZE(hcq_point, 16), FIELD(hcq_point, value, 8),
    SIZE(hcq_notification, 8),
    SIZE(hcq_block, 48), FIELD(hcq_block, grid, 12), FIELD(hcq_block, block, 24),
    FIELD(hcq_block, user, 40),
    SIZE(hcq_clock, 24),
    SIZE(hcq_buffer, 40), FIELD(hcq_buffer, address, 0), FIELD(hcq_buffer, size, 8),
    FIELD(hcq_buffer, host, 16), FIELD(hcq_buffer, device, 24), FIELD(hcq_buffer, id, 32),
    SIZE(hcq_transfer_end, 56), FIELD(hcq_transfer_end, host, 0),
    FIELD(hcq_transfer_end, buffer, 8), FIELD(hcq_transfer_end, size, 48),
    SIZE(hcq_memory, 40),
    SIZE(hcq_lane_point, 32),
    SIZE(hcq_packet, 64), FIELD(hcq_packet, kind, 0), FIELD(hcq_packet, flags, 1),
    FIELD(hcq_packet, value_size, 2), FIELD(hcq_packet, index, 4), FIELD(hcq_packet, u, 8),
    FIELD(hcq_packet, u.exec.code, 8), FIELD(hcq_packet, u.exec.args, 16),
    FIELD(hcq_packet, u.exec.grid, 24), FIELD(hcq_packet, u.exec.block, 36),
    FIELD(hcq_packet, u.exec.program, 48), FIELD(hcq_packet, u.exec.grid_at, 56),
    FIELD(hcq_packet, u.copy.dst, 8), FIELD(hcq_packet, u.copy.src, 16),
    FIELD(hcq_packet, u.copy.size, 24),
    FIELD(hcq_packet, u.fill.dst, 8), FIELD(hcq_packet, u.fill.value, 16),
    FIELD(hcq_packet, u.fill.size, 24), FIELD(hcq_packet, u.host.fn, 8),
    FIELD(hcq_packet, u.host.user, 16), FIELD(hcq_packet, u.custom.type, 8),
    FIELD(hcq_packet, u.custom.encode_fn, 16), FIELD(hcq_packet, u.custom.payload, 24),
    SIZE(hcq_device_desc, ANY), FIELD(hcq_device_desc, timeout_ns, ANY),
    FIELD(hcq_device_desc, cpu, ANY), FIELD(hcq_device_desc, vulkan, ANY),
    FIELD(hcq_device_desc, backend_desc, ANY), SIZE(hcq_device_info, ANY),
    FIELD(hcq_device_info, id, ANY), SIZE(hcq_driver_info, ANY),
    FIELD(hcq_driver_info, full_name, ANY),
    SIZE(hcq_error_info, ANY), SIZE(hcq_code, ANY), SIZE(hcq_program_desc, ANY),
    FIELD(hcq_program_desc, spirv, ANY), SIZE(hcq_program_info, ANY),
    SIZE(hcq_custom_type, ANY), SIZE(hcq_command, ANY), FIELD(hcq_command, dst, ANY),
    SIZE(hcq_submission, ANY), FIELD(hcq_submission, affinity, ANY), SIZE(hcq_recording, ANY),
    FIELD(hcq_recording, lanes, ANY), SIZE(hcq_lane, ANY), SIZE(hcq_batch, ANY),
    SIZE(hcq_backend_caps, ANY), SIZE(struct hcq_backend, ANY),
};

int main(void) {
    int failures = 0;
    if (sizeof(void *) != 8) {
        printf("not a 64-bit system: no promise about layout\n");
        return 0;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        printf("%-36s %lu\n", rows[i].name, (unsigned long)rows[i].value);
        if (rows[i].promised != ANY && rows[i].value != rows[i].promised) {
            printf("%-36s is not the promised %lu\n", rows[i].name,
                   (unsigned long)rows[i].promised);
            failures++;
        }
    }
    return failures != 0;
}
