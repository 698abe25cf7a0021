/* Prints the layout of hcq's public structs and checks what is promised: a
   64-byte packet with fields at fixed places, the same on every 64-bit system.
   The caller compares the tables of several systems. */
#include "../../hcq.h"

#include <stdio.h>

static int failures;

static void row(const char *name, size_t value, size_t promised) {
    printf("%-36s %lu\n", name, (unsigned long)value);
    if (value != promised) {
        printf("%-36s is not the promised %lu\n", name, (unsigned long)promised);
        failures++;
    }
}

static void show(const char *name, size_t value) {
    printf("%-36s %lu\n", name, (unsigned long)value);
}

#define SIZE(type, promised) row(#type, sizeof(type), promised)
#define FIELD(type, field, promised) row(#type "." #field, offsetof(type, field), promised)
#define SHOW_SIZE(type) show(#type, sizeof(type))
#define SHOW_FIELD(type, field) show(#type "." #field, offsetof(type, field))

static void small_types(void) {
    SIZE(hcq_result, 4);
    SIZE(hcq_dims, 12);
    FIELD(hcq_dims, y, 4);
    FIELD(hcq_dims, z, 8);
    SIZE(hcq_signal, 8);
    SIZE(hcq_point, 16);
    FIELD(hcq_point, value, 8);
    SIZE(hcq_notification, 8);
    SIZE(hcq_block, 36);
    FIELD(hcq_block, grid, 12);
    FIELD(hcq_block, block, 24);
    SIZE(hcq_clock, 24);
}

static void pointers(void) {
    SIZE(hcq_buffer, 40);
    FIELD(hcq_buffer, address, 0);
    FIELD(hcq_buffer, size, 8);
    FIELD(hcq_buffer, host, 16);
    FIELD(hcq_buffer, device, 24);
    FIELD(hcq_buffer, id, 32);
    SIZE(hcq_transfer_end, 56);
    FIELD(hcq_transfer_end, host, 0);
    FIELD(hcq_transfer_end, buffer, 8);
    FIELD(hcq_transfer_end, size, 48);
    SIZE(hcq_memory, 32);
    SIZE(hcq_lane_point, 32);
}

static void packet(void) {
    SIZE(hcq_packet, 64);
    FIELD(hcq_packet, kind, 0);
    FIELD(hcq_packet, flags, 1);
    FIELD(hcq_packet, value_size, 2);
    FIELD(hcq_packet, index, 4);
    FIELD(hcq_packet, u, 8);
    FIELD(hcq_packet, u.exec.code, 8);
    FIELD(hcq_packet, u.exec.args, 16);
    FIELD(hcq_packet, u.exec.grid, 24);
    FIELD(hcq_packet, u.exec.block, 36);
    FIELD(hcq_packet, u.exec.program, 48);
    FIELD(hcq_packet, u.copy.dst, 8);
    FIELD(hcq_packet, u.copy.src, 16);
    FIELD(hcq_packet, u.copy.size, 24);
    FIELD(hcq_packet, u.fill.dst, 8);
    FIELD(hcq_packet, u.fill.value, 16);
    FIELD(hcq_packet, u.fill.size, 24);
    FIELD(hcq_packet, u.write.dst, 8);
    FIELD(hcq_packet, u.write.value, 16);
    FIELD(hcq_packet, u.host.fn, 8);
    FIELD(hcq_packet, u.host.user, 16);
    FIELD(hcq_packet, u.custom.type, 8);
    FIELD(hcq_packet, u.custom.encode_fn, 16);
    FIELD(hcq_packet, u.custom.payload, 24);
}

/* No promise about these but that they agree. */
static void descriptions(void) {
    SHOW_SIZE(hcq_device_desc);
    SHOW_FIELD(hcq_device_desc, timeout_ns);
    SHOW_FIELD(hcq_device_desc, cpu);
    SHOW_FIELD(hcq_device_desc, vulkan);
    SHOW_FIELD(hcq_device_desc, backend_desc);
    SHOW_SIZE(hcq_device_info);
    SHOW_FIELD(hcq_device_info, id);
    SHOW_SIZE(hcq_driver_info);
    SHOW_FIELD(hcq_driver_info, full_name);
    SHOW_SIZE(hcq_transfer_command);
    SHOW_FIELD(hcq_transfer_command, data);
    SHOW_FIELD(hcq_transfer_command, value_size);
    SHOW_SIZE(hcq_error_info);
    SHOW_SIZE(hcq_code);
    SHOW_SIZE(hcq_program_desc);
    SHOW_FIELD(hcq_program_desc, spirv);
    SHOW_SIZE(hcq_program_info);
    SHOW_SIZE(hcq_custom_type);
    SHOW_SIZE(hcq_command);
    SHOW_FIELD(hcq_command, dst);
    SHOW_SIZE(hcq_submission);
    SHOW_FIELD(hcq_submission, affinity);
    SHOW_SIZE(hcq_recording);
    SHOW_FIELD(hcq_recording, lanes);
    SHOW_SIZE(hcq_lane);
    SHOW_SIZE(hcq_batch);
    SHOW_SIZE(hcq_backend_caps);
    SHOW_SIZE(struct hcq_backend);
}

int main(void) {
    if (sizeof(void *) != 8) {
        printf("not a 64-bit system: no promise about layout\n");
        return 0;
    }
    small_types();
    pointers();
    packet();
    descriptions();
    return failures != 0;
}
