/* matmul.c - the interface to oneDNN: fp32 panels use oneDNN's sgemm, 16-bit panels oneDNN's matmul primitives.
 *
 * Each thread computes panels by itself, so OpenMP, which oneDNN uses, is limited to one thread. Primitives are kept in
 * a table by shape, and the caller gives each thread the scratch memory that the thread's primitive needs, so a step
 * with known shapes allocates nothing. If the table is full, the least recently used entry is replaced: a training has
 * some tens of shapes, but text generation has new shapes at every length. oneDNN 2 and 3 create descriptors
 * differently; the section "descriptors" handles both.
 *
 * Weights are not repacked for oneDNN. On a Zen 4 a packed copy makes a product 2 to 8 % faster, but packing takes 2 to
 * 20 % of the time of a product, and each weight would need two copies, for forward and for backward. Only the bias is
 * fused with a product: in a step of 4 x 256 (bench_ops) fusing GELU, SwiGLU, residuals, norms and dropout would save
 * less than 0.2 %, because their time is that of exponentials and random bits, not of reading memory. */
#include "device/cpu/cpu.h"
#include "base/must.h"
#include "base/rng.h"

#include <dlfcn.h>
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHAPES = 512 };

typedef struct {
    ce_matmul_shape shape;
    dnnl_primitive_t primitive;
    size_t scratch;        /* bytes of scratch memory for each thread */
    dnnl_memory_t *memory; /* ARGUMENTS memory objects for each thread */
    uint64_t used;         /* the value of matmul->uses when the entry was last prepared */
} entry;

static const int argument_names[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD,
                                      DNNL_ARG_BIAS };
enum { SOURCE, WEIGHTS, TARGET, SCRATCH, BIAS, ARGUMENTS };

struct ce_matmul {
    cs_device *device;
    dnnl_engine_t engine;
    dnnl_stream_t *streams; /* one stream for each thread */
    int count;              /* number of entries in use */
    uint64_t uses;
    uint64_t hashes[SHAPES]; /* hashes of the entries' shapes: a search reads only these hashes */
    entry entries[SHAPES];
};

static void must(dnnl_status_t status, const char *what)
{
    if (status != dnnl_success)
        ce_fatal(status == dnnl_out_of_memory ? CS_NO_MEMORY : CS_UNSUPPORTED, "oneDNN: %s failed with status %d", what,
                 (int)status);
}

/* ---- descriptors, which are structs in oneDNN 2 and pointers in oneDNN 3 ---- */

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t owned_desc;
typedef const_dnnl_memory_desc_t borrowed_desc;

static borrowed_desc borrow(const owned_desc *desc)
{
    return *desc;
}

static void make_desc(owned_desc *desc, const dnnl_dim_t *dims, dnnl_data_type_t type, const dnnl_dim_t *strides)
{
    must(dnnl_memory_desc_create_with_strides(desc, 2, dims, type, strides), "a memory descriptor");
}

static void drop_desc(owned_desc *desc)
{
    dnnl_memory_desc_destroy(*desc);
}

static dnnl_status_t make_primitive_desc(dnnl_primitive_desc_t *made, dnnl_engine_t engine, const owned_desc *desc,
                                         bool bias, dnnl_primitive_attr_t attributes)
{
    return dnnl_matmul_primitive_desc_create(made, engine, desc[SOURCE], desc[WEIGHTS], bias ? desc[BIAS] : NULL,
                                             desc[TARGET], attributes);
}

static void append_sum(dnnl_post_ops_t operations)
{
    must(dnnl_post_ops_append_sum(operations, 1, 0, dnnl_data_type_undef), "a sum");
}
#else
typedef dnnl_memory_desc_t owned_desc;
typedef const dnnl_memory_desc_t *borrowed_desc;

static borrowed_desc borrow(const owned_desc *desc)
{
    return desc;
}

static void make_desc(owned_desc *desc, const dnnl_dim_t *dims, dnnl_data_type_t type, const dnnl_dim_t *strides)
{
    must(dnnl_memory_desc_init_by_strides(desc, 2, dims, type, strides), "a memory descriptor");
}

static void drop_desc(owned_desc *desc)
{
    (void)desc;
}

static dnnl_status_t make_primitive_desc(dnnl_primitive_desc_t *made, dnnl_engine_t engine, const owned_desc *desc,
                                         bool bias, dnnl_primitive_attr_t attributes)
{
    dnnl_matmul_desc_t matmul;
    must(dnnl_matmul_desc_init(&matmul, &desc[SOURCE], &desc[WEIGHTS], bias ? &desc[BIAS] : NULL, &desc[TARGET]),
         "a matmul descriptor");
    return dnnl_primitive_desc_create(made, &matmul, attributes, engine, NULL);
}

static void append_sum(dnnl_post_ops_t operations)
{
    must(dnnl_post_ops_append_sum(operations, 1), "a sum");
}
#endif

/* ---- opening ---- */

void ce_matmul_quiet(void)
{
    union {
        void *address;
        void (*call)(int threads);
    } set = { .address = dlsym(RTLD_DEFAULT, "omp_set_num_threads") };
    if (set.address)
        set.call(1);
}

/* oneDNN accepts a limit only once in a process, and only before oneDNN first reads which instructions the CPU has. */
cs_status ce_matmul_limit(ce_isa isa)
{
    static const dnnl_cpu_isa_t limits[CE_ISA_COUNT] = { [CE_ISA_AVX2] = dnnl_cpu_isa_avx2,
                                                         [CE_ISA_AVX512] = dnnl_cpu_isa_avx512_core,
                                                         [CE_ISA_AVX512_BF16] = dnnl_cpu_isa_avx512_core_bf16,
                                                         [CE_ISA_AMX] = dnnl_cpu_isa_avx512_core_amx };
    if (dnnl_set_max_cpu_isa(limits[isa]) == dnnl_success ||
        ((unsigned)dnnl_get_effective_cpu_isa() & ~(unsigned)limits[isa]) == 0)
        return CS_OK;
    return ce_fail(CS_UNSUPPORTED,
                   "not supported: oneDNN already uses more instructions than %s, and its limit can be set only once "
                   "in a process; set CSPEED_CPU_ISA=%s for every rank",
                   ce_isa_name(isa), ce_isa_name(isa));
}

void ce_matmul_version(char text[32])
{
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, 32, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
}

cs_status ce_matmul_open(ce_matmul **matmul, cs_device *device)
{
    ce_matmul *new = *matmul = calloc(1, sizeof *new);
    if (!new || !(new->streams = calloc((size_t)device->threads, sizeof(dnnl_stream_t))))
        return ce_fail(CS_NO_MEMORY, "out of memory for oneDNN's primitives");
    new->device = device;
    if (dnnl_version()->major != DNNL_VERSION_MAJOR)
        return ce_fail(CS_NO_DEVICE,
                       "this program was built for oneDNN %d and has loaded oneDNN %d.%d: set "
                       "LD_LIBRARY_PATH, or build it again",
                       DNNL_VERSION_MAJOR, dnnl_version()->major, dnnl_version()->minor);
    if (dnnl_engine_create(&new->engine, dnnl_cpu, 0) != dnnl_success)
        return ce_fail(CS_NO_DEVICE, "oneDNN cannot make a CPU engine");
    for (int thread = 0; thread < device->threads; thread++)
        if (dnnl_stream_create(&new->streams[thread], new->engine, dnnl_stream_default_flags) != dnnl_success)
            return ce_fail(CS_NO_DEVICE, "oneDNN cannot make a stream");
    return CS_OK;
}

static void drop_entry(entry *old, int threads)
{
    for (int i = 0; i < threads * ARGUMENTS; i++)
        if (old->memory[i])
            dnnl_memory_destroy(old->memory[i]);
    free(old->memory);
    dnnl_primitive_destroy(old->primitive);
}

void ce_matmul_close(ce_matmul *matmul)
{
    if (!matmul)
        return;
    for (int i = 0; i < matmul->count; i++)
        drop_entry(&matmul->entries[i], matmul->device->threads);
    for (int thread = 0; matmul->streams && thread < matmul->device->threads; thread++)
        if (matmul->streams[thread])
            dnnl_stream_destroy(matmul->streams[thread]);
    if (matmul->engine)
        dnnl_engine_destroy(matmul->engine);
    free(matmul->streams);
    free(matmul);
}

/* ---- fp32 ---- */

void ce_matmul_sgemm(const ce_panel *panel, const float *a, const float *b, float *c)
{
    must(dnnl_sgemm(panel->transpose_a ? 'T' : 'N', panel->transpose_b ? 'T' : 'N', panel->m, panel->n, panel->k, 1, a,
                    panel->lda, b, panel->ldb, panel->beta, c, panel->ldc),
         "sgemm");
}

/* ---- primitives ---- */

static dnnl_data_type_t type_of(cs_dtype dtype)
{
    return dtype == CS_F32 ? dnnl_f32 : dtype == CS_BF16 ? dnnl_bf16 : dnnl_f16;
}

static void make_matrix(owned_desc *desc, int64_t rows, int64_t columns, int64_t leading, bool transposed,
                        cs_dtype dtype)
{
    dnnl_dims_t dims = { rows, columns };
    dnnl_dims_t strides = { transposed ? 1 : leading, transposed ? leading : 1 };
    make_desc(desc, dims, type_of(dtype), strides);
}

static uint64_t hash_of(const ce_matmul_shape *shape)
{
    const ce_panel *p = &shape->panel;
    const int64_t parts[] = { p->m,         p->n,           p->k,           p->lda,       p->ldb,    p->ldc,
                              p->beta != 0, p->transpose_a, p->transpose_b, shape->dtype, shape->to, shape->bias };
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        hash = ce_rng_mix(hash, (uint64_t)parts[i]);
    return hash;
}

static bool same(const ce_matmul_shape *one, const ce_matmul_shape *other)
{
    const ce_panel *a = &one->panel, *b = &other->panel;
    return a->m == b->m && a->n == b->n && a->k == b->k && a->lda == b->lda && a->ldb == b->ldb && a->ldc == b->ldc &&
           a->transpose_a == b->transpose_a && a->transpose_b == b->transpose_b && (a->beta != 0) == (b->beta != 0) &&
           one->dtype == other->dtype && one->to == other->to && one->bias == other->bias;
}

/* Returns the entry of this shape, or NULL if the table has no such entry. */
static entry *find(ce_matmul *matmul, const ce_matmul_shape *shape, uint64_t hash)
{
    for (int i = 0; i < matmul->count; i++)
        if (matmul->hashes[i] == hash && same(&matmul->entries[i].shape, shape))
            return &matmul->entries[i];
    return NULL;
}

/* Returns an entry to fill. If the table is full, this is the least recently used entry. The entries of the current
 * product were prepared last, so they are never replaced. */
static entry *take_place(ce_matmul *matmul)
{
    if (matmul->count < SHAPES)
        return &matmul->entries[matmul->count++];
    entry *oldest = matmul->entries;
    for (entry *other = oldest; other < matmul->entries + SHAPES; other++)
        if (other->used < oldest->used)
            oldest = other;
    drop_entry(oldest, matmul->device->threads);
    return oldest;
}

static dnnl_primitive_attr_t make_attributes(bool add)
{
    dnnl_primitive_attr_t attributes;
    must(dnnl_primitive_attr_create(&attributes), "attributes");
    must(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user), "a scratchpad");
    if (add) {
        dnnl_post_ops_t operations;
        must(dnnl_post_ops_create(&operations), "operations");
        append_sum(operations);
        must(dnnl_primitive_attr_set_post_ops(attributes, operations), "operations");
        dnnl_post_ops_destroy(operations);
    }
    return attributes;
}

static void make_memories(ce_matmul *matmul, entry *new, borrowed_desc const *descs)
{
    int threads = matmul->device->threads;
    new->memory = calloc((size_t)(threads * ARGUMENTS), sizeof *new->memory);
    if (!new->memory)
        ce_fatal(CS_NO_MEMORY, "no memory for a matrix product");
    for (int i = 0; i < threads * ARGUMENTS; i++)
        if (i % ARGUMENTS != BIAS || new->shape.bias)
            must(dnnl_memory_create(&new->memory[i], descs[i % ARGUMENTS], matmul->engine, DNNL_MEMORY_NONE),
                 "a memory");
}

/* Creates the descriptors of the operands of a product, and *made, the descriptor of oneDNN's primitive. Returns an
 * error if oneDNN has no such primitive; the descriptors of the operands are created nevertheless. */
static dnnl_status_t describe(ce_matmul *matmul, const ce_matmul_shape *shape, owned_desc *desc,
                              dnnl_primitive_desc_t *made)
{
    const ce_panel *panel = &shape->panel;
    make_matrix(&desc[SOURCE], panel->m, panel->k, panel->lda, panel->transpose_a, shape->dtype);
    make_matrix(&desc[WEIGHTS], panel->k, panel->n, panel->ldb, panel->transpose_b, shape->dtype);
    make_matrix(&desc[TARGET], panel->m, panel->n, panel->ldc, false, shape->to);
    if (shape->bias)
        make_matrix(&desc[BIAS], 1, panel->n, panel->n, false, shape->dtype);
    dnnl_primitive_attr_t attributes = make_attributes(panel->beta != 0);
    dnnl_status_t status = make_primitive_desc(made, matmul->engine, desc, shape->bias, attributes);
    dnnl_primitive_attr_destroy(attributes);
    return status;
}

static void drop_descs(const ce_matmul_shape *shape, owned_desc *desc)
{
    for (int i = 0; i < ARGUMENTS; i++)
        if (i != SCRATCH && (i != BIAS || shape->bias))
            drop_desc(&desc[i]);
}

static void make_entry(ce_matmul *matmul, entry *new, const ce_matmul_shape *shape)
{
    owned_desc desc[ARGUMENTS];
    dnnl_primitive_desc_t made;
    *new = (entry){ .shape = *shape };
    must(describe(matmul, shape, desc, &made), "a matrix product");
    must(dnnl_primitive_create(&new->primitive, made), "a primitive");
    borrowed_desc scratch = dnnl_primitive_desc_query_md(made, dnnl_query_scratchpad_md, 0);
    new->scratch = dnnl_memory_desc_get_size(scratch);
    borrowed_desc descs[ARGUMENTS] = { borrow(&desc[SOURCE]), borrow(&desc[WEIGHTS]), borrow(&desc[TARGET]), scratch,
                                       shape->bias ? borrow(&desc[BIAS]) : NULL };
    make_memories(matmul, new, descs);
    drop_descs(shape, desc);
    dnnl_primitive_desc_destroy(made);
}

ce_matmul_grade ce_matmul_grade_of(ce_matmul *matmul, cs_dtype dtype)
{
    enum { SIDE = 64 };
    ce_matmul_shape shape = { { false, false, SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, 0 }, dtype, dtype, true };
    owned_desc desc[ARGUMENTS];
    dnnl_primitive_desc_t made;
    dnnl_status_t status = describe(matmul, &shape, desc, &made);
    const char *name = NULL;
    drop_descs(&shape, desc);
    if (status != dnnl_success)
        return CE_MATMUL_NONE;
    must(dnnl_primitive_desc_query(made, dnnl_query_impl_info_str, 0, &name), "an implementation's name");
    ce_matmul_grade grade = strncmp(name, "ref", 3) == 0 ? CE_MATMUL_PLAIN : CE_MATMUL_FAST;
    dnnl_primitive_desc_destroy(made);
    return grade;
}

size_t ce_matmul_prepare(ce_matmul *matmul, const ce_matmul_shape *shape)
{
    uint64_t hash = hash_of(shape);
    entry *place = find(matmul, shape, hash);
    if (!place) {
        place = take_place(matmul);
        make_entry(matmul, place, shape);
        matmul->hashes[place - matmul->entries] = hash;
    }
    place->used = ++matmul->uses;
    return place->scratch;
}

/* Removes const, because oneDNN takes pointers without const even where it only reads. */
static void *unlocked(const void *pointer)
{
    union {
        const void *from;
        void *to;
    } same = { .from = pointer };
    return same.to;
}

void ce_matmul_run(ce_matmul *matmul, const ce_matmul_shape *shape, const ce_matmul_operands *with, int thread)
{
    entry *place = find(matmul, shape, hash_of(shape));
    CE_ASSERT(place && thread < matmul->device->threads);
    void *handles[ARGUMENTS] = { unlocked(with->a), unlocked(with->b), with->c, with->scratch, unlocked(with->bias) };
    dnnl_exec_arg_t arguments[ARGUMENTS];
    int count = shape->bias ? ARGUMENTS : ARGUMENTS - 1;
    for (int i = 0; i < count; i++) {
        dnnl_memory_t memory = place->memory[thread * ARGUMENTS + i];
        must(dnnl_memory_set_data_handle(memory, handles[i]), "a pointer");
        arguments[i] = (dnnl_exec_arg_t){ argument_names[i], memory };
    }
    must(dnnl_primitive_execute(place->primitive, matmul->streams[thread], count, arguments), "a matrix product");
    must(dnnl_stream_wait(matmul->streams[thread]), "waiting");
}
