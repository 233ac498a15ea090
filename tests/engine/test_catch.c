/* test_catch.c - errors of a step as statuses (cs_try_forward), hooks for fatal errors and for lines of output, and arguments
 * that are NULL. */
#include "cspeed/comm.h"
#include "cspeed/layer.h"
#include "endings.h"
#include "runs.h"
#include "suite.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const run_spec spec = {
    .world = 1, .stage = 3, .steps = 2, .micro = 4, .accumulation = 1, .precision = "fp32", .recompute = "none"
};

/* A batch with a token that is not in the vocabulary. */
static cs_batch wrong_batch(const cs_engine *engine, int32_t tokens[4 * RUN_LENGTH])
{
    cs_batch batch = run_batch(engine, &spec, 0);
    memcpy(tokens, batch.inputs.data, 4 * RUN_LENGTH * sizeof *tokens);
    tokens[17] = RUN_VOCABULARY;
    batch.inputs.data = tokens;
    return batch;
}

static const char *const wrong_token = "forward: cs_op_embed: the token of row 17 is 61, and 0 to 60 are possible";

/* ---- statuses ---- */

static double loss_of_a_step(void)
{
    cs_engine *engine = run_open(&spec, NULL);
    cs_batch batch = run_batch(engine, &spec, 0);
    bool stepped = false;
    ck_assert_int_eq(cs_try_forward(engine, &batch), CS_OK);
    ck_assert_int_eq(cs_try_backward(engine), CS_OK);
    ck_assert_int_eq(cs_try_step(engine, &stepped), CS_OK);
    ck_assert(stepped);
    double loss = cs_last_step(engine).loss;
    cs_destroy(engine);
    return loss;
}

START_TEST(a_fatal_error_of_a_step_is_a_status)
{
    double before = loss_of_a_step();
    int32_t tokens[4 * RUN_LENGTH];
    cs_engine *engine = run_open(&spec, NULL);
    cs_batch wrong = wrong_batch(engine, tokens);
    ck_assert_int_eq(cs_try_forward(engine, &wrong), CS_MISUSE);
    ck_assert_msg(strstr(cs_error(), wrong_token), "%s", cs_error());
    ck_assert_int_eq(cs_try_backward(engine), CS_MISUSE);
    ck_assert_msg(strstr(cs_error(), "this engine can only be destroyed"), "%s", cs_error());
    cs_destroy(engine);
    engine = run_open(&spec, NULL);
    ck_assert_int_eq(cs_try_backward(engine), CS_MISUSE);
    ck_assert_msg(strstr(cs_error(), "cs_backward was called, and cs_forward must be called next"), "%s", cs_error());
    cs_destroy(engine);
    ck_assert(loss_of_a_step() == before);
}
END_TEST

/* ---- hooks ---- */

static char fatal_sentence[512];
static jmp_buf left;

static void leave(cs_status status, const char *sentence, void *argument)
{
    ck_assert_ptr_eq(argument, fatal_sentence);
    ck_assert_int_eq(status, CS_MISUSE);
    snprintf(fatal_sentence, sizeof fatal_sentence, "%s", sentence);
    longjmp(left, 1);
}

START_TEST(a_hook_may_leave_a_fatal_error)
{
    static cs_engine *engine;
    static int32_t tokens[4 * RUN_LENGTH];
    engine = run_open(&spec, NULL);
    cs_on_fatal(leave, fatal_sentence);
    if (setjmp(left) == 0) {
        cs_batch wrong = wrong_batch(engine, tokens);
        cs_forward(engine, &wrong);
        ck_abort_msg("cs_forward has returned");
    }
    cs_on_fatal(NULL, NULL);
    ck_assert_msg(strstr(fatal_sentence, wrong_token), "%s", fatal_sentence);
    cs_destroy(engine);
}
END_TEST

static void say_and_return(cs_status status, const char *sentence, void *argument)
{
    (void)sentence, (void)argument;
    fprintf(stderr, "the hook got status %d\n", (int)status);
}

static void play_returning_hook(const void *scene, int index)
{
    (void)scene, (void)index;
    cs_on_fatal(say_and_return, NULL);
    cs_forward(NULL, NULL);
}

START_TEST(a_hook_that_returns_ends_the_process)
{
    ending end;
    endings_perform(&end, 1, play_returning_hook, NULL);
    endings_expect(&end, 70, "the hook got status 11");
    endings_expect(&end, 70, "cs_forward: engine is NULL");
}
END_TEST

static struct {
    int output, info;
    bool precision;
} lines;

static void count_line(cs_log_level level, const char *line, void *argument)
{
    ck_assert_ptr_eq(argument, &lines);
    ck_assert_ptr_null(strchr(line, '\n'));
    lines.output += level == CS_LOG_OUTPUT;
    lines.info += level == CS_LOG_INFO;
    lines.precision |= strncmp(line, "precision:", 10) == 0;
}

START_TEST(a_hook_gets_the_lines)
{
    cs_on_log(count_line, &lines);
    loss_of_a_step();
    cs_on_log(NULL, NULL);
    int info = lines.info;
    ck_assert(lines.precision && info > 0);
    loss_of_a_step();
    ck_assert_int_eq(lines.info, info);
}
END_TEST

/* ---- NULL ---- */

static cs_engine *engine_of(void)
{
    static cs_engine *engine;
    return engine ? engine : (engine = run_open(&spec, NULL));
}

static void play_null(const void *scene, int index)
{
    cs_batch batch = { 0 };
    cs_tensor none = { 0 };
    cs_linear linear = { 0 };
    cs_metrics metrics;
    (void)index;
    switch (*(const int *)scene) {
    case 0:
        cs_forward(engine_of(), NULL);
        break;
    case 1:
        cs_backward(NULL);
        break;
    case 2:
        cs_step(NULL);
        break;
    case 3:
        metrics = cs_last_step(NULL);
        (void)metrics;
        break;
    case 4:
        cs_rank(NULL);
        break;
    case 5:
        endings_must(cs_config_open(NULL, "{}"));
        break;
    case 6:
        endings_must(cs_config_open(&(cs_config *){ 0 }, NULL));
        break;
    case 7:
        endings_must(cs_initialize(&(cs_engine *){ 0 }, NULL, NULL));
        break;
    case 8:
        endings_must(cs_save_checkpoint(engine_of(), NULL, NULL, NULL));
        break;
    case 9:
        endings_must(cs_data_open(&(cs_data *){ 0 }, engine_of(), NULL));
        break;
    case 10:
        cs_data_next(NULL);
        break;
    case 11:
        endings_must(cs_evaluate(engine_of(), NULL, 0, &(double){ 0 }));
        break;
    case 12:
        endings_must(cs_predict(engine_of(), NULL, &none));
        break;
    case 13:
        endings_must(cs_param_read(engine_of(), "wte.weight", NULL));
        break;
    case 14:
        cs_config_get_int(NULL, "cspeed.steps");
        break;
    case 15:
        endings_must(cs_model_new(NULL, 4));
        break;
    case 16:
        cs_model_add(NULL, NULL, "u", NULL);
        break;
    case 17:
        cs_unit_self(NULL, 8);
        break;
    case 18:
        cs_pass_stream(NULL);
        break;
    case 19:
        cs_linear_forward(&linear, NULL, none);
        break;
    case 20:
        cs_comm_barrier(NULL);
        break;
    case 21:
        endings_must(cs_comm_open(NULL, NULL, NULL));
        break;
    case 22:
        endings_must(cs_check_gradients(engine_of(), NULL, 1e-3));
        break;
    case 23:
        endings_must(cs_try_forward(NULL, &batch));
        break;
    default:
        cs_context_count(NULL);
    }
}

START_TEST(a_null_argument_is_a_sentence)
{
    static const char *const says[] = {
        "cs_forward: batch is NULL",         "cs_backward: engine is NULL",       "cs_step: engine is NULL",
        "cs_last_step: engine is NULL",      "cs_rank: engine is NULL",           "cs_config_open: config is NULL",
        "cs_config_open: path is NULL",      "cs_initialize: config is NULL",     "cs_save_checkpoint: dir is NULL",
        "cs_data_open: split is NULL",       "cs_data_next: data is NULL",        "cs_evaluate: data is NULL",
        "cs_predict: batch is NULL",         "cs_param_read: to is NULL",         "cs_config_get_int: config is NULL",
        "cs_model_new: model is NULL",       "cs_model_add: model is NULL",       "cs_unit_self: unit is NULL",
        "cs_pass_stream: pass is NULL",      "cs_linear_forward: pass is NULL",   "cs_comm_barrier: comm is NULL",
        "cs_comm_open: comm is NULL",        "cs_check_gradients: batch is NULL", "cs_try_forward: engine is NULL",
        "cs_context_count: context is NULL",
    };
    for (int i = 0; i < (int)(sizeof says / sizeof *says); i++) {
        ending end;
        endings_perform(&end, 1, play_null, &i);
        endings_expect(&end, 70, says[i]);
    }
}
END_TEST

SUITE_MAIN("catch", a_fatal_error_of_a_step_is_a_status, a_hook_may_leave_a_fatal_error,
           a_hook_that_returns_ends_the_process, a_hook_gets_the_lines, a_null_argument_is_a_sentence)
