/* test_copies.c - the ranks of a tensor-parallel group must read the same samples and hold equal copies; if they do not,
 * the training ends. */
#include "runs.h"
#include "suite.h"

#include <string.h>

static const run_spec spec = { .world = 2,
                               .stage = 1,
                               .steps = 2,
                               .micro = 2,
                               .precision = "fp32",
                               .set = { "cspeed.mesh.tp=2", "cspeed.mesh.check_interval=1" } };

/* Changes the last bit of a weight of which both ranks have a copy. */
static int changes_a_copy(void *argument)
{
    cs_engine *engine = run_open(&spec, NULL);
    cs_param_part part;
    run_step(engine, &spec);
    CS_MUST(cs_param_local(engine, argument, &part));
    if (cs_rank(engine) == 1)
        *(char *)part.data ^= 1;
    run_step(engine, &spec);
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

static void ends(int (*rank)(void *argument), const char *name)
{
    ck_assert_int_ne(cs_spawn(spec.world, rank, (void *)(uintptr_t)name), CS_OK);
    ck_assert_msg(strstr(cs_error(), "76") != NULL, "%s", cs_error());
}

START_TEST(a_changed_copy_ends_the_training)
{
    ends(changes_a_copy, "transformer.ln_f.weight");
}
END_TEST

START_TEST(another_sample_ends_the_training)
{
    ends(reads_another_sample, NULL);
}
END_TEST

SUITE_MAIN("copies", a_changed_copy_ends_the_training, another_sample_ends_the_training)
