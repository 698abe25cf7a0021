/* gpu_devices.h - what tests of several backends do with memory that two devices see.
   Part of cuda.c and vulkan.c. */

enum { SHARED_WORDS = 32, SHARED_ROUNDS = 100 };

static void model_mix(uint32_t *dst, const uint32_t *src, uint32_t seed) {
    for (uint32_t i = 0; i < SHARED_WORDS; i++) {
        dst[i] = dst[i] * 31u + src[i] + seed;
    }
}

typedef struct player {
    hcq_device *dev;
    hcq_program *mix;
    hcq_buffer dst, src;               /* as this device sees them */
} player;

static void player_submit(const player *p, hcq_point before, uint32_t seed, hcq_point *done) {
    mix_args args = {p->dst.address, p->src.address, SHARED_WORDS, seed};
    hcq_queue *q = make_queue(p->dev, HCQ_COMPUTE);
    if (before.signal.id) {
        CHECK_INDEX(hcq_queue_wait(q, before), 0);
    }
    CHECK(hcq_queue_exec(q, p->mix, &args, sizeof args, hcq_dim(1, 1, 1),
                         hcq_dim(SHARED_WORDS, 1, 1)) >= 0);
    CHECK_OK(hcq_queue_submit(q, p->dev, done));
    hcq_queue_destroy(q);
}

/* Two devices take turns on the same words, by the points of their submissions. */
static void play(hcq_device *one, hcq_device *two) {
    player players[2];
    uint32_t dst[SHARED_WORDS] = {0}, src[SHARED_WORDS];
    hcq_point done = {{0}, 0};
    players[0].dev = one;
    players[1].dev = two;
    CHECK_OK(hcq_alloc(one, sizeof dst, HCQ_HOST_VISIBLE, &players[0].dst));
    CHECK_OK(hcq_alloc(one, sizeof src, HCQ_HOST_VISIBLE, &players[0].src));
    for (uint32_t i = 0; i < SHARED_WORDS; i++) {
        src[i] = i * 77;
    }
    memcpy(players[0].dst.host, dst, sizeof dst);
    memcpy(players[0].src.host, src, sizeof src);
    CHECK_OK(hcq_import(two, players[0].dst.host, sizeof dst, &players[1].dst));
    CHECK_OK(hcq_import(two, players[0].src.host, sizeof src, &players[1].src));
    for (uint32_t i = 0; i < 2; i++) {
        players[i].mix = make_mix(players[i].dev);
    }
    for (uint32_t k = 0; k < SHARED_ROUNDS; k++) {
        player_submit(&players[k % 2], done, k, &done);
        model_mix(dst, src, k);
    }
    WAIT_OK(done);
    CHECK(memcmp(players[0].dst.host, dst, sizeof dst) == 0);
    CHECK_OK(hcq_free(players[1].dst));
    CHECK_OK(hcq_free(players[1].src));
    CHECK_OK(hcq_free(players[0].dst));
    CHECK_OK(hcq_free(players[0].src));
}

static void import_range(unsigned char *memory, uint64_t all, uint64_t offset, uint64_t size) {
    unsigned char *want = (unsigned char *)malloc(all), *got = (unsigned char *)malloc(size);
    hcq_buffer buffer;
    hcq_queue *q = make_queue(T.dev, HCQ_COPY);
    for (uint64_t i = 0; i < all; i++) {
        memory[i] = want[i] = (unsigned char)(i * 7 + size);
    }
    CHECK_OK(hcq_import(T.dev, memory + offset, size, &buffer));
    CHECK(buffer.host == memory + offset && buffer.size == size);
    CHECK_OK(hcq_copyout(got, buffer, size));
    CHECK(memcmp(got, want + offset, size) == 0);
    CHECK_INDEX(hcq_queue_fill(q, buffer, size, 0x3c, 1), 0);
    submit_and_wait(q, T.dev);
    memset(want + offset, 0x3c, size);
    CHECK(memcmp(memory, want, all) == 0);
    hcq_queue_destroy(q);
    CHECK_OK(hcq_free(buffer));
    free(want);
    free(got);
}
