/* replay.h - bound queues: what a submit launches, and what a patch
   changes. Part of cuda.c. */
#pragma once

#include "kernels.h"
#include "shared.h"

/* What a device did since. */
typedef struct counts {
    uint64_t launches, graph_launches, graphs, nodes, set, batches, allocations;
    uint64_t set_calls, other_calls;   /* seen by the mock: for nodes that change; for more */
} counts;

static counts counts_now(hcq_device *device) {
    return (counts){
        COUNT(device, LAUNCHES), COUNT(device, GRAPH_LAUNCHES), COUNT(device, GRAPHS),
        COUNT(device, NODES), COUNT(device, NODES_SET), COUNT(device, BATCHES), allocations(),
        calls_of("cuGraphExec*") - calls_of("cuGraphExecDestroy"),
        calls_of("cuGraphAdd*") + calls_of("cuGraphInstantiate*") + calls_of("cuGraphUpload") +
            calls_of("cuLaunchKernel")};
}

static counts counts_since(hcq_device *device, const counts *before) {
    counts c = counts_now(device);
    for (size_t i = 0; i < sizeof c / sizeof(uint64_t); i++) {
        ((uint64_t *)(void *)&c)[i] -= ((const uint64_t *)(const void *)before)[i];
    }
    return c;
}

/* Nothing but one launch of a graph that is there, and `set` changed nodes. */
static void only_a_launch(hcq_device *device, const counts *before, uint64_t set) {
    counts c = counts_since(device, before);
    CHECK_U64(c.graph_launches, 1);
    CHECK_U64(c.batches, 1);
    CHECK_U64(c.set, set);
    CHECK_U64(c.set_calls, mocked ? set : 0);
    CHECK_U64(c.launches, 0);
    CHECK_U64(c.graphs + c.nodes, 0);
    CHECK_U64(c.other_calls, 0);
    CHECK_U64(c.allocations, 0);
}

/* ---- one launch for all, one node for one change ---- */

/* With one version a change is one node, also after several of one command; the same
   value again is none, nor is one that is taken back. */
TEST(one_patch_is_one_node) {
    enum { COMMANDS = 1000, WORDS = 16, ROUNDS = 30 };
    static uint32_t value[COMMANDS];
    uint32_t sums[WORDS] = {0}, model[WORDS] = {0};
    SKIP_IF(!info_of(T.dev).graphs, "bound queues are no graphs here");
    SKIP_IF(!info_of(T.dev).device_times, "without kernels of hcq's copies are no nodes");
    hcq_device *device = device_with_slots(1);
    hcq_buffer words = make_words(device, WORDS), src = make_words(device, 8);
    hcq_buffer copied = make_words(device, 8);
    hcq_program *add = make_add(device);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    for (uint32_t i = 0; i < COMMANDS; i++) {
        value[i] = i + 1;
        CHECK_INDEX(record_add(q, add, words, i % WORDS, value[i]), i);
        sums[i % WORDS] += value[i];
    }
    CHECK_INDEX(hcq_queue_copy(q, copied, src, 16), COMMANDS);
    CHECK_INDEX(hcq_queue_fill(q, hcq_view(copied, 16, 16), 16, 7, 8),
                COMMANDS + 1);
    CHECK_OK(hcq_queue_bind(q, device));
    for (uint32_t k = 0; k <= ROUNDS; k++) {
        uint32_t at = k * 379 % COMMANDS, was = value[at];
        hcq_buffer from = hcq_view(src, k % 4 == 3 ? 16 : 0, 16);
        value[at] = k == 0 || k % 3 == 2 ? was : 5000 + k;
        for (uint32_t i = 3; i-- > 0;) {
            uint32_t next = value[at] + i * (k % 2);
            uint64_t address = words.address + (i * (k % 2) + at) % WORDS * 4;
            CHECK_OK(hcq_queue_update_arg(q, (int32_t)at, 8, &next, 4));
            CHECK_OK(hcq_queue_update_arg(q, (int32_t)at, 0, &address, 8));
        }
        CHECK_OK(hcq_queue_update_copy(q, COMMANDS, NULL, &from, 16));
        sums[at % WORDS] += value[at] - was;
        counts before = counts_now(device);
        submit_and_wait(q, device);
        if (k) {
            uint64_t patched = value[at] != was ? 1 : 0;
            patched += k % 4 == 3 || k % 4 == 0 ? 1 : 0; /* the copy: there and back */
            only_a_launch(device, &before, patched);
        }
        for (uint32_t i = 0; i < WORDS; i++) {
            model[i] += sums[i];
        }
    }
    CHECK_BYTES(words, model, sizeof model);
    CHECK_OK(hcq_close(device));
}

/* ---- where there are no graphs ---- */

/* A kernel between waits and host commands is a graph, too. Asked for, there are no graphs at
   all, with the same results. */
TEST(single_commands_are_launched) {
    for (uint32_t graphs = 0; graphs < 2; graphs++) {
        hcq_device_desc desc = test_desc();
        desc.versions = 1;
        test_cuda_desc.flags |= graphs ? 0 : HCQ_CUDA_NO_GRAPHS;
        hcq_device *device = test_open(0, &desc);
        hcq_buffer words = make_words(device, 4);
        hcq_program *add = make_add(device);
        hcq_queue *q = make_queue(device, HCQ_COMPUTE);
        const uint32_t are = info_of(device).graphs;
        CHECK(graphs || !are);
        CHECK_INDEX(record_add(q, add, words, 1, 1), 0);
        CHECK_INDEX(hcq_queue_wait(q, hcq_at(make_signal(device, 1), 1)), 1);
        CHECK_INDEX(record_add(q, add, words, 1, 1), 2);
        CHECK_INDEX(record_add(q, add, words, 2, 1), 3);
        CHECK_INDEX(record_add(q, add, words, 3, 1), 4);
        CHECK_INDEX(hcq_queue_host(q, host_nothing, NULL), 5);
        CHECK_INDEX(record_add(q, add, words, 3, 1), 6);
        CHECK_OK(hcq_queue_bind(q, device));
        counts before = counts_now(device);
        for (uint32_t i = 0; i < 5; i++) {
            uint32_t value = i + 1;
            CHECK_OK(hcq_queue_update_arg(q, 0, 8, &value, 4));
            CHECK_OK(hcq_queue_update_arg(q, 4, 8, &value, 4));
            submit_and_wait(q, device);
        }
        counts c = counts_since(device, &before);
        CHECK_U64(c.launches, are ? 0 : 5 * 5);
        CHECK(c.graph_launches == (are ? 3 * 5 : 0) && c.set == (are ? 2 * 4 : 0));
        CHECK(COUNT(device, GRAPHS) == 0 || are);
        const uint32_t want[4] = {0, 15 + 5, 5, 15 + 5};
        CHECK_BYTES(words, want, sizeof want);
        CHECK_OK(hcq_close(device));
    }
}

/* A copy between device memory becomes one to pinned, imported, another device's
   memory, which no node may do, and back. */
TEST(copies_change_their_kind_of_memory) {
    enum { N = 64, KINDS = 4 };
    uint32_t *pages = (uint32_t *)calloc(N, 4);
    hcq_device *other = device_with(0, 1, 1);
    hcq_buffer ends[KINDS];
    uint32_t kinds = 2;
    const int imports = has_feature(T.dev, HCQ_FEATURE_IMPORT);
    ends[0] = make_words(T.dev, N);
    ends[1] = make_buffer(T.dev, N * 4, HCQ_HOST_VISIBLE | HCQ_ZEROED);
    if (imports) {                     /* and other devices' memory is seen */
        CHECK_OK(hcq_import(T.dev, pages, N * 4, 0, &ends[kinds++]));
        ends[kinds++] = make_words(other, N);
    }
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer first = make_words(T.dev, N), src = make_words(T.dev, N);
    CHECK_INDEX(hcq_queue_copy(q, first, src, N * 4), 0);
    CHECK_INDEX(hcq_queue_fill(q, src, N * 4, 0, 4), 1);
    CHECK_OK(hcq_queue_bind(q, T.dev));
    for (uint32_t k = 0; k < 4 * kinds * kinds; k++) {
        hcq_buffer to = ends[k % kinds], from = ends[k / kinds % kinds];
        uint32_t model[N];
        for (uint32_t i = 0; i < N; i++) {
            model[i] = k * 1000 + i;
        }
        if (k % kinds != k / kinds % kinds) {
            CHECK_OK(hcq_copyin(from, model, sizeof model));
            settle(other);             /* no point orders the two */
            CHECK_OK(hcq_queue_update_copy(q, 0, &to, &from, HCQ_KEEP));
            submit_and_wait(q, T.dev);
            CHECK_BYTES(to, model, sizeof model);
        }
    }
    hcq_queue_destroy(q);
    CHECK_OK(hcq_close(other));
    CHECK_OK(imports ? hcq_free(ends[2]) : HCQ_OK);
    free(pages);
}
