/* test_worlds.c - resuming at another world size, stage or type. The tried combinations cover all pairs of values. The
 * loaded state is bitwise equal, and the next losses are equal too if the order of summation is the same. */
#include "pieces.h"
#include "runs.h"
#include "shell.h"
#include "suite.h"

#include "base/must.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAVED_AT = 3, ON = 2, BATCH = 84 }; /* 84 windows in each step, which worlds of 1, 2, 3, 4 and 7 divide evenly */

static const int worlds[] = { 1, 2, 3, 4, 7 };
static const char *const types[] = { "fp32", "bf16", "fp16" };
enum { WORLDS = 5, STAGES = 4, TYPES = 3 };

typedef struct {
    /* Checksum of all master weights and optimizer slots in the order of names, whichever rank holds them. */
    uint32_t state;
    double loss[ON];
} outcome;

typedef struct {
    run_spec spec;
    bool saves;
    outcome *out; /* in memory that the ranks and the test share */
} job;

/* Adds, for each element, a hash of value, name and position; the sum does not depend on the sharding. */
static void add_piece(uint64_t *sum, const char *name, const ce_shard_piece *piece, const float *data)
{
    uint64_t key = ce_rng_key(7, name);
    for (int64_t at = piece->range.from; at < piece->range.to; at++) {
        uint32_t bits;
        memcpy(&bits, &data[pieces_index(piece, at)], sizeof bits);
        *sum += (bits + 1) * (key ^ ((uint64_t)pieces_whole(piece, at) * 0x9e3779b97f4a7c15u));
    }
}

static uint32_t state_of(cs_engine *engine)
{
    uint64_t sum = 0;
    for (int i = 0; i < engine->model->count; i++) {
        ce_shard_piece pieces[32];
        int count = pieces_take(engine, i, pieces);
        for (int at = 0; at < count; at++) {
            add_piece(&sum, pieces[at].entry->full_name, &pieces[at], pieces[at].master);
            for (int slot = 0; slot < CE_OPTIM_SLOTS && pieces[at].slots[slot]; slot++) {
                char name[256];
                snprintf(name, sizeof name, "%s.%d", pieces[at].entry->full_name, slot);
                add_piece(&sum, name, &pieces[at], pieces[at].slots[slot]);
            }
        }
    }
    /* 56 bits, so that seven of them can be added without overflow */
    int64_t whole = (int64_t)(sum & 0xffffffffffffff);
    cs_comm_all_reduce(engine->comm, &whole, 1, CS_I64, CS_SUM);
    return (uint32_t)whole;
}

static int train(void *argument)
{
    job *j = argument;
    cs_engine *engine = run_open(&j->spec, NULL);
    if (j->saves) {
        for (int step = 0; step < SAVED_AT; step++)
            run_step(engine, &j->spec);
        CS_MUST(cs_save_checkpoint(engine, "out", "t", NULL));
        CS_MUST(cs_finish_checkpoint(engine));
    } else {
        CS_MUST(cs_load_checkpoint(engine, "out", "t", NULL, NULL));
    }
    uint32_t state = state_of(engine);
    for (int step = 0; step < ON; step++) {
        run_step(engine, &j->spec);
        if (cs_rank(engine) == 0)
            j->out->loss[step] = cs_last_step(engine).loss;
    }
    if (cs_rank(engine) == 0)
        j->out->state = state;
    cs_destroy(engine);
    return 0;
}

/* The world in which a training runs. `group`: number of lanes in a group of hybrid sharding; 0: no hybrid sharding. `tp`:
 * number of ranks of a lane, which tensor parallelism uses; 0: one. */
typedef struct {
    int world, stage, type, group, tp;
} place;

static const char *assignment; /* an assignment to a key of the configuration; NULL: none */

static outcome one(place at, bool saves, bool background)
{
    int ranks = worlds[at.world], tp = at.tp ? at.tp : 1, lanes = ranks / tp;
    char group[64], mesh[64];
    job j = { .spec = { .world = ranks,
                        .stage = at.stage,
                        .precision = types[at.type],
                        .steps = SAVED_AT + ON,
                        .micro = BATCH / lanes > 42 ? 42 : BATCH / lanes },
              .saves = saves,
              .out = run_share(sizeof(outcome)) };
    snprintf(group, sizeof group, "zero_optimization.mics_shard_size=%d", at.group);
    snprintf(mesh, sizeof mesh, "cspeed.mesh.tp=%d", tp);
    j.spec.accumulation = BATCH / lanes / j.spec.micro;
    j.spec.set[0] = background ? "cspeed.async_save=true" : "cspeed.async_save=false";
    j.spec.set[1] = group;
    j.spec.set[2] = mesh;
    j.spec.set[3] = assignment;
    run_ranks(ranks, train, &j);
    outcome result = *j.out;
    run_unshare(j.out, sizeof(outcome));
    return result;
}

/* Returns the greatest relative difference of two losses. 16-bit types round sums over ranks, so another order of
 * summation changes the last digits of a loss; another type changes the loss more. */
static double tolerance(int type, int to_type)
{
    return type != to_type ? 1e-2 : type == 0 ? 1e-6 : 1e-3;
}

static void go_on(place from, place to, bool background)
{
    char what[128];
    snprintf(what, sizeof what, "%s, world %d, stage %d, group %d, tp %d to %s, world %d, stage %d, group %d, tp %d",
             types[from.type], worlds[from.world], from.stage, from.group, from.tp, types[to.type], worlds[to.world],
             to.stage, to.group, to.tp);
    outcome saved = one(from, true, background), loaded = one(to, false, false);
    ck_assert_msg(saved.state == loaded.state, "%s: masters or moments differ", what);
    for (int step = 0; step < ON; step++) {
        double gap = fabs(saved.loss[step] - loaded.loss[step]) / saved.loss[step];
        ck_assert_msg(gap <= tolerance(from.type, to.type), "%s: step %d: losses %.9g and %.9g", what, step,
                      saved.loss[step], loaded.loss[step]);
    }
}

/* w, v, and the four sums modulo 5 in the call of go_on are the columns of an orthogonal array: any two columns contain
 * every pair of values. So each world, stage and type of a save occurs together with each world, stage and type of a
 * load. With CSPEED_WORLDS_ALL, all 25 rows run; otherwise only the five rows with k = 2 run. */
START_TEST(every_world_loads_what_every_world_saved)
{
    bool all = getenv("CSPEED_WORLDS_ALL") != NULL;
    shell_enter();
    for (int k = all ? 0 : 2; k < (all ? WORLDS : 3); k++)
        for (int w = 0; w < WORLDS; w++) {
            int v = (w + k) % WORLDS;
            go_on((place){ w, (w + v) % 5 % STAGES, (w + 3 * v) % 5 % TYPES, 0, 0 },
                  (place){ v, (w + 2 * v) % 5 % STAGES, (w + 4 * v) % 5 % TYPES, 0, 0 }, w % 2);
        }
    shell_leave();
}
END_TEST

/* With the same world and stage the results are bitwise equal, whatever the type. */
START_TEST(the_same_world_the_same_bits)
{
    shell_enter();
    for (int type = 0; type < TYPES; type++) {
        place at = { 1, 1 + type, type, 0, 0 };
        outcome saved = one(at, true, true), loaded = one(at, false, false);
        ck_assert_mem_eq(saved.loss, loaded.loss, sizeof saved.loss);
        ck_assert_uint_eq(saved.state, loaded.state);
    }
    shell_leave();
}
END_TEST

/* With hybrid sharding, too, a checkpoint contains each element once. With Muon, some parameters lack a slot, so the
 * ranks' parts of this slot have different lengths. */
START_TEST(groups_and_worlds_load_each_other)
{
    enum { TWO = 1, FOUR = 3 };
    const place grouped = { FOUR, 3, 0, 2, 0 },
                others[] = { { 0, 0, 0, 0, 0 },    { TWO, 2, 0, 0, 0 },  { TWO, 3, 0, 1, 0 },
                             { FOUR, 1, 0, 0, 0 }, { FOUR, 2, 1, 2, 0 }, { FOUR, 3, 0, 2, 0 } };
    shell_enter();
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assignment = i % 2 ? "optimizer={\"type\": \"Muon\", \"params\": {\"lr\": 0.01}}" : NULL;
        go_on(grouped, others[i], i % 2);
        go_on(others[i], grouped, i % 2);
    }
    assignment = NULL;
    shell_leave();
}
END_TEST

#define GQA                                                                                                            \
    "cspeed.model={\"model_type\": \"llama\", \"vocab_size\": 61, \"hidden_size\": 16, \"intermediate_size\": 20, "    \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 8, \"num_key_value_heads\": 2, "                               \
    "\"max_position_embeddings\": 12}"

/* With tensor parallelism, too, a checkpoint contains each element of the whole parameters once. The Llama has fewer key
 * heads than there are ranks in a group of three or four, so some ranks hold copies of them. */
START_TEST(lanes_and_worlds_load_each_other)
{
    enum { ONE, TWO, THREE, FOUR };
    static const place
        lanes[] = { { TWO, 0, 0, 0, 2 }, { FOUR, 3, 0, 0, 2 }, { THREE, 1, 0, 0, 3 }, { FOUR, 2, 1, 0, 4 } },
        others[] = { { ONE, 0, 0, 0, 0 }, { TWO, 3, 0, 0, 0 }, { FOUR, 2, 0, 0, 2 }, { FOUR, 3, 1, 0, 4 } };
    shell_enter();
    for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++)
        for (size_t at = 0; at < sizeof others / sizeof *others; at++) {
            bool llama = lanes[i].tp > 2 || others[at].tp > 2 || i == at;
            assignment = llama ? GQA : NULL;
            if ((i + at) % 2)
                go_on(lanes[i], others[at], at % 2);
            else
                go_on(others[at], lanes[i], i % 2);
        }
    assignment = NULL;
    shell_leave();
}
END_TEST

SUITE_MAIN("worlds", every_world_loads_what_every_world_saved, the_same_world_the_same_bits,
           groups_and_worlds_load_each_other, lanes_and_worlds_load_each_other)
