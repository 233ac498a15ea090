/* test_together.c - training on a GPU with a combination of features: fp16 with a loss scale that overflows, rises and
 * overflows again; gradient accumulation over two micro-batches; attention by cuDNN, on the emulated GPU by the fake
 * cuDNN; CUDA graphs. Results must not depend on graphs, nor on reading a step's metrics before the end. */
#include "near.h"
#include "runs.h"
#include "shell.h"
#include "suite.h"

#include "base/must.h"
#include "core/engine.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAKE CS_BIN "/libcudnn_emulated.so"

enum { STEPS = 12, MICROS = 2, OPENED = 4 };

typedef struct {
    run_spec spec;
    /* with graphs: the engine is saved, closed and opened again after each of the first OPENED steps, and each of these
     * steps overflows */
    bool resumed;
    bool saved; /* with graphs: saved in the background at every third step */
    bool asked; /* metrics are read at every third step */
} course;

typedef struct {
    uint32_t masters, slots;
    int attentions; /* number of attentions that cuDNN ran */
    int64_t updates, scheduled;
    double output;
    cs_metrics last;
    near_launches of_last;
} outcome;

typedef struct {
    const course *course;
    bool graphs;
    outcome *of; /* one for each rank */
} order;

/* Returns how many attentions the fake cuDNN has run, or 0 if the module is not the emulated one. */
static int attentions(void)
{
    int (*count)(void);
    if (!near_counts())
        return 0;
    void *library = dlopen(FAKE, RTLD_LAZY | RTLD_LOCAL);
    *(void **)&count = library ? dlsym(library, "emulator_cudnn_runs") : NULL;
    if (!count)
        abort();
    int runs = count();
    dlclose(library);
    return runs;
}

static cs_engine *reopen(cs_engine *engine, const course *on)
{
    CS_MUST(cs_save_checkpoint(engine, "kept", NULL, NULL));
    cs_destroy(engine);
    engine = run_open(&on->spec, NULL);
    CS_MUST(cs_load_checkpoint(engine, "kept", NULL, NULL, NULL));
    return engine;
}

static void between(cs_engine *engine, const course *on, outcome *own)
{
    cs_batch batch = run_batch(engine, &on->spec, 0);
    cs_tensor output;
    if (on->saved)
        CS_MUST(cs_save_checkpoint(engine, "beside", NULL, NULL));
    if (!on->asked)
        return;
    CS_MUST(cs_predict(engine, &batch, &output));
    own->output += (double)cs_element(output, 7);
}

static int run_rank(void *argument)
{
    const order *job = argument;
    const course *on = job->course;
    cs_engine *engine = run_open(&on->spec, NULL);
    outcome *own = &job->of[cs_rank(engine)];
    int before = attentions();
    for (int step = 0; step < STEPS; step++) {
        near_launches then = near_launched();
        run_step(engine, &on->spec);
        own->of_last = near_since(then);
        if (!job->graphs)
            own->last = cs_last_step(engine);
        if (on->resumed && step < OPENED)
            engine = reopen(engine, on);
        if (step % 3 == 0)
            between(engine, on, own);
    }
    own->last = cs_last_step(engine);
    own->attentions = attentions() - before;
    own->updates = engine->updates;
    own->scheduled = engine->scheduled;
    own->masters = run_masters(engine);
    own->slots = run_slots(engine);
    cs_destroy(engine);
    return 0;
}

static void go(const course *on, bool graphs, outcome *of)
{
    const char *sets[] = { "cspeed.device=cuda",
                           "fp16.initial_scale_power=21",
                           "fp16.loss_scale_window=2",
                           "steps_per_print=1000",
                           "cspeed.model.n_head=3",
                           "cspeed.model.attn_pdrop=0",
                           on->saved ? "cspeed.async_save=true" : "cspeed.async_save=false",
                           graphs ? "cspeed.cuda_graphs=true" : NULL };
    course own = *on;
    outcome *shared = run_share(RUN_RANKS * sizeof *shared);
    memcpy(own.spec.set, sets, sizeof sets);
    own.resumed &= graphs, own.saved &= graphs;
    own.spec.steps = STEPS, own.spec.accumulation = MICROS, own.spec.precision = "fp16", own.spec.dropout = 0.1;
    shell_enter();
    run_ranks(own.spec.world, run_rank, &(order){ &own, graphs, shared });
    shell_leave();
    memcpy(of, shared, RUN_RANKS * sizeof *shared);
    run_unshare(shared, RUN_RANKS * sizeof *shared);
}

static void same(const outcome *a, const outcome *b, const char *what)
{
    const cs_metrics *m = &a->last, *n = &b->last;
    ck_assert_msg(a->masters == b->masters && a->slots == b->slots, "%s: other parameters", what);
    ck_assert_msg(m->loss == n->loss && m->grad_norm == n->grad_norm && a->output == b->output, "%s: other numbers",
                  what);
    ck_assert_msg(m->skipped == n->skipped && m->loss_scale == n->loss_scale && m->tokens == n->tokens &&
                      m->step == n->step && m->learning_rate == n->learning_rate,
                  "%s: %lld and %lld skipped, scales %g and %g", what, (long long)m->skipped, (long long)n->skipped,
                  m->loss_scale, n->loss_scale);
}

/* Checks that the run skipped some steps, applied others, and used cuDNN where attentions are counted; otherwise the
 * comparison would prove nothing. */
static void check_course(const outcome *of, const char *what)
{
    ck_assert_msg(of->last.skipped > OPENED && of->last.skipped < STEPS - 2, "%s: %lld of %d steps are skipped", what,
                  (long long)of->last.skipped, STEPS);
    ck_assert_int_eq(of->updates, STEPS - of->last.skipped);
    ck_assert_int_eq(of->scheduled, STEPS - of->last.skipped);
    ck_assert_msg(isfinite(of->last.loss) && of->last.step == STEPS, "%s: loss %g", what, of->last.loss);
    ck_assert_msg(of->attentions >= STEPS * MICROS * 3 * 2 || !near_counts(), "%s: cuDNN ran %d attentions", what,
                  of->attentions);
}

static void compare(const course *on, const char *what)
{
    outcome plain[RUN_RANKS], graphs[RUN_RANKS];
    go(on, false, plain);
    /* with this order of execution, a missing edge in a graph gives a wrong result */
    setenv("CSPEED_EMULATOR_ORDER", "reverse", 1);
    go(on, true, graphs);
    unsetenv("CSPEED_EMULATOR_ORDER");
    for (int rank = 0; rank < on->spec.world; rank++) {
        check_course(&plain[rank], what);
        same(&plain[rank], &graphs[rank], what);
        if (!near_counts())
            continue;
        ck_assert_int_gt(graphs[rank].attentions, 0);
        ck_assert_int_lt(graphs[rank].attentions, plain[rank].attentions);
        ck_assert_uint_eq(plain[rank].of_last.graphs, 0);
        ck_assert_uint_eq(graphs[rank].of_last.graphs, 2 * MICROS);
    }
}

static void compare_all(const char *where, int world, const course *courses, size_t count)
{
    if (!near_gpus(where, world))
        return;
    if (near_counts() && access(FAKE, R_OK) != 0) {
        printf("%s: skipped, the fake cuDNN is not built\n", where);
        return;
    }
    if (near_counts())
        setenv("CSPEED_CUDNN", FAKE, 1);
    for (size_t i = 0; i < count; i++) {
        course on = courses[i];
        char what[64];
        on.spec.world = world;
        snprintf(what, sizeof what, "%s, course %zu", where, i);
        compare(&on, what);
    }
}

#define PROFILED "\"flops_profiler\": { \"enabled\": true, \"profile_step\": 7, \"output_file\": \"profile.txt\" },"
#define TIMED "\"wall_clock_breakdown\": true,"

static const course courses[] = {
    { .spec = { .stage = 0 }, .resumed = true },
    { .spec = { .stage = 1, .recompute = "unit", .more = TIMED }, .asked = true },
    { .spec = { .stage = 2, .masked = true }, .saved = true },
    { .spec = { .stage = 3, .prefetch = 1, .recompute = "unit" }, .resumed = true, .asked = true },
    { .spec = { .stage = 3, .prefetch = 2, .more = PROFILED }, .saved = true },
};

START_TEST(one_rank_has_the_same_bits)
{
    compare_all("together alone", 1, courses, sizeof courses / sizeof *courses);
}
END_TEST

START_TEST(nccl_ranks_have_the_same_bits)
{
    compare_all("together over NCCL", 2, courses, sizeof courses / sizeof *courses);
}
END_TEST

SUITE_MAIN_APART("together", one_rank_has_the_same_bits, nccl_ranks_have_the_same_bits)
