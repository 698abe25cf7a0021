/* devices.h - several devices: each other's memory, and the host's. Part of cuda.c. */
#ifndef HCQ_TEST_CUDA_DEVICES_H
#define HCQ_TEST_CUDA_DEVICES_H

#include "lent.h"

enum { PEER_WORDS = 5000 };

/* Copies between the devices, by transfers, which always work, and by a queue of one
   of them if it sees the other's memory; a kernel on it then, too. */
static void use_each_other(hcq_device *one, hcq_device *two, int sees) {
    static uint32_t model[PEER_WORDS];
    hcq_buffer here = make_words(one, PEER_WORDS), there = make_words(two, PEER_WORDS);
    for (uint32_t i = 0; i < PEER_WORDS; i++) {
        model[i] = i * 2654435761u;
    }
    CHECK_OK(hcq_copyin(here, model, sizeof model));
    CHECK_OK(hcq_transfer(hcq_transfer_device(there), hcq_transfer_device(here), sizeof model, 0,
                          BOUND));
    CHECK_BYTES(there, model, sizeof model);
    hcq_queue *q = make_queue(one, HCQ_COMPUTE);
    add_args args = {there.address, 5, PEER_WORDS};
    CHECK(hcq_queue_exec(q, make_add(one), &args, sizeof args, hcq_dim(PEER_WORDS / 50, 1, 1),
                         hcq_dim(50, 1, 1)) >= 0 || !sees);
    CHECK(hcq_queue_copy(q, here, there, sizeof model) >= 0 || !sees);
    if (sees) {
        submit_and_wait(q, one);
        for (uint32_t i = 0; i < PEER_WORDS; i++) {
            model[i] += 5;
        }
        CHECK_BYTES(here, model, sizeof model);
    } else {
        CHECK(hcq_queue_submit(q, one, NULL) < 0);
    }
    hcq_queue_destroy(q);
    CHECK_OK(hcq_free(there));
    CHECK_OK(hcq_free(here));
}

/* Two devices on one GPU share a context: they see each other's memory always; those of
   other GPUs where these are peers. */
static void memory_of_another_device(TEST_ARGS) {
    NEEDS_MOCK();
    for (uint32_t peers = 0; peers < 2; peers++) {
        mock_cuda_desc desc = mock_wanted();
        desc.devices = test_cu.devices = 3;
        desc.flags |= MOCK_CUDA_NO_PEERS;
        desc.flags ^= peers ? MOCK_CUDA_NO_PEERS : 0;
        M.setup(&desc);
        hcq_device *one = test_open(0, NULL), *two = test_open(1, NULL);
        hcq_device *three = test_open(2, NULL), *same = test_open(0, NULL);
        use_each_other(one, same, 1);
        use_each_other(one, two, (int)peers);
        use_each_other(two, one, (int)peers);
        use_each_other(three, one, (int)peers);
        CHECK_OK(hcq_close(two));
        use_each_other(one, three, (int)peers);
        two = test_open(1, NULL);      /* in a context of its own, again */
        use_each_other(two, one, (int)peers);
        use_each_other(one, two, (int)peers);
        CHECK_OK(hcq_close(two));
        CHECK_OK(hcq_close(three));
        CHECK_OK(hcq_close(same));
        CHECK_OK(hcq_close(one));
        CHECK_U64(things_now(), 0);
    }
}

/* So many are listed, and no more. */
static void devices_that_are_listed(TEST_ARGS) {
    NEEDS_MOCK();
    mock_cuda_desc desc = mock_wanted();
    hcq_driver *driver = NULL;
    uint32_t count = 0;
    desc.devices = 65;
    M.setup(&desc);
    CHECK_OK(hcq_driver_create(NULL, "CUDA", &driver));
    CHECK_OK(hcq_driver_devices(driver, NULL, 0, &count));
    hcq_driver_release(driver);
    CHECK_U64(count, 64);
    test_cu.devices = count;
    hcq_device *device = test_open(63, NULL);
    use_device(device);
    CHECK_OK(hcq_close(device));
}

/* Host memory that several devices see, as an import or the CPU's: each comes and goes
   as it likes, the memory's owner, too. */
static void host_memory_of_all(TEST_ARGS) {
    static uint32_t pages[1024];
    for (uint32_t round = 0; round < 3; round++) {
        hcq_device *cpu = open_cpu(), *one = test_open(0, NULL), *two = test_open(1, NULL);
        hcq_device *const order[3][3] = {{one, two, cpu}, {cpu, one, two}, {two, cpu, one}};
        hcq_buffer shared, mine, theirs;
        if (has_feature(one, HCQ_FEATURE_IMPORT)) {
            CHECK_OK(hcq_alloc(cpu, 64, HCQ_ZEROED, &shared));
            CHECK_OK(hcq_import(one, pages, 4096, &mine));
            CHECK_OK(hcq_import(two, pages, 4096, &theirs));
            const struct { hcq_device *device; hcq_buffer to, from; } copies[] = {
                {one, mine, shared}, {two, hcq_view(theirs, 64, 64), mine}, {two, shared, theirs},
                {one, shared, hcq_view(mine, 64, 64)}
            };
            ((uint32_t *)shared.host)[3] = 7 + round;
            for (uint32_t i = 0; i < 4; i++) {
                hcq_queue *q = make_queue(copies[i].device, HCQ_COMPUTE);
                CHECK_INDEX(hcq_queue_copy(q, copies[i].to, copies[i].from, 64), 0);
                submit_and_wait(q, copies[i].device);
            }
            CHECK_OK(hcq_free(shared));
            CHECK_OK(hcq_trim(cpu, 0));
            CHECK(pages[3] == 7 + round && pages[16 + 3] == 7 + round);
        }
        for (uint32_t i = 0; i < 3; i++) {
            CHECK_OK(hcq_close(order[round][i]));
        }
        CHECK_U64(stats_now().contexts, 0);
    }
}

#define DEVICE_TESTS                                                               \
    TEST_ALONE(memory_of_another_device), TEST_ALONE(host_memory_of_all),          \
    TEST_ALONE(devices_that_are_listed),

#endif /* HCQ_TEST_CUDA_DEVICES_H */
