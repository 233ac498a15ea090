/* test_copies.c - the ranks of a tensor-parallel group must read the same samples and hold equal copies, of masters and of
 * optimizer state too; if they do not, the training ends. */
#include "runs.h"
#include "suite.h"
#include "core/engine.h"

#include <string.h>

static const run_spec spec = { .world = 2,
                               .stage = 1,
                               .steps = 2,
                               .micro = 2,
                               .precision = "fp32",
                               .set = { "cspeed.mesh.tp=2", "cspeed.mesh.check_interval=1" } };

/* What changes on the second rank of each lane: a weight, its master or a slot of its optimizer state. */
typedef enum { WEIGHT, MASTER, SLOT } changed;

/* Changes the last bit of an element of ln_f.weight, of which all ranks of a lane have a copy. */
static void change(cs_engine *engine, changed what)
{
    static const char name[] = "transformer.ln_f.weight";
    ce_shard_piece pieces[32];
    cs_param_part weight;
    int count = ce_shard_held_pieces(engine->shards[engine->model->count - 1], pieces);
    CS_MUST(cs_param_local(engine, name, &weight));
    if (what == WEIGHT && weight.to > weight.from)
        *(char *)weight.data ^= 1;
    for (int i = 0; i < count && what != WEIGHT; i++)
        if (strcmp(pieces[i].entry->full_name, name) == 0)
            *(char *)(what == MASTER ? pieces[i].master : pieces[i].slots[1]) ^= 1;
}

typedef struct {
    run_spec spec;
    changed what;
} drift;

static int changes_a_copy(void *argument)
{
    const drift *job = argument;
    cs_engine *engine = run_open(&job->spec, NULL);
    run_step(engine, &job->spec);
    if (engine->mesh.own[CE_AXIS_TP] == 1)
        change(engine, job->what);
    run_step(engine, &job->spec);
    cs_destroy(engine);
    return 0;
}

static int reads_another_sample(void *argument)
{
    cs_engine *engine = run_open(&spec, NULL);
    cs_batch batch = run_batch(engine, &spec, 0);
    (void)argument;
    *(int32_t *)batch.inputs.data ^= cs_rank(engine);
    cs_forward(engine, &batch);
    cs_destroy(engine);
    return 0;
}

static void ends(int world, int (*rank)(void *argument), void *argument)
{
    ck_assert_int_ne(cs_spawn(world, rank, argument), CS_OK);
    ck_assert_msg(strstr(cs_error(), "76") != NULL, "%s", cs_error());
}

/* In bf16 a master can change without its value. With hybrid sharding the ranks with the same part have a share of it. */
START_TEST(a_changed_copy_ends_the_training)
{
    for (changed what = WEIGHT; what <= SLOT; what++) {
        drift job = { spec, what };
        job.spec.precision = what == SLOT ? "fp32" : "bf16";
        ends(job.spec.world, changes_a_copy, &job);
        job.spec.world = 8;
        job.spec.stage = 3;
        job.spec.set[2] = "zero_optimization.mics_shard_size=2";
        ends(job.spec.world, changes_a_copy, &job);
    }
}
END_TEST

START_TEST(another_sample_ends_the_training)
{
    ends(spec.world, reads_another_sample, NULL);
}
END_TEST

SUITE_MAIN("copies", a_changed_copy_ends_the_training, another_sample_ends_the_training)
