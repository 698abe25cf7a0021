/* driver.h - registries, drivers, who lives how long, what devices
   say about themselves, and which programs ran. Part of conformance.c. */

/* ---- backends made up for these tests: the mock under other names ---- */

static uint32_t driver_creates;        /* of counted ones, atomic */

static hcq_result counted_create(const hcq_memory_hooks *memory, void **driver) {
    __atomic_add_fetch(&driver_creates, 1, __ATOMIC_SEQ_CST);
    return mock_driver_create(memory, driver);
}

static hcq_result refusing_create(const hcq_memory_hooks *memory, void **driver) {
    (void)memory;
    (void)driver;
    __atomic_add_fetch(&driver_creates, 1, __ATOMIC_SEQ_CST);
    return HCQ_ERROR_NATIVE;
}

static hcq_backend mock_named(const char *name, const char *full_name) {
    hcq_backend backend = mock_backend;
    backend.name = name;
    backend.full_name = full_name;
    backend.driver_create = counted_create;
    return backend;
}

static uint32_t living_drivers(void) { /* of the mock */
    return __atomic_load_n(&mock_drivers, __ATOMIC_ACQUIRE);
}

/* A private registry with one backend or none, whose memory the teardown counts. */
static hcq_registry *make_registry(const hcq_backend *backend) {
    hcq_memory_hooks hooks = {test_hook_alloc, test_hook_free, &T.memory};
    hcq_registry *registry = NULL;
    CHECK_OK(hcq_registry_create(&hooks, &registry));
    CHECK_OK(backend ? hcq_registry_register(registry, backend) : HCQ_OK);
    return registry;
}

static hcq_driver *make_driver(hcq_registry *registry, const char *name) {
    hcq_driver *driver = NULL;
    CHECK_OK(hcq_driver_create(registry, name, &driver));
    CHECK(driver != NULL);
    return driver;
}

/* For devices of made-up backends: the variant's description is not theirs. */
static hcq_device_desc mock_only_desc(hcq_registry *registry) {
    hcq_device_desc desc = test_desc();
    desc.registry = registry;
    desc.cpu = NULL;
    desc.backend_desc = &test_mock_desc;
    return desc;
}

/* ---- listing ---- */

TEST(drivers_are_listed) {
    hcq_driver_info infos[9], again[9];
    uint32_t count = 0, second = 0, found = 0;
    CHECK_OK(hcq_registry_drivers(NULL, infos, 8, &count));
    CHECK(count >= 2 && count <= 8);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(memchr(infos[i].name, 0, sizeof infos[i].name) != NULL && infos[i].name[0] != 0);
        CHECK(memchr(infos[i].full_name, 0, sizeof infos[i].full_name) != NULL);
        found += strcmp(infos[i].name, T.variant->backend) == 0;
        for (uint32_t k = 0; k < i; k++) {
            CHECK(infos[i].id != infos[k].id);
        }
    }
    CHECK_U64(found, 1);
    for (uint32_t room = 0; room <= count; room++) { /* too little; enough, to the same */
        memset(again, 0xCB, sizeof again);
        CHECK_OK(hcq_registry_drivers(NULL, room ? again : NULL, room, &second));
        CHECK_U64(second, count);
        CHECK(memcmp(again, infos, room * sizeof infos[0]) == 0);
        CHECK_U64(((unsigned char *)&again[room])[0], 0xCB);
    }
}

/* Newest first; listing makes no driver, and lists one that cannot be made. What
   hcq_open makes goes with its device, or where there is none. */
TEST(listing_opens_nothing) {
    static const struct { const char *name, *full_name; hcq_result want; } rows[2] = {
        {"FIRST", "the first", HCQ_OK}, {"BAD", NULL, HCQ_ERROR_NATIVE},
    };
    hcq_registry *registry = make_registry(NULL);
    hcq_backend backends[2];
    hcq_driver_info infos[8];
    hcq_device_desc desc = mock_only_desc(registry);
    uint32_t count = 0, before = __atomic_load_n(&driver_creates, __ATOMIC_SEQ_CST);
    uint32_t living = living_drivers();
    for (int i = 0; i < 2; i++) {
        backends[i] = mock_named(rows[i].name, rows[i].full_name);
        backends[i].driver_create = i == 0 ? counted_create : refusing_create;
        CHECK_OK(hcq_registry_register(registry, &backends[i]));
    }
    CHECK_OK(hcq_registry_drivers(registry, infos, 8, &count));
    CHECK_U64(count, 2);
    CHECK_U64(__atomic_load_n(&driver_creates, __ATOMIC_SEQ_CST), before);
    for (int i = 0; i < 2; i++) {
        const hcq_driver_info *info = &infos[1 - i];
        hcq_driver *driver = (hcq_driver *)(void *)&desc;
        hcq_device *device = (hcq_device *)(void *)&desc;
        CHECK(strcmp(info->name, rows[i].name) == 0);
        CHECK(strcmp(info->full_name, rows[i].full_name ? rows[i].full_name : "") == 0);
        CHECK_RESULT(hcq_driver_create(registry, rows[i].name, &driver), rows[i].want);
        CHECK((driver != NULL) == (i == 0));
        hcq_driver_release(driver);
        CHECK_RESULT(hcq_driver_create_id(registry, info->id, &driver), rows[i].want);
        CHECK((driver != NULL) == (i == 0));
        hcq_driver_release(driver);
        log_clear();
        CHECK_RESULT(hcq_open(rows[i].name, &desc, &device), rows[i].want);
        CHECK_U64(living_drivers(), living + (i == 0));
        CHECK(i == 0 ? hcq_close(device) == HCQ_OK : !device && log_has(rows[i].name));
        CHECK_U64(living_drivers(), living);
        CHECK_RESULT(hcq_open("FIRST:99", &desc, &device), HCQ_ERROR_NO_DEVICE);
        CHECK_U64(living_drivers(), living);
    }
    CHECK_U64(__atomic_load_n(&driver_creates, __ATOMIC_SEQ_CST), before + 8);
    hcq_registry_destroy(registry);
}

/* ---- what a backend is told ---- */

static hcq_device_desc opened;

static hcq_result told_open(void *driver, hcq_device *device, uint32_t ordinal,
                            const hcq_device_desc *desc, hcq_backend_caps *caps, void **self) {
    opened = *desc;
    return mock_backend.open(driver, device, ordinal, desc, caps, self);
}

/* An all-zero description is one of defaults, which backends see; lanes are theirs. */
TEST(defaults_of_a_description) {
    static char text[4096];
    hcq_backend backend = mock_named("TOLD", NULL);
    hcq_device *device = NULL;
    backend.open = told_open;
    hcq_registry *registry = make_registry(&backend);
    const hcq_device_desc desc = {.registry = registry};
    CHECK_OK(hcq_open("TOLD:1", &desc, &device));
    CHECK(opened.memory.alloc_fn != NULL && opened.memory.free_fn != NULL && opened.test != NULL);
    CHECK(opened.timeout_ns == 30 * SECOND && opened.explain_ns == 5 * SECOND);
    CHECK(opened.spin_ns == 50000 && opened.compute_lanes == 0 && opened.copy_lanes == 0);
    CHECK(opened.versions == 2 && opened.inflight == 4096 && opened.held_pool == 4096);
    CHECK(opened.held_limit == 4194304 && opened.failure_ranges == 65536 && opened.flags == 0);
    CHECK(opened.cache_bytes == 256u << 20 && opened.staging_bytes == 2u << 20);
    CHECK(opened.staging_count == 32);
    (void)hcq_device_dump(device, text, sizeof text);
    CHECK(strncmp(text, "TOLD:1 (", 8) == 0); /* its label */
    CHECK_OK(hcq_close(device));
    hcq_registry_destroy(registry);
}

/* ---- registering ---- */

TEST(register_limits) {
    static const char *const names[9] = {"R0", "R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8"};
    hcq_registry *own = make_registry(NULL);
    hcq_backend many[9];
    for (int k = 0; k < 2; k++) {      /* a private one and the default one */
        hcq_registry *registry = k ? NULL : own;
        uint32_t before = 0, count = 0;
        CHECK_OK(hcq_registry_drivers(registry, NULL, 0, &before));
        for (uint32_t i = before; i < 9; i++) {
            many[i] = mock_named(names[i], names[i]);
            CHECK_RESULT(hcq_registry_register(registry, &many[i]),
                         i < 8 ? HCQ_OK : HCQ_ERROR_LIMIT);
            CHECK(i == 8 || hcq_registry_register(registry, &many[i]) == HCQ_ERROR_EXISTS);
        }
        CHECK_RESULT(hcq_registry_unregister(registry, &many[8]), HCQ_ERROR_INVALID);
        CHECK_OK(hcq_registry_unregister(registry, &many[before]));
        CHECK_RESULT(hcq_registry_unregister(registry, &many[before]), HCQ_ERROR_INVALID);
        CHECK_OK(hcq_registry_register(registry, &many[8])); /* room again */
        CHECK_RESULT(hcq_registry_register(registry, &many[before]), HCQ_ERROR_LIMIT);
        for (uint32_t i = before + 1; i < 9; i++) {
            CHECK_OK(hcq_registry_unregister(registry, &many[i]));
        }
        CHECK_OK(hcq_registry_drivers(registry, NULL, 0, &count));
        CHECK_U64(count, before);
    }
    hcq_registry_destroy(own);
}

static void check_full_name(hcq_driver *driver, const char *full_name) {
    hcq_driver_info info;
    CHECK_OK(hcq_driver_info_get(driver, &info));
    CHECK(strcmp(info.full_name, full_name) == 0);
    hcq_driver_release(driver);
}

TEST(newest_of_one_name_wins) {
    hcq_backend old = mock_named("TWIN", "old"), new_one = mock_named("TWIN", "new");
    hcq_registry *registry = make_registry(&old);
    hcq_driver_info infos[8];
    hcq_driver *driver;
    uint32_t count = 0;
    CHECK(hcq_registry_find(registry, "TWIN") == &old);
    CHECK_OK(hcq_registry_register(registry, &new_one));
    CHECK(hcq_registry_find(registry, "TWIN") == &new_one);
    CHECK(hcq_registry_find(registry, "TWI") == NULL);
    CHECK_OK(hcq_registry_drivers(registry, infos, 8, &count));
    CHECK_U64(count, 2);
    check_full_name(make_driver(registry, "TWIN"), "new");
    for (int i = 0; i < 2; i++) {      /* each by its id, which no other registry has */
        char name[32];
        snprintf(name, sizeof name, "#%llu", (unsigned long long)infos[i].id);
        CHECK_OK(hcq_driver_create_id(registry, infos[i].id, &driver));
        check_full_name(driver, i ? "old" : "new");
        check_full_name(make_driver(registry, name), i ? "old" : "new");
        CHECK_RESULT(hcq_driver_create(NULL, name, &driver), HCQ_ERROR_NO_DEVICE);
    }
    CHECK_OK(hcq_registry_unregister(registry, &new_one));
    check_full_name(make_driver(registry, "TWIN"), "old");
    CHECK_RESULT(hcq_driver_create_id(registry, infos[0].id, &driver), HCQ_ERROR_NO_DEVICE);
    CHECK_OK(hcq_registry_register(registry, &new_one)); /* again: with a fresh id */
    CHECK_RESULT(hcq_driver_create_id(registry, infos[0].id, &driver), HCQ_ERROR_NO_DEVICE);
    hcq_registry_destroy(registry);
}

/* ---- lifetimes ---- */

/* A living driver goes on without its registration and without the registry, and so
   do its devices; it goes when its last reference and the last of them are gone. */
TEST(unregister_while_alive) {
    hcq_backend backend = mock_named("LIVING", "living");
    hcq_registry *registry = make_registry(&backend);
    hcq_device_desc desc = mock_only_desc(registry);
    hcq_device *first = NULL, *second = NULL;
    uint32_t count = 0, before = living_drivers();
    hcq_driver *driver = make_driver(registry, "LIVING"), *other = make_driver(registry, "LIVING");
    CHECK(driver != other);
    CHECK_U64(living_drivers(), before + 2);
    hcq_driver_release(other);
    CHECK_U64(living_drivers(), before + 1);
    CHECK_OK(hcq_driver_open(driver, "1", &desc, &first));
    CHECK_OK(hcq_registry_unregister(registry, &backend));
    CHECK_RESULT(hcq_driver_create(registry, "LIVING", &other), HCQ_ERROR_NO_DEVICE);
    hcq_registry_destroy(registry);
    CHECK_OK(hcq_driver_devices(driver, NULL, 0, &count));
    CHECK_U64(count, MOCK_ORDINALS);
    CHECK_OK(hcq_driver_open(driver, "2", &desc, &second));
    hcq_driver_retain(driver);
    hcq_driver_release(driver);
    check_full_name(driver, "living"); /* the last one */
    CHECK_U64(living_drivers(), before + 1);
    CHECK_U64(READ32(make_words(first, 4), 0), 0);
    const hcq_device_info info = test_info(first);
    CHECK(strcmp(info.backend, "LIVING") == 0 && info.ordinal == 1);
    CHECK_OK(hcq_close(first));
    CHECK_U64(living_drivers(), before + 1);
    CHECK_OK(hcq_close(second));       /* the mock aborts if its driver went before */
    CHECK_U64(living_drivers(), before);
}

/* ---- devices of a driver ---- */

static void check_same_device(const hcq_device_info *listed, hcq_device *device) {
    hcq_device_info info = test_info(device);
    CHECK(strcmp(info.backend, T.variant->backend) == 0);
    CHECK(strcmp(info.name, listed->name) == 0);
    CHECK(strcmp(info.path, listed->path) == 0);
    CHECK_U64(info.id, listed->id);
    CHECK_U64(info.ordinal, listed->ordinal);
    CHECK_OK(hcq_close(device));
}

/* Each listed device can be had by ordinal, id, name and path; by hcq_open, too. */
TEST(devices_are_listed) {
    hcq_device_desc desc = test_desc();
    hcq_driver *driver = make_driver(NULL, T.variant->backend);
    hcq_device_info infos[16], again[16];
    hcq_device *device = NULL;
    char text[16], id[32], whole[320];
    uint32_t count = 0, second = 0;
    CHECK_OK(hcq_driver_devices(driver, infos, 16, &count));
    CHECK(count >= 1 && count <= 16);
    memset(again, 0xCB, sizeof again);
    CHECK_OK(hcq_driver_devices(driver, again, count - 1, &second));
    CHECK_U64(second, count);
    CHECK(memcmp(again, infos, (count - 1) * sizeof infos[0]) == 0);
    CHECK_U64(((unsigned char *)&again[count - 1])[0], 0xCB);
    for (uint32_t i = 0; i < count; i++) {
        CHECK_U64(infos[i].ordinal, i);
        CHECK(infos[i].compute_lanes >= 1);
        CHECK_OK(hcq_driver_open_id(driver, infos[i].id, &desc, &device));
        check_same_device(&infos[i], device);
        snprintf(text, sizeof text, "%u", i);
        snprintf(id, sizeof id, "#%llu", (unsigned long long)infos[i].id);
        const char *const names[4] = {text, id, infos[i].name, infos[i].path};
        for (int k = 0; k < 4 && names[k][0]; k++) {
            CHECK_OK(hcq_driver_open(driver, names[k], &desc, &device));
            check_same_device(&infos[i], device);
            snprintf(whole, sizeof whole, "%s:%s", T.variant->backend, names[k]);
            CHECK_OK(hcq_open(whole, &desc, &device));
            check_same_device(&infos[i], device);
        }
    }
    for (int way = 0; way < 3; way++) { /* the default one */
        CHECK_OK(way == 2 ? hcq_open(T.variant->backend, &desc, &device)
                          : hcq_driver_open(driver, way ? "" : NULL, &desc, &device));
        check_same_device(&infos[0], device);
    }
    hcq_driver_release(driver);
}

static uint32_t no_devices(void *driver, hcq_device_info *infos, uint32_t capacity) {
    (void)driver;
    (void)infos;
    (void)capacity;
    return 0;
}

/* Names that no device has; a driver whose machine has no device. */
TEST(unknown_devices) {
    static const char *const bad[] = {"no such", "9999", "99999999999999999999", "-1", "0x1",
                                      "mock", "mock 4", "mock/slot/", " 1", "1 ", "", "0"};
    hcq_backend none = mock_named("NONE", "no devices");
    hcq_registry *registry = make_registry(&mock_backend);
    hcq_device_desc desc = mock_only_desc(registry);
    hcq_device *device = NULL;
    uint32_t count = 9;
    none.devices = no_devices;
    CHECK_OK(hcq_registry_register(registry, &none));
    hcq_driver *mock = make_driver(registry, "MOCK"), *empty = make_driver(registry, "NONE");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        log_clear();
        device = (hcq_device *)(void *)&desc;
        CHECK_RESULT(hcq_driver_open(i < 10 ? mock : empty, bad[i], &desc, &device),
                     HCQ_ERROR_NO_DEVICE);
        CHECK(device == NULL && log_has(bad[i]));
    }
    CHECK_OK(hcq_driver_devices(empty, NULL, 0, &count));
    CHECK_U64(count, 0);
    CHECK_RESULT(hcq_driver_open_id(empty, 0, &desc, &device), HCQ_ERROR_NO_DEVICE);
    CHECK_RESULT(hcq_open("NONE:0", &desc, &device), HCQ_ERROR_NO_DEVICE);
    hcq_driver_release(empty);
    hcq_driver_release(mock);
    hcq_registry_destroy(registry);
}

/* Where a backend has no clock, submissions are: right within what they say. */
TEST(clock_by_submissions) {
    hcq_backend backend = mock_named("NOCLOCK", NULL);
    hcq_device *device = NULL;
    hcq_clock stuck;
    backend.clock = NULL;
    hcq_registry *registry = make_registry(&backend);
    hcq_device_desc desc = mock_only_desc(registry);
    CHECK_OK(hcq_open("NOCLOCK", &desc, &device));
    for (uint32_t i = 0; i < 5; i++) {
        hcq_clock clock = CLOCK_OF(device);
        uint64_t right = clock.device_ns - MOCK_CLOCK_OFFSET;
        CHECK(right + clock.error_ns >= clock.host_ns && right <= clock.host_ns + clock.error_ns);
    }
    CHECK_RESULT(hcq_profile_start(device, NULL), HCQ_ERROR_UNSUPPORTED);
    CHECK_OK(hcq_close(device));
    desc.timeout_ns = SECOND / 50;
    CHECK_OK(hcq_open("NOCLOCK", &desc, &device));
    hcq_point done = hold_device(device, NULL);
    hcq_result late = hcq_device_clock(device, &stuck);
    HOLD_END(done);
    CHECK_RESULT(late, HCQ_TIMEOUT);
    CHECK_OK(hcq_close(device));
    hcq_registry_destroy(registry);
}

/* ---- threads ---- */

static uint32_t slow_inside, slow_go;  /* driver_create was entered, may go on; atomic */

static hcq_result slow_create(const hcq_memory_hooks *memory, void **driver) {
    __atomic_store_n(&slow_inside, 1, __ATOMIC_SEQ_CST);
    return word_until(&slow_go, 1) ? mock_driver_create(memory, driver)
                                   : HCQ_ERROR_HOST; /* the registry was locked meanwhile */
}

static void *maker_run(void *user) {
    hcq_driver *driver = NULL;
    return hcq_driver_create((hcq_registry *)user, "SLOW", &driver) == HCQ_OK ? driver : NULL;
}

/* While one thread makes a driver others use the registry, even to take the
   backend away; the driver comes out alive. */
TEST(unregister_while_created) {
    hcq_backend backend = mock_named("SLOW", "slow");
    hcq_device *device = NULL;
    pthread_t thread;
    void *driver = NULL;
    uint32_t count = 9;
    slow_inside = slow_go = 0;
    backend.driver_create = slow_create;
    hcq_registry *registry = make_registry(&backend);
    hcq_device_desc desc = mock_only_desc(NULL);
    pthread_create(&thread, NULL, maker_run, registry);
    CHECK(word_until(&slow_inside, 1));
    CHECK_OK(hcq_registry_unregister(registry, &backend));
    CHECK_OK(hcq_registry_drivers(registry, NULL, 0, &count));
    CHECK_OK(hcq_registry_register(registry, &mock_backend));
    CHECK_U64(READ32(make_words(T.dev, 4), 0), 0); /* nothing else stands still either */
    hcq_registry_destroy(registry);
    __atomic_store_n(&slow_go, 1, __ATOMIC_SEQ_CST);
    pthread_join(thread, &driver);
    CHECK_U64(count, 0);
    CHECK(driver != NULL);
    CHECK_OK(hcq_driver_open((hcq_driver *)driver, "3", &desc, &device));
    check_full_name((hcq_driver *)driver, "slow");
    CHECK_OK(hcq_device_synchronize(device, BOUND));
    CHECK_OK(hcq_close(device));
}

enum { CHURNERS = 4, CHURN_OPENS = 15 };

static struct {
    hcq_device_desc made_up, own;
    hcq_backend backends[2];
    hcq_result results[1 + CHURNERS];  /* the first one registers, the others open */
    uint32_t over;                     /* atomic */
} churn;

/* Opens a device and closes it with work under way, which is finished. */
static hcq_result churner_opens(const char *name, const hcq_device_desc *desc) {
    hcq_device *device = NULL;
    hcq_point raise = {{0}, 1};
    TRY(hcq_open(name, desc, &device));
    hcq_result result = hcq_signal_create(device, 0, &raise.signal);
    result = result == HCQ_OK ? submit_lists(device, NULL, &raise, 0, NULL) : result;
    hcq_result closed = hcq_close(device);
    return result == HCQ_OK ? closed : HCQ_ERROR_HOST;
}

/* Lists, makes the newest driver by number, opens devices by name. */
static hcq_result churner_turn(uint32_t i) {
    hcq_driver_info infos[8];
    hcq_driver *driver = NULL;
    uint32_t count = 0;
    hcq_result result = hcq_registry_drivers(NULL, infos, 8, &count);
    if (result == HCQ_OK && i % 16 == 0) {
        result = churner_opens("CHURN", &churn.made_up);
    } else if (result == HCQ_OK) {
        result = hcq_driver_create_id(NULL, infos[0].id, &driver);
    }
    hcq_driver_release(driver);
    TRY(result == HCQ_ERROR_NO_DEVICE ? HCQ_OK : result);
    return i % 16 == 8 ? churner_opens(T.variant->backend, &churn.own) : HCQ_OK;
}

/* One or two of the backends are there or none, until the others are over. */
static hcq_result churner_registers(void) {
    for (uint32_t i = 0; i % 4 || __atomic_load_n(&churn.over, __ATOMIC_SEQ_CST) < CHURNERS; i++) {
        TRY(i % 4 < 2 ? hcq_registry_register(NULL, &churn.backends[i % 2])
                      : hcq_registry_unregister(NULL, &churn.backends[i % 2]));
        mock_sleep(30000);
    }
    return HCQ_OK;
}

static void *churner_run(void *user) {
    hcq_result *result = (hcq_result *)user;
    if (result == churn.results) {
        *result = churner_registers();
        return NULL;
    }
    for (uint32_t i = 0; *result == HCQ_OK && i < 16 * CHURN_OPENS; i++) {
        *result = churner_turn(i);
    }
    __atomic_add_fetch(&churn.over, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* Backends come and go while threads list, make drivers and open devices, also of the backend
   that stays. */
TEST(registry_from_threads) {
    memset(&churn, 0, sizeof churn);
    churn.backends[0] = mock_named("CHURN", "a");
    churn.backends[1] = mock_named("CHURN", "b");
    churn.made_up = mock_only_desc(NULL);
    churn.own = test_desc();
    if (test_validates()) { churn.own.vulkan = NULL; } /* the layer's table has no lock (1.3.239) */
    run_threads(churner_run, churn.results, sizeof churn.results[0], 1 + CHURNERS);
    for (int i = 0; i <= CHURNERS; i++) {
        CHECK_OK(churn.results[i]);
    }
}

/* ---- what devices say about themselves ---- */

/* A feature bit is set if, and only if, the thing works. */
TEST(features_are_true) {
    static uint32_t mine[16];
    const hcq_device_info info = test_info(T.dev);
    hcq_buffer a = make_buffer(T.dev, 64, 0), theirs = make_words(dev2(), 16);
    hcq_queue *q = make_queue(T.dev, HCQ_COPY);
    CHECK_U64((info.features & HCQ_FEATURE_HOST_MEMORY) != 0, a.host != NULL);
    CHECK_U64((info.features & HCQ_FEATURE_COPY_LANE) != 0, info.copy_lanes > 0);
    CHECK_U64((info.features & HCQ_FEATURE_MAP) != 0, hcq_queue_fill(q, theirs, 64, 0, 4) == 0);
    CHECK_U64((info.features & HCQ_FEATURE_IMPORT) != 0,
              hcq_import(T.dev, mine, sizeof mine, 0, &a) == HCQ_OK);
    CHECK(info.features & HCQ_FEATURE_COVERAGE);
    CHECK(!(info.features & ~127u));
}

static void check_queries(hcq_device *device, uint64_t submissions, uint64_t held,
                          uint64_t allocated, uint64_t cached) {
    CHECK_U64(test_query(device, HCQ_QUERY_SUBMISSIONS), submissions);
    CHECK_U64(test_query(device, HCQ_QUERY_HELD), held);
    CHECK_U64(test_query(device, HCQ_QUERY_PENDING), held);
    CHECK_U64(test_query(device, HCQ_QUERY_ALLOCATED_BYTES), allocated);
    CHECK_U64(test_query(device, HCQ_QUERY_CACHED_BYTES), cached);
}

TEST(queries_agree) {
    hcq_device_info info = test_info(T.dev);
    hcq_point gate = make_gate(T.dev), ready;
    hcq_buffer a, b;
    if (T.variant->test.no_copy_lane) {
        CHECK(info.copy_lanes == 0 && !(info.features & HCQ_FEATURE_COPY_LANE));
    }
    if (T.variant->test.no_native_wait) { /* else it waits on the hardware */
        hcq_point first = hold_device(dev2(), NULL), then;
        CHECK_OK(submit_behind(make_queue(T.dev, HCQ_COPY), T.dev, &first, &then));
        CHECK_U64(test_query(T.dev, HCQ_QUERY_HELD), 1);
        hold_release();
        WAIT_OK(then);
    }
    uint64_t before = test_query(T.dev, HCQ_QUERY_SUBMISSIONS);
    CHECK_OK(hcq_alloc(T.dev, 12345, 0, &a));
    check_queries(T.dev, before, 0, 12345, 0);
    CHECK_OK(hcq_alloc_after(T.dev, &gate, 1, 1000, 0, &b, &ready));
    check_queries(T.dev, before + 1, 1, 13345, 0);
    CHECK_OK(hcq_free_after(a, &gate, 1, NULL));
    check_queries(T.dev, before + 2, 2, 13345, 0);
    open_gate(gate);
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    check_queries(T.dev, before + 2, 0, 1000, 12345);
    CHECK_OK(hcq_trim(T.dev, 0));
    CHECK_U64(test_query(T.dev, HCQ_QUERY_CACHED_BYTES), 0);
}

/* Flags of a backend's own description that it does not know: a later one may. */
TEST(unknown_flags_of_backends) {
    SKIP_IF(!is_cpu() && !is_gpu(), "has none");
    hcq_device_desc desc = {.log_fn = test_log_line, .log_user = &T.log};
    hcq_device *device = T.dev;
    const struct hcq_cpu_desc cpu = {.flags = HCQ_CPU_ONE_ENGINE << 1};
    desc.cpu = &cpu;
#ifdef HCQ_TEST_VULKAN
    const struct hcq_vulkan_desc vulkan = {.flags = HCQ_VULKAN_STAGED << 1};
    desc.vulkan = &vulkan;
#endif
#ifdef HCQ_TEST_CUDA
    const struct hcq_cuda_desc cuda = {.flags = HCQ_CUDA_TRAIL << 1};
    desc.cuda = &cuda;
#endif
    CHECK_RESULT(hcq_open(test_worker(), &desc, &device), HCQ_ERROR_INVALID);
    CHECK(device == NULL && log_has("flags: unknown bits"));
}

/* What they say of blocks, grids and addresses goes, one more is refused; who knows
   nothing says so. */
TEST(queries_of_blocks) {
    hcq_program *add = make_add(T.dev);
    hcq_buffer words = make_words(T.dev, 128);
    add_args args = {words.address, 1, 1};
    uint64_t value = 7;
    for (uint32_t key = HCQ_QUERY_MAX_BLOCK; is_mock() && key <= HCQ_QUERY_UNIFIED; key++) {
        CHECK_RESULT(hcq_device_query(T.dev, key, &value), HCQ_ERROR_UNSUPPORTED);
        CHECK_U64(value, 7);
    }
    SKIP_IF(is_mock(), "a backend that does not know");
    args.dst += test_query(T.dev, HCQ_QUERY_ADDRESS_ALIGN) & ~3ull; /* of words */
    CHECK(args.dst - words.address <= 256);
    const uint64_t most = test_query(T.dev, HCQ_QUERY_MAX_BLOCK);
    for (uint32_t way = 0; way < 4; way++) { /* each axis, all threads */
        const uint32_t axis = way % 3;
        const uint64_t longest = test_query(T.dev, HCQ_QUERY_MAX_BLOCK_X + axis);
        const uint32_t wide = (uint32_t)(longest < most ? longest : most);
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        CHECK(wide != 0 && test_query(T.dev, HCQ_QUERY_MAX_GRID_X + axis) != 0);
        for (uint32_t more = 0; more <= (uint32_t)is_gpu(); more++) {
            uint32_t block[3] = {1, 1, 1};
            block[axis] = wide + (way < 3 ? more : 0);
            block[(axis + 1) % 3] = way < 3 ? 1 : (uint32_t)(most / wide) + more;
            CHECK_INDEX(hcq_queue_exec(q, add, &args, sizeof args, hcq_dim(1, 1, 1),
                                       hcq_dim(block[0], block[1], block[2])),
                        more ? HCQ_ERROR_INVALID : 0);
            if (is_gpu() && !more) { RUN_OK(q, T.dev); }
        }
    }
    CHECK_BYTES(hcq_view(words, args.dst - words.address, 4), &(uint32_t){is_gpu() ? 4 : 0}, 4);
    const uint64_t step = test_query(T.dev, HCQ_QUERY_SUBGROUP);
    CHECK(step != 0 && step <= most && (step & (step - 1)) == 0);
    const uint64_t unified = test_query(T.dev, HCQ_QUERY_UNIFIED);
    CHECK(is_cpu() ? unified == 1 : T.variant->cuda ? unified == 0 : unified <= 1);
#ifdef HCQ_TEST_VULKAN
    CHECK(!T.variant->driver || unified == !T.variant->driver->discrete);
#endif
    CHECK_RESULT(hcq_device_query(T.dev, HCQ_QUERY_SHARED_BYTES, &value),
                 is_gpu() ? HCQ_OK : HCQ_ERROR_UNSUPPORTED);
    CHECK(is_gpu() ? value >= 16384 : value == 7);
}

/* ---- coverage ---- */

/* Counts finished execs: of queues and launches, bound or not, step by step, of appended
   recordings, of calls. */
TEST(coverage_counts_execs) {
    static const uint32_t flags[2][3] = {{0, 0, 0}, {0, HCQ_STEP, HCQ_OVERLAP}};
    hcq_device *device = open_covered();
    hcq_program *add = make_add(device), *put = make_put(device);
    hcq_buffer a = make_words(device, 16);
    hcq_queue *once = make_queue(device, HCQ_COMPUTE);
    const put_args args = {a.address, 5, 9};
    uint64_t runs = 0;
    hcq_point done;
    CHECK_INDEX(record_add(once, add, a, 1, 16), 0);
    CHECK_INDEX(record_put(once, put, a, 9, 1), 1);
    CHECK_INDEX(record_add(once, add, a, 2, 16), 2);
    for (uint32_t graph = 0; graph < 2; graph++) {
        hcq_queue *q = make_queue(device, graph ? HCQ_GRAPH : HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_append(q, once), 0);
        CHECK_INDEX(hcq_queue_append(q, once), 3);
        for (uint32_t i = 0; i < 6; i++) {
            CHECK_U64(runs_of(add), 4 * runs); /* recorded is not run */
            CHECK_U64(runs_of(put), 2 * runs);
            CHECK_OK(i == 3 ? hcq_queue_bind(q, device) : HCQ_OK);
            for (int k = 0; k < 4; k++) { /* several at once */
                CHECK_OK(submit_queue(q, device, NULL, NULL, flags[graph][i % 3], &done));
            }
            if (i == 5) {
                hcq_queue_destroy(q);
            }
            WAIT_OK(done);
            runs += 4;
        }
    }
    CHECK_OK(hcq_program_call(put, &args, sizeof args, dims_one, dims_one, NULL));
    CHECK_OK(hcq_device_synchronize(device, BOUND));
    CHECK_U64(runs_of(put), 2 * runs + 1);
    CHECK_U64(runs_of(add), 4 * runs);
    CHECK_OK(hcq_close(device));
}

/* A recording that became shorter, a grid of 0 by update or by variable, and what
   follows a cut count right; what is held or failed does not count. */
TEST(coverage_follows_updates) {
    hcq_device *device = open_covered();
    hcq_program *add = make_add(device), *put = make_put(device);
    hcq_buffer a = make_words(device, 16);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcq_point gate = make_gate(device), never = make_gate(device), done = {{0}, 0};
    hcq_dims none = hcq_dim(0, 1, 1), one = hcq_dim(1, 1, 1);
    uint64_t expected = 0;
    hcq_value grid = hcq_value_number(0);
    for (uint32_t length = 8; length > 0; length--) {
        for (uint32_t i = 0; i < length; i++) {
            CHECK_INDEX(record_add(q, add, a, 0, 1), i);
        }
        RUN_OK(q, device);
        expected += length;
        CHECK_U64(runs_of(add), expected);
        CHECK_OK(hcq_queue_reset(q));
    }
    CHECK_INDEX(record_add(q, add, a, 0, 1), 0);
    CHECK_INDEX(hcq_queue_wait(q, gate), 1); /* the recording is cut here */
    CHECK_INDEX(record_put(q, put, a, 9, 1), 2);
    CHECK_OK(hcq_queue_variable(q, 0, HCQ_PART_GRID_X, 0, 8));
    for (uint64_t i = 0; i < 12; i++) {
        grid.number = i % 3;       /* every third one runs nothing */
        CHECK_OK(i == 6 ? hcq_queue_bind(q, device) : HCQ_OK);
        CHECK_OK(hcq_queue_update_exec(q, 2, i % 2 ? &none : &one, NULL));
        CHECK_OK(SUBMIT(device, q, &done, .values = &grid, .value_count = 1));
        expected += grid.number != 0;
        CHECK(i > 0 || runs_of(put) == 0);
        CHECK_OK(i == 0 ? hcq_signal_set(gate.signal, 1) : HCQ_OK);
    }
    WAIT_OK(done);
    CHECK_U64(runs_of(add), expected);
    CHECK_U64(runs_of(put), 6);
    q = make_call(device, HCQ_COMPUTE, host_fails, NULL);
    CHECK_INDEX(record_add(q, add, a, 0, 1), 1);
    for (int held = 0; held < 2; held++) {
        CHECK_OK(submit_behind(q, device, held ? &never : NULL, &done));
        CHECK_OK(hcq_signal_fail(never.signal, HCQ_ERROR_NATIVE, NULL));
        WAIT_RESULT(done, held ? HCQ_ERROR_NATIVE : HCQ_ERROR_HOST);
        CHECK_U64(runs_of(add), expected);
    }
    CHECK_OK(hcq_close(device));
}

/* They change nothing but what a program says of itself, of its latest block. */
TEST(flags_of_programs) {
#ifdef HCQ_TEST_VULKAN
    const int silent = T.variant->driver && (T.variant->driver->without & MOCK_VK_NO_STATISTICS);
#else
    const int silent = 0;
#endif
    hcq_buffer dst = make_words(T.dev, 1);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    const add_args args = {dst.address, 1, 1};
    hcq_program *programs[4];
    for (uint32_t flags = 0; flags < 4; flags++) {
        hcq_program_desc desc = HCQ_PROGRAM(add);
        desc.flags = flags;
        CHECK_OK(hcq_program_create(T.dev, &desc, &programs[flags]));
        CHECK_INDEX(hcq_queue_exec(q, programs[flags], &args, sizeof args, hcq_dim(1, 1, 1),
                                   hcq_dim(32, 1, 1)), flags);
    }
    RUN_OK(q, T.dev);
    CHECK_U64(READ32(dst, 0), 4);
    for (uint32_t flags = 0; flags < 4; flags++) {
        hcq_program_info info;
        CHECK_OK(hcq_program_info_get(programs[flags], &info));
        CHECK(memchr(info.statistics, 0, sizeof info.statistics) != NULL);
        if (!(flags & HCQ_PROGRAM_STATISTICS) || is_cpu() || silent) {
            CHECK(info.statistics[0] == 0);
        } else if (!is_vulkan() || T.variant->driver) {
            SAYS(info.statistics, is_vulkan() ? "Threads 32, Spilled -3, Ratio 2, Fast 1"
                                  : is_cuda() ? "registers |local bytes " : "registers 3");
        }
    }
}

/* Off unless asked for; a run counts where it runs, whosever the queue and program. */
TEST(coverage_is_off) {
    hcq_device *devices[2] = {open_covered(), T.dev};
    for (int i = 0; i < 2; i++) {
        hcq_program *nothing = make_nothing(devices[i]);
        hcq_queue *q = make_queue(devices[i], HCQ_COMPUTE);
        CHECK_INDEX(record_one(q, nothing, NULL, 0), 0);
        RUN_OK(q, devices[1]);
        CHECK_U64(runs_of(nothing), 0);
        RUN_OK(q, devices[0]);
        CHECK_U64(runs_of(nothing), 1);
    }
    CHECK_OK(hcq_close(devices[0]));
}
