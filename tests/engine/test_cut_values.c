/* test_cut_values.c - with tensor parallelism each rank's elements, copies too, have the values of the same elements of the
 * whole parameters: initial values, values of a Hugging Face folder and of a folder of adapters, and what cs_param_local describes. */
#include "pieces.h"
#include "runs.h"
#include "shell.h"
#include "suite.h"

#include "base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LLAMA                                                                                                          \
    "cspeed.model={\"model_type\": \"llama\", \"vocab_size\": 61, \"hidden_size\": 16, \"intermediate_size\": 20, "    \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 8, \"num_key_value_heads\": 2, \"attention_bias\": true, "     \
    "\"max_position_embeddings\": 12}"
#define GPT2                                                                                                           \
    "cspeed.model={\"model_type\": \"gpt2\", \"vocab_size\": 61, \"n_embd\": 24, \"n_head\": 4, \"n_layer\": 2, "      \
    "\"n_positions\": 12}"
#define LORA "cspeed.lora={\"r\": 2, \"targets\": \"all-linear\"}"
#define DORA "cspeed.lora={\"r\": 2, \"targets\": \"all-linear\", \"dora\": true}"

enum { VALUES = 1 << 16 };

/* The values of all parameters, one after another, as a run of one rank has them. In memory that the ranks share. */
typedef struct {
    float value[VALUES];
    int64_t compared[RUN_RANKS], wrong[RUN_RANKS];
} whole_values;

typedef struct {
    run_spec spec;
    bool first;         /* true: the run writes the values; false: it compares its own with them */
    const char *export; /* the run exports its model to this folder; or NULL */
    whole_values *whole;
} job;

static void compare(job *j, int rank, float *value, float mine)
{
    if (j->first)
        *value = mine;
    j->whole->compared[rank]++;
    j->whole->wrong[rank] += memcmp(value, &mine, sizeof mine) != 0;
}

/* Compares this rank's masters. */
static void compare_pieces(job *j, cs_engine *engine)
{
    float *value = j->whole->value;
    for (int i = 0; i < engine->model->total; i++) {
        CE_FREED ce_shard_piece *pieces = ce_must_alloc(ce_shard_pieces_room(engine->shards[i]));
        int count = ce_shard_held_pieces(engine->shards[i], pieces);
        const cs_unit *unit = engine->model->units[i];
        for (int at = 0; at < unit->entry_count; at++) {
            for (int p = 0; p < count; p++) {
                cs_tensor master = cs_vector(pieces[p].master, pieces[p].dtype, ce_shard_span(&pieces[p]));
                for (int64_t e = pieces[p].range.from; e < pieces[p].range.to && pieces[p].entry == unit->entries[at];
                     e++)
                    compare(j, cs_rank(engine), &value[pieces_whole(&pieces[p], e)],
                            cs_element(master, pieces_index(&pieces[p], e)));
            }
            value += ce_cut_count(&unit->entries[at]->cut);
        }
    }
    ck_assert_int_le(value - j->whole->value, VALUES);
}

/* Returns the place in the whole parameter of element number `element` of the local parameter. */
static int64_t place_of(const cs_param_part *part, int64_t element)
{
    int64_t width = part->local.dims > 1 ? part->local.shape[1] : 1;
    int64_t columns = part->shape.dims > 1 ? part->shape.shape[1] : 1, row = element / width, column = element % width;
    for (int i = 0; i < part->boxes; i++) {
        const cs_param_box *box = &part->box[i];
        bool below = part->boxes > 1 && box->columns == columns;
        if (row < box->rows && column < box->columns)
            return (box->row + row) * columns + box->column + column;
        row -= below ? box->rows : 0;
        column -= below ? 0 : box->columns;
    }
    return VALUES; /* no box has the element */
}

/* Compares the values of the compute type, which is fp32 here. */
static void compare_local(job *j, cs_engine *engine)
{
    float *value = j->whole->value;
    for (int64_t i = 0; i < cs_param_count(engine); i++) {
        cs_param_part part;
        CS_MUST(cs_param_local(engine, cs_param_name(engine, i), &part));
        int64_t held = 0;
        for (int b = 0; b < part.boxes; b++)
            held += part.box[b].rows * part.box[b].columns;
        j->whole->wrong[cs_rank(engine)] += held != cs_count(part.local);
        for (int64_t e = part.from; e < part.to; e++)
            compare(j, cs_rank(engine), &value[place_of(&part, e)], ((const float *)part.data)[e - part.from]);
        value += cs_count(part.shape);
    }
}

static int run(void *argument)
{
    job *j = argument;
    cs_engine *engine = run_open(&j->spec, NULL);
    compare_pieces(j, engine);
    if (strcmp(j->spec.precision, "fp32") == 0)
        compare_local(j, engine);
    if (j->export) {
        run_step(engine, &j->spec); /* so the folder's values are not the initial values */
        CS_MUST(cs_save_checkpoint(engine, "out", "t", NULL));
        CS_MUST(cs_finish_checkpoint(engine));
        CS_MUST(cs_export(engine, "out", "t", j->export));
    }
    cs_destroy(engine);
    return 0;
}

/* Runs on `ranks` ranks with tensor parallelism over `tp` of them. */
static void look(job *j, int ranks, int tp, int stage)
{
    char mesh[64];
    snprintf(mesh, sizeof mesh, "cspeed.mesh.tp=%d", tp);
    j->spec.world = ranks;
    j->spec.stage = stage;
    j->spec.set[1] = mesh;
    memset(j->whole->compared, 0, sizeof j->whole->compared);
    memset(j->whole->wrong, 0, sizeof j->whole->wrong);
    run_ranks(ranks, run, j);
    for (int rank = 0; rank < ranks; rank++) {
        ck_assert_int_gt(j->whole->compared[rank], 0);
        ck_assert_msg(j->whole->wrong[rank] == 0, "%s, %d ranks, tp %d, stage %d: rank %d has %d wrong values",
                      j->spec.set[0], ranks, tp, stage, rank, (int)j->whole->wrong[rank]);
    }
}

static void every_layout_has(const char *model, const char *precision, const char *more, const char *export)
{
    job j = { .spec = { .steps = 1, .micro = 2, .precision = precision, .set = { model, NULL, more } },
              .first = true,
              .export = export,
              .whole = run_share(sizeof(whole_values)) };
    look(&j, 1, 1, 0);
    j.first = false;
    j.export = NULL;
    look(&j, 2, 1, 3);
    look(&j, 2, 2, 0);
    look(&j, 4, 4, 1);
    look(&j, 4, 2, 3);
    run_unshare(j.whole, sizeof(whole_values));
}

/* The first run exports the model after a step, and a later run exports adapters; the runs after them read the folders. */
static void folder_has(const char *model)
{
    shell_enter();
    every_layout_has(model, "fp32", NULL, "folder");
    every_layout_has("cspeed.model=\"folder\"", "fp32", NULL, NULL);
    every_layout_has("cspeed.model=\"folder\"", "bf16", LORA, NULL);
    every_layout_has("cspeed.model=\"folder\"", "fp32", DORA, "adapters");
    every_layout_has("cspeed.model=\"folder\"", "fp32", "cspeed.lora={\"adapter\": \"adapters\"}", NULL);
    shell_leave();
}

START_TEST(a_llama_has_the_same_values_in_every_layout)
{
    folder_has(LLAMA);
}
END_TEST

START_TEST(a_gpt2_has_the_same_values_in_every_layout)
{
    folder_has(GPT2);
}
END_TEST

SUITE_MAIN("cut_values", a_llama_has_the_same_values_in_every_layout, a_gpt2_has_the_same_values_in_every_layout)
