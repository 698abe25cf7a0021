/* vulkan_kernels.h - part of vulkan.h: which CPU kernel a SPIR-V module
   stands for, and how its arguments reach it. */
#ifndef HCQ_TEST_MOCK_VULKAN_KERNELS_H
#define HCQ_TEST_MOCK_VULKAN_KERNELS_H

/* ---- modules ---- */

enum { /* opcodes and other numbers of SPIR-V */
    MOCK_VK_OP_ENTRY_POINT = 15, MOCK_VK_OP_MODE = 16, MOCK_VK_OP_INT = 21,
    MOCK_VK_OP_VECTOR = 23, MOCK_VK_OP_MEMBER_DECORATE = 72,
    MOCK_VK_OP_STRUCT = 30, MOCK_VK_OP_POINTER = 32, MOCK_VK_OP_CONSTANT = 43,
    MOCK_VK_OP_COMPOSITE = 44, MOCK_VK_OP_SPEC = 50, MOCK_VK_OP_SPEC_COMPOSITE = 51,
    MOCK_VK_OP_VARIABLE = 59, MOCK_VK_OP_DECORATE = 71, MOCK_VK_OP_MODE_ID = 331,
    MOCK_VK_CLASS_UNIFORM = 2, MOCK_VK_CLASS_PUSH = 9, MOCK_VK_CLASS_STORAGE = 12
};

typedef struct mock_vk_words {
    const uint32_t *w;
    size_t count;
} mock_vk_words;

/* The place of the next instruction `op` behind `at` (0: of the first) whose
   operand `index` is `value` (index 0: any); 0 = there is none. */
static size_t mock_vk_find_op(const mock_vk_words *m, size_t at, uint32_t op, uint32_t index,
                              uint32_t value) {
    at = at ? at + (m->w[at] >> 16) : 5;
    while (at < m->count) {
        uint32_t length = m->w[at] >> 16;
        mock_vk_check(length != 0 && length <= m->count - at, "a broken SPIR-V module");
        if ((m->w[at] & 0xffff) == op && length > index &&
            (index == 0 || m->w[at + index] == value)) {
            return at;
        }
        at += length;
    }
    return 0;
}

typedef struct mock_vk_shader {
    int by_pointer;                    /* else by bindings */
    int uniform;                       /* values in a uniform block, else in push constants */
    uint32_t block[3], spec_id[3];     /* of the workgroup; MOCK_VK_NONE: fixed */
    uint32_t part;                     /* byte of the push constants from which on they say
                                          which part of a grid it is, MOCK_VK_NONE: nowhere */
} mock_vk_shader;

/* A dimension of the workgroup: the constant with this id. */
static void mock_vk_read_size(const mock_vk_words *m, uint32_t id, uint32_t *size,
                              uint32_t *spec_id) {
    size_t at = mock_vk_find_op(m, 0, MOCK_VK_OP_SPEC, 2, id);
    if (!at) {
        at = mock_vk_find_op(m, 0, MOCK_VK_OP_CONSTANT, 2, id);
    }
    mock_vk_check(at != 0, "a workgroup size that is no constant");
    *size = m->w[at + 3];
    *spec_id = MOCK_VK_NONE;
    for (at = 0; (at = mock_vk_find_op(m, at, MOCK_VK_OP_DECORATE, 1, id)) != 0;) {
        if (m->w[at + 2] == 1) {       /* SpecId */
            *spec_id = m->w[at + 3];
        }
    }
}

static void mock_vk_read_block(const mock_vk_words *m, uint32_t entry, mock_vk_shader *s) {
    size_t at;
    for (at = 0; (at = mock_vk_find_op(m, at, MOCK_VK_OP_MODE, 1, entry)) != 0;) {
        for (uint32_t i = 0; m->w[at + 2] == 17 && i < 3; i++) {
            s->block[i] = m->w[at + 3 + i];
        }
    }
    for (at = 0; (at = mock_vk_find_op(m, at, MOCK_VK_OP_MODE_ID, 1, entry)) != 0;) {
        for (uint32_t i = 0; m->w[at + 2] == 38 && i < 3; i++) {
            mock_vk_read_size(m, m->w[at + 3 + i], &s->block[i], &s->spec_id[i]);
        }
    }
    for (at = 0; (at = mock_vk_find_op(m, at, MOCK_VK_OP_DECORATE, 2, 11)) != 0;) {
        if (m->w[at + 3] != 25) {      /* BuiltIn WorkgroupSize */
            continue;
        }
        size_t made = mock_vk_find_op(m, 0, MOCK_VK_OP_SPEC_COMPOSITE, 2, m->w[at + 1]);
        made = made ? made : mock_vk_find_op(m, 0, MOCK_VK_OP_COMPOSITE, 2, m->w[at + 1]);
        mock_vk_check(made != 0, "a workgroup size that is no constant");
        for (uint32_t i = 0; i < 3; i++) {
            mock_vk_read_size(m, m->w[made + 3 + i], &s->block[i], &s->spec_id[i]);
        }
    }
}

/* Is the first member of what a variable's type points to a pointer? */
static int mock_vk_first_is_pointer(const mock_vk_words *m, uint32_t type) {
    size_t at = mock_vk_find_op(m, 0, MOCK_VK_OP_POINTER, 1, type);
    at = at ? mock_vk_find_op(m, 0, MOCK_VK_OP_STRUCT, 1, m->w[at + 3]) : 0;
    if (!at || m->w[at] >> 16 < 3) {
        return 0;
    }
    uint32_t member = m->w[at + 2];
    size_t number = mock_vk_find_op(m, 0, MOCK_VK_OP_INT, 1, member);
    return mock_vk_find_op(m, 0, MOCK_VK_OP_POINTER, 1, member) != 0 ||
           (number != 0 && m->w[number + 2] == 64);
}

/* Where a member of a structure lies. */
static uint32_t mock_vk_member_offset(const mock_vk_words *m, uint32_t type, uint32_t member) {
    size_t at = 0;
    while ((at = mock_vk_find_op(m, at, MOCK_VK_OP_MEMBER_DECORATE, 1, type)) != 0) {
        if (m->w[at + 2] == member && m->w[at + 3] == 35) { /* Offset */
            return m->w[at + 4];
        }
    }
    return MOCK_VK_NONE;
}

/* A module for one part of a grid has three vectors of the same type behind its
   own push constants: the first block of the part, its first thread, the blocks
   of the whole grid. Where they begin, or MOCK_VK_NONE. */
static uint32_t mock_vk_part_of(const mock_vk_words *m, uint32_t type) {
    size_t at = mock_vk_find_op(m, 0, MOCK_VK_OP_POINTER, 1, type);
    at = at ? mock_vk_find_op(m, 0, MOCK_VK_OP_STRUCT, 1, m->w[at + 3]) : 0;
    uint32_t members = at ? (m->w[at] >> 16) - 2 : 0;
    if (members < 3) {
        return MOCK_VK_NONE;
    }
    const uint32_t *types = &m->w[at + 2 + members - 3];
    uint32_t first = mock_vk_member_offset(m, m->w[at + 1], members - 3);
    int vectors = types[0] == types[1] && types[1] == types[2] &&
                  mock_vk_find_op(m, 0, MOCK_VK_OP_VECTOR, 1, types[0]) != 0;
    int apart = mock_vk_member_offset(m, m->w[at + 1], members - 2) == first + 16 &&
                mock_vk_member_offset(m, m->w[at + 1], members - 1) == first + 32;
    return vectors && apart ? first : MOCK_VK_NONE;
}

/* Does an entry point's interface, which begins at word `first`, name the id? */
static int mock_vk_uses(const mock_vk_words *m, size_t entry, size_t first, uint32_t id) {
    for (size_t i = first; i < (m->w[entry] >> 16); i++) {
        if (m->w[entry + i] == id) {
            return 1;
        }
    }
    return m->w[1] < 0x00010400;       /* older modules do not list these */
}

static int mock_vk_shader_read(const uint32_t *words, size_t size, const char *name,
                               mock_vk_shader *s) {
    mock_vk_words m = {words, size / 4};
    size_t entry = 0, first = 3 + strlen(name) / 4 + 1;
    memset(s, 0, sizeof *s);
    for (uint32_t i = 0; i < 3; i++) {
        s->block[i] = 1;
        s->spec_id[i] = MOCK_VK_NONE;
    }
    s->part = MOCK_VK_NONE;
    do {
        entry = mock_vk_find_op(&m, entry, MOCK_VK_OP_ENTRY_POINT, 1, 5);
    } while (entry && strcmp((const char *)&words[entry + 3], name) != 0);
    if (!entry) {
        return 0;
    }
    mock_vk_read_block(&m, words[entry + 2], s);
    int storage = 0, pointer = 0;
    for (size_t at = 0; (at = mock_vk_find_op(&m, at, MOCK_VK_OP_VARIABLE, 0, 0)) != 0;) {
        if (!mock_vk_uses(&m, entry, first, words[at + 2])) {
            continue;
        }
        storage |= words[at + 3] == MOCK_VK_CLASS_STORAGE;
        s->uniform |= words[at + 3] == MOCK_VK_CLASS_UNIFORM;
        if (words[at + 3] == MOCK_VK_CLASS_PUSH) {
            pointer |= mock_vk_first_is_pointer(&m, words[at + 1]);
            s->part = mock_vk_part_of(&m, words[at + 1]);
        }
    }
    s->by_pointer = pointer && !storage && !s->uniform;
    return 1;
}

/* ---- kernels ---- */

typedef struct mock_vk_arg {
    uint32_t offset, size, align;
    int buffer;
} mock_vk_arg;

typedef struct mock_vk_kernel_info {
    uint32_t *words;                   /* a copy */
    size_t size;
    char entry[64];
    hcq_cpu_fn fn;
    mock_vk_shader shader;
    mock_vk_arg args[HCQ_MAX_ARGS];
    uint32_t arg_count, buffer_count;
    uint32_t block_bytes;              /* of the arguments */
    uint32_t value_bytes;              /* of those that are no buffers, by bindings */
} mock_vk_kernel_info;

/* Under mock_vk_lock; not from the heap, which tests count. */
static mock_vk_kernel_info mock_vk_kernels[2048];
static uint32_t mock_vk_kernel_count;
static uint32_t mock_vk_kernel_words[4 << 20];
static size_t mock_vk_kernel_word_count;

static void mock_vk_arg_read(uint32_t kind, mock_vk_arg *arg) {
    memset(arg, 0, sizeof *arg);
    switch (kind & 0xff) {
    case HCQ_ARG_IN:
    case HCQ_ARG_OUT:
    case HCQ_ARG_INOUT:
        arg->buffer = 1;
        arg->size = arg->align = 8;
        break;
    case HCQ_ARG_I32:
    case HCQ_ARG_U32:
    case HCQ_ARG_F32:
        arg->size = arg->align = 4;
        break;
    case HCQ_ARG_I64:
    case HCQ_ARG_U64:
    case HCQ_ARG_F64:
        arg->size = arg->align = 8;
        break;
    default:
        arg->size = kind >> 8 & 0xffff;
        arg->align = kind >> 24;
        mock_vk_check(arg->size != 0 && arg->align != 0, "no kind of argument: %#x", kind);
        break;
    }
}

static uint32_t mock_vk_round(uint32_t value, uint32_t align) {
    return (value + align - 1) / align * align;
}

/* Lays a list of HCQ_ARG_* out as a C compiler would a struct. */
static void mock_vk_kernel_layout(mock_vk_kernel_info *k, const uint32_t *args) {
    uint32_t most = 1;
    while (k->arg_count < HCQ_MAX_ARGS && args[k->arg_count] != HCQ_ARG_NONE) {
        mock_vk_arg *arg = &k->args[k->arg_count];
        mock_vk_arg_read(args[k->arg_count++], arg);
        arg->offset = mock_vk_round(k->block_bytes, arg->align);
        k->block_bytes = arg->offset + arg->size;
        most = arg->align > most ? arg->align : most;
        if (arg->buffer) {
            k->buffer_count++;
        } else {
            k->value_bytes = mock_vk_round(k->value_bytes, arg->align) + arg->size;
        }
    }
    k->block_bytes = mock_vk_round(k->block_bytes, most);
}

/* The kernel behind an entry point of a module, or NULL; under mock_vk_lock. */
static mock_vk_kernel_info *mock_vk_kernel_find(const uint32_t *words, size_t size,
                                                const char *entry) {
    for (uint32_t i = mock_vk_kernel_count; i > 0; i--) {
        mock_vk_kernel_info *k = &mock_vk_kernels[i - 1];
        if (k->size == size && strcmp(k->entry, entry) == 0 &&
            memcmp(k->words, words, size) == 0) {
            return k;
        }
    }
    return NULL;
}

static mock_vk_kernel_info *mock_vk_kernel_add(const uint32_t *words, size_t size,
                                               const char *entry) {
    mock_vk_kernel_info *k = &mock_vk_kernels[mock_vk_kernel_count];
    size_t used = mock_vk_kernel_word_count + (size + 3) / 4;
    mock_vk_check(used <= sizeof mock_vk_kernel_words / 4 &&
                  ++mock_vk_kernel_count < sizeof mock_vk_kernels / sizeof *k,
                  "no room for a kernel more");
    k->words = &mock_vk_kernel_words[mock_vk_kernel_word_count];
    mock_vk_kernel_word_count = used;
    memcpy(k->words, words, size);
    k->size = size;
    snprintf(k->entry, sizeof k->entry, "%s", entry);
    return k;
}

/* Says that `fn`, with a list of arguments as hcq_program_desc has it, is what an
   entry point of a SPIR-V module does. Of the same words the latest counts, for
   modules made from then on. `size` in bytes; `entry` NULL: "main". */
static TEST_UNUSED void mock_vk_kernel(const uint32_t *words, size_t size, const char *entry,
                                       hcq_cpu_fn fn, const uint32_t *args) {
    mock_vk_kernel_info made;
    mock_vk_where = "mock_vk_kernel";
    memset(&made, 0, sizeof made);
    entry = entry ? entry : "main";
    mock_vk_kernel_layout(&made, args);
    mock_vk_check(mock_vk_shader_read(words, size, entry, &made.shader), "no entry point '%s'",
                  entry);
    pthread_mutex_lock(&mock_vk_lock);
    mock_vk_kernel_info *k = mock_vk_kernel_find(words, size, entry);
    if (!k) {
        k = mock_vk_kernel_add(words, size, entry);
    }
    made.words = k->words;
    made.size = k->size;
    memcpy(made.entry, k->entry, sizeof made.entry);
    made.fn = fn;
    *k = made;
    pthread_mutex_unlock(&mock_vk_lock);
}

/* Can it be a module, with this list of arguments? Others are for hcq to refuse. */
static int mock_vk_sound(const hcq_program_desc *desc) {
    const uint32_t *words = (const uint32_t *)desc->spirv.data;
    size_t count = desc->spirv.size / 4, at = 5;
    if (!words || desc->spirv.size % 4 || count < 5 || (uintptr_t)words % 4 ||
        words[0] != 0x07230203) {
        return 0;
    }
    while (at < count && words[at] >> 16 && (words[at] >> 16) <= count - at) {
        at += words[at] >> 16;
    }
    for (uint32_t i = 0; i < HCQ_MAX_ARGS && desc->args[i] != HCQ_ARG_NONE; i++) {
        uint32_t kind = desc->args[i] & 0xff, align = desc->args[i] >> 24;
        int raw = kind == HCQI_ARG_STRUCT && (desc->args[i] >> 8 & 0xffff) != 0 && align != 0 &&
                  align <= 16 && (align & (align - 1)) == 0;
        if (kind >= HCQI_ARG_STRUCT && !raw) {
            return 0;
        }
    }
    return at == count;
}

/* The same for a program that has both a CPU kernel and a module. */
static TEST_UNUSED void mock_vk_program(const hcq_program_desc *desc) {
    if (desc && desc->cpu && mock_vk_sound(desc)) {
        mock_vk_kernel((const uint32_t *)desc->spirv.data, desc->spirv.size, desc->spirv.entry,
                       desc->cpu, desc->args);
    }
}

/* How much of a module another one has, in the same order, of 1000 instructions.
   The backend changes modules for grids beyond the limits. */
static uint32_t mock_vk_likeness(const uint32_t *words, size_t size, const uint32_t *other,
                                 size_t other_size) {
    enum { AHEAD = 64 };
    size_t at = 5, cursor = 5, count = size / 4, other_count = other_size / 4;
    uint32_t all = 0, same = 0;
    for (; at < count; at += words[at] >> 16) {
        size_t length = words[at] >> 16, look = cursor;
        for (uint32_t i = 0; i < AHEAD && look < other_count; i++) {
            if (length <= other_count - look &&
                memcmp(&words[at], &other[look], length * 4) == 0) {
                cursor = look + length;
                same++;
                break;
            }
            look += other[look] >> 16;
        }
        all++;
    }
    return all ? same * 1000 / all : 0;
}

/* The kernel whose module was changed into this one, or NULL; under mock_vk_lock. */
static const mock_vk_kernel_info *mock_vk_kernel_like(const uint32_t *words, size_t size) {
    const mock_vk_kernel_info *best = NULL;
    uint32_t most = 600;
    for (uint32_t i = 0; i < mock_vk_kernel_count; i++) {
        const mock_vk_kernel_info *k = &mock_vk_kernels[i];
        uint32_t like = k->size < size ? mock_vk_likeness(k->words, k->size, words, size) : 0;
        if (like >= most) {
            best = k;
            most = like;
        }
    }
    return best;
}

/* ---- a module for kernels that have none ---- */

enum { MOCK_VK_MODULE_WORDS = 144 };

/* Writes a valid module that takes its arguments by pointer, whose blocks have
   any size, and which does nothing; `tag` makes it different from others.
   Returns its size in bytes. */
static TEST_UNUSED size_t mock_vk_module(uint32_t tag, uint32_t words[MOCK_VK_MODULE_WORDS]) {
    enum { MAIN = 1, PUSH, X, Y, Z, SIZE, VOID_T, FN_T, UINT_T, VEC_T, ARGS_T, ARGS_P, PUSH_T,
           PUSH_P, TAG, LABEL, GROUP, GROUP_P, BOUND };
    const uint32_t code[] = {
        0x07230203, 0x00010500, 0, BOUND, 0,
        2u << 16 | 17, 1,                                 /* Capability Shader */
        2u << 16 | 17, 5347,                              /* PhysicalStorageBufferAddresses */
        3u << 16 | 14, 5348, 1,                           /* MemoryModel */
        7u << 16 | 15, 5, MAIN, 0x6e69616d, 0, PUSH, GROUP, /* EntryPoint "main" */
        6u << 16 | 16, MAIN, 17, 1, 1, 1,                 /* LocalSize */
        4u << 16 | 71, X, 1, 0, 4u << 16 | 71, Y, 1, 1, 4u << 16 | 71, Z, 1, 2, /* SpecId */
        4u << 16 | 71, SIZE, 11, 25, 4u << 16 | 71, GROUP, 11, 26, /* WorkgroupSize, -Id */
        3u << 16 | 71, ARGS_T, 2,                         /* Block, of any list */
        3u << 16 | 71, PUSH_T, 2, 5u << 16 | 72, PUSH_T, 0, 35, 0, /* Block, Offset */
        2u << 16 | 19, VOID_T, 3u << 16 | 33, FN_T, VOID_T,
        4u << 16 | 21, UINT_T, 32, 0, 4u << 16 | 23, VEC_T, UINT_T, 3,
        4u << 16 | 50, UINT_T, X, 1, 4u << 16 | 50, UINT_T, Y, 1, 4u << 16 | 50, UINT_T, Z, 1,
        6u << 16 | 51, VEC_T, SIZE, X, Y, Z,
        4u << 16 | 43, UINT_T, TAG, tag,
        2u << 16 | 30, ARGS_T, 4u << 16 | 32, ARGS_P, 5349, ARGS_T,
        3u << 16 | 30, PUSH_T, ARGS_P, 4u << 16 | 32, PUSH_P, 9, PUSH_T,
        4u << 16 | 59, PUSH_P, PUSH, 9,
        4u << 16 | 32, GROUP_P, 1, VEC_T, 4u << 16 | 59, GROUP_P, GROUP, 1,
        5u << 16 | 54, VOID_T, MAIN, 0, FN_T, 2u << 16 | 248, LABEL, 1u << 16 | 253, 1u << 16 | 56
    };
    _Static_assert(sizeof code <= MOCK_VK_MODULE_WORDS * 4, "MOCK_VK_MODULE_WORDS is too low");
    memcpy(words, code, sizeof code);
    return sizeof code;
}

/* Gives a program without a module one, so that the mock can run its CPU kernel.
   `words` must stay until hcq_program_create returned. */
static TEST_UNUSED void mock_vk_lend_module(hcq_program_desc *desc,
                                            uint32_t words[MOCK_VK_MODULE_WORDS]) {
    uint64_t mark = 0;
    if (!desc->cpu || desc->spirv.data) {
        return;
    }
    memcpy(&mark, &desc->cpu, sizeof desc->cpu < 8 ? sizeof desc->cpu : 8);
    for (uint32_t i = 0; i < HCQ_MAX_ARGS; i++) {
        mark = (mark ^ desc->args[i]) * 0x100000001b3ull;
    }
    desc->spirv.size = mock_vk_module((uint32_t)(mark ^ mark >> 32), words);
    desc->spirv.data = words;
    desc->spirv.entry = NULL;
}

#endif /* HCQ_TEST_MOCK_VULKAN_KERNELS_H */
