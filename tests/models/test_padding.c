/* test_padding.c - a vocabulary that a GPU pads with zero rows: these rows stay zero in every update, the losses equal
 * the CPU's, and a checkpoint equals the CPU's checkpoint. */
#include "near.h"
#include "runs.h"
#include "shell.h"
#include "suite.h"

#include "core/engine.h"
#include "base/must.h"
#include "zero/part.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 10, HELD = 128 };

#define UNTIED                                                                                                         \
    "cspeed.model={\"model_type\": \"llama\", \"vocab_size\": 61, \"hidden_size\": 16, \"intermediate_size\": 24, "    \
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "                               \
    "\"max_position_embeddings\": 16, \"initializer_range\": 0.1, \"tie_word_embeddings\": false}"
#define OPTIMIZER(type, more) "optimizer={\"type\": \"" type "\", \"params\": {\"lr\": 5e-3, " more "}}"

typedef struct {
    run_spec spec;
    /* Names of folders, or NULL. from: the checkpoint to load; the run then trains no steps. to: the checkpoint to
     * save. export: the export to write. */
    const char *from, *to, *export;
    double loss[STEPS];
    int padded;      /* number of parameters that are padded */
    int64_t held;    /* rows of the last padded parameter, padding included */
    int64_t nonzero; /* number of bytes in the padding that are not zero */
} run_plan;

static int64_t nonzero_bytes(cs_engine *engine, const void *memory, int64_t elements, cs_dtype dtype)
{
    size_t bytes = (size_t)elements * cs_dtype_bytes(dtype);
    unsigned char *here = calloc(1, bytes + 1);
    int64_t count = 0;
    CE_ASSERT(here);
    ce_stream_fetch(ce_device_stream(engine->device, CE_COMPUTE), here, memory, bytes);
    for (size_t i = 0; i < bytes; i++)
        count += here[i] != 0;
    free(here);
    return count;
}

/* Counts the bytes of the padding that are not zero. Works with one rank only, which has the whole row. */
static void look_at_padding(run_plan *j, cs_engine *engine, ce_shard *shard, const ce_unit_entry *entry)
{
    ce_precision types = engine->zero.precision;
    ce_range gap = ce_unit_gap(entry);
    int64_t count = ce_range_length(gap);
    if (count == 0)
        return;
    j->padded++;
    j->held = entry->param.held;
    j->nonzero += nonzero_bytes(engine, ce_part_home(shard, gap.from), count, types.values);
    j->nonzero += nonzero_bytes(engine, ce_part_master(shard, gap.from), count, types.masters);
    j->nonzero += nonzero_bytes(engine, ce_part_sum(shard, gap.from), count, types.sums);
    for (int slot = 0; slot < engine->zero.optimizer.slots; slot++)
        j->nonzero += nonzero_bytes(engine, ce_part_slot(shard, slot, gap.from), count, types.slots);
}

static int run_rank(void *argument)
{
    run_plan *j = argument;
    cs_engine *engine = run_open(&j->spec, NULL);
    if (j->from)
        CS_MUST(cs_load_checkpoint(engine, j->from, NULL, NULL, NULL));
    for (int step = 0; !j->from && step < j->spec.steps; step++) {
        run_step(engine, &j->spec);
        j->loss[step] = cs_last_step(engine).loss;
    }
    if (j->to)
        CS_MUST(cs_save_checkpoint(engine, j->to, "saved", NULL));
    if (j->export)
        CS_MUST(cs_export(engine, j->to, NULL, j->export));
    ce_walk_settle(engine);
    for (int i = 0; i < engine->model->count; i++)
        for (int at = 0; at < engine->model->units[i]->entry_count; at++)
            look_at_padding(j, engine, engine->shards[i], engine->model->units[i]->entries[at]);
    cs_destroy(engine);
    return 0;
}

static run_plan *go(const char *device, const run_spec *spec, const char *model, const char *optimizer)
{
    run_plan *j = run_share(sizeof *j);
    j->spec = *spec;
    j->spec.world = 1;
    j->spec.steps = STEPS;
    j->spec.set[0] = device;
    j->spec.set[1] = optimizer;
    j->spec.set[2] = model;
    run_ranks(1, run_rank, j);
    return j;
}

/* `bound` is the tolerance of the losses: with 16-bit numbers the CPU and the GPU may round differently. */
static void check_optimizer(const run_spec *spec, const char *model, const char *optimizer, double bound)
{
    run_plan *here = go("cspeed.device=cpu", spec, model, optimizer);
    run_plan *there = go("cspeed.device=cuda", spec, model, optimizer);
    ck_assert_int_eq(here->padded, 0);
    ck_assert_int_eq(there->padded, 1);
    ck_assert_int_eq(there->held, HELD);
    ck_assert_msg(there->nonzero == 0, "%s: %lld bytes of the padding are not zero", optimizer,
                  (long long)there->nonzero);
    for (int step = 0; step < STEPS; step++)
        ck_assert_msg(fabs(here->loss[step] - there->loss[step]) <= bound * here->loss[step],
                      "%s, step %d: losses %.9g and %.9g", optimizer, step + 1, here->loss[step], there->loss[step]);
    run_unshare(here, sizeof *here), run_unshare(there, sizeof *there);
}

START_TEST(padding_stays_zero)
{
    const run_spec first = { .stage = 0, .micro = 1, .accumulation = 2, .precision = "fp32" };
    const run_spec third = { .stage = 3, .micro = 1, .precision = "bf16", .recompute = "unit" };
    if (!near_emulated("padding"))
        return;
    check_optimizer(&first, NULL, OPTIMIZER("AdamW", "\"weight_decay\": 0.1"), 1e-4);
    check_optimizer(&third, UNTIED, OPTIMIZER("AdamW", "\"weight_decay\": 0.1"), 2e-2);
    check_optimizer(&first, UNTIED, OPTIMIZER("Lamb", "\"weight_decay\": 0.1"), 1e-4);
    check_optimizer(&first, NULL, OPTIMIZER("Muon", "\"weight_decay\": 0.1"), 1e-3);
}
END_TEST

/* A model is trained and saved on the CPU. The GPU loads this checkpoint and saves a second checkpoint, which the CPU
 * loads to save a third checkpoint. The exports of all three checkpoints are equal. */
START_TEST(what_is_saved_has_no_padding)
{
    static const char *const names[] = { "first", "second", "third" };
    if (!near_emulated("what is saved"))
        return;
    shell_enter();
    for (int i = 0; i < 3; i++) {
        char folder[32];
        run_plan *j = run_share(sizeof *j);
        snprintf(folder, sizeof folder, "%s-export", names[i]);
        j->spec = (run_spec){ .world = 1,
                              .stage = 2,
                              .steps = 3,
                              .precision = "bf16",
                              .set = { i == 1 ? "cspeed.device=cuda" : "cspeed.device=cpu" } };
        j->from = i ? names[i - 1] : NULL;
        j->to = names[i];
        j->export = folder;
        run_ranks(1, run_rank, j);
        ck_assert_int_eq(j->padded, i == 1);
        run_unshare(j, sizeof *j);
    }
    ck_assert_int_eq(shell_run("cmp first-export/model.safetensors second-export/model.safetensors"), 0);
    ck_assert_int_eq(shell_run("cmp first-export/model.safetensors third-export/model.safetensors"), 0);
    shell_leave();
}
END_TEST

/* ---- several ranks: the padding is divided over the ranks like the rest of its row ---- */

enum { WORLD = 2, SHARED_STEPS = 2 };

typedef struct {
    run_spec spec;
    double loss[SHARED_STEPS], norm[SHARED_STEPS];
    /* for each rank: padding elements in its part, and bytes of these that are not 0 */
    int64_t seen[WORLD], nonzero[WORLD];
} share;

static void look_at_share(share *s, cs_engine *engine, ce_shard *shard, const ce_unit_entry *entry)
{
    ce_precision types = engine->zero.precision;
    ce_range own = ce_range_overlap(ce_unit_gap(entry), shard->part);
    int64_t count = ce_range_length(own), *nonzero = &s->nonzero[cs_rank(engine)];
    if (count == 0)
        return;
    s->seen[cs_rank(engine)] += count;
    *nonzero += nonzero_bytes(engine, ce_part_home(shard, own.from), count, types.values);
    *nonzero += nonzero_bytes(engine, ce_part_master(shard, own.from), count, types.masters);
    *nonzero += nonzero_bytes(engine, ce_part_sum(shard, own.from), count, types.sums);
    for (int slot = 0; slot < engine->zero.optimizer.slots; slot++)
        *nonzero += nonzero_bytes(engine, ce_part_slot(shard, slot, own.from), count, types.slots);
}

static int train_share(void *argument)
{
    share *s = argument;
    cs_engine *engine = run_open(&s->spec, NULL);
    for (int step = 0; step < SHARED_STEPS; step++) {
        run_step(engine, &s->spec);
        s->loss[step] = cs_last_step(engine).loss;
        s->norm[step] = cs_last_step(engine).grad_norm;
    }
    ce_walk_settle(engine);
    for (int i = 0; i < engine->model->count; i++)
        for (int at = 0; at < engine->model->units[i]->entry_count; at++)
            look_at_share(s, engine, engine->shards[i], engine->model->units[i]->entries[at]);
    cs_destroy(engine);
    return 0;
}

/* If `alike` is true, a step has one micro-batch, and at all stages the losses and gradient norms must be equal bit for
 * bit. Otherwise a step has two micro-batches, and rounding between the micro-batches may make the stages differ. */
static void check_share(const char *precision, const char *model, const char *optimizer, const char *more, bool alike)
{
    share *all = run_share(4 * sizeof *all);
    for (int stage = 0; stage < 4; stage++) {
        share *s = &all[stage];
        s->spec = (run_spec){ .world = WORLD,
                              .stage = stage,
                              .steps = SHARED_STEPS,
                              .micro = 1,
                              .accumulation = alike ? 1 : 2,
                              .precision = precision,
                              .prefetch = 1,
                              .set = { "cspeed.device=cuda", optimizer, model, more } };
        run_ranks(WORLD, train_share, s);
        ck_assert_msg(s->seen[0] + s->seen[1] > 0, "%s: no padding", optimizer);
        ck_assert_msg(s->nonzero[0] + s->nonzero[1] == 0, "%s, stage %d, %s: %lld bytes of the padding are not zero",
                      optimizer, stage, precision, (long long)(s->nonzero[0] + s->nonzero[1]));
        for (int step = 0; alike && step < SHARED_STEPS; step++)
            ck_assert_msg(s->loss[step] == all->loss[step] && s->norm[step] == all->norm[step],
                          "%s, %s, step %d: stage 0 has loss %.17g and norm %.17g, stage %d has %.17g and %.17g",
                          optimizer, precision, step + 1, all->loss[step], all->norm[step], stage, s->loss[step],
                          s->norm[step]);
    }
    run_unshare(all, 4 * sizeof *all);
}

START_TEST(padding_stays_zero_in_shares)
{
    const char *tied = "cspeed.model.vocab_size=61", *none = "cspeed.nan_patience=5";
    if (!near_emulated("padding in shares"))
        return;
    check_share("fp16", UNTIED, OPTIMIZER("Lamb", "\"weight_decay\": 0.1"), none, true);
    check_share("bf16", tied, OPTIMIZER("Muon", "\"weight_decay\": 0.1"), none, true);
    check_share("bf16", UNTIED, OPTIMIZER("AdamW", "\"weight_decay\": 0.1"),
                "data_types={\"grad_accum_dtype\": \"bf16\"}", false);
}
END_TEST

SUITE_MAIN_APART("padding", padding_stays_zero, padding_stays_zero_in_shares, what_is_saved_has_no_padding)
