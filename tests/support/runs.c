/* runs.c - small training runs for tests. */
#include "runs.h"
#include "near.h"
#include "pieces.h"
#include "core/engine.h"
#include "base/crc.h"
#include "comm/transport.h"
#include "cspeed/ops.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *const text =
    "{ \"train_micro_batch_size_per_gpu\": %d, \"gradient_accumulation_steps\": %d, %s \"gradient_clipping\": 1.0,\n"
    "  \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 2e-3, \"betas\": [0.9, 0.95], \"weight_decay\": 0.1 "
    "} },\n"
    "  \"zero_optimization\": { \"stage\": %d }, \"%s\": { \"enabled\": %s },\n"
    "  \"cspeed\": { \"steps\": %d, \"seed\": 11, \"recompute\": \"%s\", \"prefetch\": %d, \"threads\": %s,\n"
    "    \"device\": \"%s\", \"data\": { \"seq_len\": %d },\n"
    "    \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 3, \"n_head\": 2, \"n_embd\": 24, \"n_positions\": 16, "
    "\"vocab_size\": %d,\n"
    "      \"resid_pdrop\": %g, \"embd_pdrop\": %g, \"attn_pdrop\": %g, \"initializer_range\": 0.1 } } }\n";

void run_write_config(const run_spec *spec, char *path, size_t bytes)
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, bytes, "%s/cspeed-run-XXXXXX", folder ? folder : "/tmp");
    int handle = mkstemp(path);
    FILE *file = handle < 0 ? NULL : fdopen(handle, "w");
    ck_assert_ptr_nonnull(file);
    bool half = strcmp(spec->precision, "fp32") != 0;
    fprintf(file, text, spec->micro ? spec->micro : 2, spec->accumulation ? spec->accumulation : 1,
            spec->more ? spec->more : "", spec->stage, half ? spec->precision : "bf16", half ? "true" : "false",
            spec->steps, spec->recompute ? spec->recompute : "none", spec->prefetch,
            spec->threads ? spec->threads : "1", near_device(), RUN_LENGTH, RUN_VOCABULARY, spec->dropout,
            spec->dropout, spec->dropout);
    ck_assert_int_eq(fclose(file), 0);
}

/* Simulates hosts of `host` ranks: sets LOCAL_RANK and LOCAL_WORLD_SIZE as on such hosts. */
static void place(int host)
{
    char number[16];
    const char *rank = getenv("RANK");
    snprintf(number, sizeof number, "%d", rank ? atoi(rank) % host : 0);
    setenv("LOCAL_RANK", number, 1);
    snprintf(number, sizeof number, "%d", host);
    setenv("LOCAL_WORLD_SIZE", number, 1);
}

cs_engine *run_open(const run_spec *spec, cs_model *model)
{
    char path[4096];
    cs_config *config;
    cs_engine *engine;
    if (spec->host)
        place(spec->host);
    run_write_config(spec, path, sizeof path);
    cs_status status = cs_config_open(&config, path);
    unlink(path);
    CS_MUST(status);
    /* Tests compare the results of runs bit for bit. Without this setting the methods of products are chosen by
     * measuring, and may differ from run to run. */
    if (strcmp(near_device(), "cpu") == 0)
        CS_MUST(cs_config_set(config, "cspeed.products=fixed"));
    for (int i = 0; i < RUN_SETS && spec->set[i]; i++)
        CS_MUST(cs_config_set(config, spec->set[i]));
    CS_MUST(cs_initialize(&engine, config, model));
    return engine;
}

cs_batch run_batch(const cs_engine *engine, const run_spec *spec, int micro)
{
    static int32_t inputs[64 * RUN_LENGTH], targets[64 * RUN_LENGTH];
    int64_t batch = spec->micro ? spec->micro : 2;
    int64_t first = engine->metrics.samples + (micro * cs_lanes(engine) + cs_lane(engine)) * batch;
    ck_assert_int_le(batch, 64);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t t = 0; t < RUN_LENGTH; t++) {
            int64_t sample = first + b, at = b * RUN_LENGTH + t;
            bool left_out = spec->masked && ((sample + t) % 3 == 0 || sample % 5 < 2);
            inputs[at] = (int32_t)((sample * 7 + t * (3 + sample % 4)) % RUN_VOCABULARY);
            targets[at] = left_out ? -1 : (int32_t)((sample * 7 + (t + 1) * (3 + sample % 4)) % RUN_VOCABULARY);
        }
    return (cs_batch){ .inputs = cs_matrix(inputs, CS_I32, batch, RUN_LENGTH),
                       .targets = cs_matrix(targets, CS_I32, batch, RUN_LENGTH) };
}

void run_step(cs_engine *engine, const run_spec *spec)
{
    for (int micro = 0; micro < (spec->accumulation ? spec->accumulation : 1); micro++) {
        cs_batch batch = run_batch(engine, spec, micro);
        cs_forward(engine, &batch);
        cs_backward(engine);
        cs_step(engine);
    }
}

/* ---- checksums ---- */

static uint32_t checksum(cs_engine *engine, bool slots)
{
    ce_precision types = engine->zero.precision;
    uint32_t sum = 0;
    for (int i = 0; i < engine->model->count; i++) {
        ce_shard_piece pieces[32];
        int count = pieces_take(engine, i, pieces);
        for (int at = 0; at < count; at++) {
            size_t elements = (size_t)ce_range_length(pieces[at].range);
            for (int slot = 0; slots && slot < engine->zero.optimizer.slots; slot++)
                if (pieces[at].slots[slot])
                    sum = ce_crc32c(sum, pieces[at].slots[slot], elements * cs_dtype_bytes(pieces[at].slot_dtype));
            if (!slots)
                sum = ce_crc32c(sum, pieces[at].master, elements * cs_dtype_bytes(types.masters));
        }
    }
    return sum;
}

uint32_t run_masters(cs_engine *engine)
{
    return checksum(engine, false);
}

uint32_t run_slots(cs_engine *engine)
{
    return checksum(engine, true);
}

void run_same_bits(const run_result *a, const run_result *b, int steps, const char *what)
{
    for (int i = 0; i < steps; i++) {
        ck_assert_msg(memcmp(&a->loss[i], &b->loss[i], sizeof a->loss[i]) == 0, "%s: loss of step %d: %.17g and %.17g",
                      what, i + 1, a->loss[i], b->loss[i]);
        ck_assert_msg(memcmp(&a->norm[i], &b->norm[i], sizeof a->norm[i]) == 0, "%s: norm of step %d: %.17g and %.17g",
                      what, i + 1, a->norm[i], b->norm[i]);
    }
}

/* ---- ranks ---- */

/* Computes a product in this process. At the first product oneDNN compiles kernels, which takes longer than a small
 * run; ranks that are forked later have these kernels from the beginning. */
static void compile_products(void)
{
    enum { ROWS = 40, WIDTH = 8 }; /* more rows than gemv.c takes and fewer than gemm.c, so that oneDNN computes */
    static bool compiled;
    float x[ROWS * WIDTH] = { 0 }, w[WIDTH * WIDTH] = { 0 }, y[ROWS * WIDTH];
    if (compiled || !near_is_cpu()) /* a test may not fork after it has opened a GPU */
        return;
    cs_op_matmul(ce_device_stream(near_open(1), CE_COMPUTE), cs_matrix(y, CS_F32, ROWS, WIDTH),
                 cs_matrix(x, CS_F32, ROWS, WIDTH), cs_matrix(w, CS_F32, WIDTH, WIDTH), (cs_tensor){ 0 }, CS_IN_OUT);
    near_close();
    compiled = true;
}

void *run_share(size_t bytes)
{
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    return shared;
}

void run_unshare(void *shared, size_t bytes)
{
    munmap(shared, bytes);
}

static cs_status spawn(int world, int (*rank)(void *argument), void *argument)
{
    compile_products();
    return cs_spawn(world, rank, argument);
}

void run_ranks(int world, int (*rank)(void *argument), void *argument)
{
    cs_status status = spawn(world, rank, argument);
    ck_assert_msg(status == CS_OK, "world %d: %s", world, cs_error());
}

typedef struct {
    const run_spec *spec;
    run_result *result; /* memory shared between the processes */
} order;

static run_held held(const cs_engine *engine)
{
    return (run_held){ engine->zero.comm->heap_used, ce_device_allocated(engine->device),
                       ce_device_workspace(engine->device) };
}

static int train(void *argument)
{
    const order *job = argument;
    run_result *result = job->result;
    cs_engine *engine = run_open(job->spec, NULL);
    int rank = cs_rank(engine);
    result->at_open[rank] = held(engine);
    for (int step = 0; step < job->spec->steps; step++) {
        run_step(engine, job->spec);
        if (step == 0)
            result->after_first[rank] = held(engine);
        if (rank == 0) {
            result->loss[step] = cs_last_step(engine).loss;
            result->norm[step] = cs_last_step(engine).grad_norm;
        }
    }
    result->at_end[rank] = held(engine);
    result->memory[rank] = cs_memory_of(engine);
    cs_destroy(engine);
    return 0;
}

void run_train(const run_spec *spec, run_result *result)
{
    run_result *shared = run_share(sizeof *shared);
    ck_assert_int_le(spec->steps, RUN_STEPS);
    ck_assert_int_le(spec->world, RUN_RANKS);
    order job = { spec, shared };
    cs_status status = spawn(spec->world, train, &job);
    ck_assert_msg(status == CS_OK, "world %d stage %d %s: %s", spec->world, spec->stage, spec->precision, cs_error());
    *result = *shared;
    run_unshare(shared, sizeof *shared);
}
