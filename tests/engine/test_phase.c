/* test_phase.c - calls in a wrong order, and batches of a wrong shape, end the process with a message, as errors of the
 * calling program. */
#include "suite.h"
#include "runs.h"
#include "shell.h"

#include <stdio.h>
#include <string.h>

static const run_spec spec = {
    .world = 1, .stage = 1, .steps = 1, .micro = 2, .accumulation = 1, .precision = "fp32", .recompute = "none"
};

static const struct {
    const char *calls; /* F cs_forward, B cs_backward, S cs_step, P cs_predict, N cs_forward with too narrow a batch */
    const char *words; /* NULL: the order is allowed */
} orders[] = {
    { "FBSFBS", NULL },
    { "FBSPFBS", NULL },
    { "B", "cs_backward was called, and cs_forward must be called next:" },
    { "S", "cs_step was called, and cs_forward must be called next:" },
    { "FF", "cs_forward was called, and cs_backward must be called next:" },
    { "FS", "cs_step was called, and cs_backward must be called next:" },
    { "FBF", "cs_forward was called, and cs_step must be called next:" },
    { "FP", "cs_predict was called, and cs_backward must be called next:" },
    { "FBSN", "cs_forward: inputs must be CS_I32 (2, 12)" },
};

static void call(cs_engine *engine, char verb)
{
    cs_batch batch = run_batch(engine, &spec, 0);
    cs_tensor output;
    if (verb == 'N')
        batch.inputs.shape[1]--;
    if (verb == 'F' || verb == 'N')
        cs_forward(engine, &batch);
    else if (verb == 'B')
        cs_backward(engine);
    else if (verb == 'S')
        cs_step(engine);
    else
        CS_MUST(cs_predict(engine, &batch, &output));
}

static int call_all(void *argument)
{
    cs_engine *engine = run_open(&spec, NULL);
    if (!freopen("stderr.txt", "w", stderr))
        return 1;
    for (const char *verb = argument; *verb; verb++)
        call(engine, *verb);
    cs_destroy(engine);
    return 0;
}

static void check(const char *calls, const char *words)
{
    shell_enter();
    cs_status status = cs_spawn(1, call_all, (void *)(uintptr_t)calls);
    char *said = shell_read("stderr.txt", NULL);
    ck_assert_msg(status == (words ? CS_MISUSE : CS_OK), "%s: %s; %s", calls, cs_error(), said);
    ck_assert_msg(!words || strstr(cs_error(), "ended with code 70"), "%s: %s", calls, cs_error());
    ck_assert_msg(!words || strstr(said, words), "%s: %s", calls, said);
    free(said);
    shell_leave();
}

START_TEST(a_wrong_order_is_an_error_of_the_program)
{
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        check(orders[i].calls, orders[i].words);
}
END_TEST

SUITE_MAIN("phase", a_wrong_order_is_an_error_of_the_program)
