/* test_stall_train.c - a training with tensor parallelism, one of whose ranks is stopped by SIGSTOP: the report names the
 * unit that the ranks compute, the micro-batch, and the axis of the collective in which they wait. */
#include "shell.h"
#include "suite.h"

#include <signal.h>
#include <unistd.h>

enum { TRIES = 20, STALLED = 125 };

static const char config_text[] =
    "{ \"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": 4,\n"
    "  \"optimizer\": { \"type\": \"SGD\", \"params\": { \"lr\": 1e-2 } },\n"
    "  \"cspeed\": { \"device\": \"cpu\", \"threads\": 1, \"eval_interval\": 0, \"save_interval\": 0, \"output\": \"out\",\n"
    "    \"steps\": 1000000, \"mesh\": { \"tp\": 2 }, \"data\": { \"train\": \"song.txt\", \"seq_len\": 16 },\n"
    "    \"model\": { \"model_type\": \"llama\", \"num_hidden_layers\": 2, \"num_attention_heads\": 2,\n"
    "               \"num_key_value_heads\": 2, \"hidden_size\": 16, \"intermediate_size\": 32, \"vocab_size\": 257,\n"
    "               \"max_position_embeddings\": 16 } } }\n";

/* Stops rank 1 at any moment of the training, waits for the report, and returns it as text. */
static char *stall(const char *mark)
{
    pid_t job = shell_start("env MARK=%s '%s/cspeed' --oversubscribe --num_gpus 2 --grace 1 --stall_timeout 2 "
                            "--stall_action kill train --config config.json --fresh 2>&1",
                            mark, CS_BIN);
    shell_await("grep -q 'step 1/' out.txt");
    pid_t rank = shell_find_rank(mark, 1, "train");
    ck_assert_int_gt(rank, 0);
    ck_assert_int_eq(kill(rank, SIGSTOP), 0);
    ck_assert_int_eq(shell_wait(job), STALLED);
    shell_await_left(mark, 0);
    return shell_read("out.txt", NULL);
}

/* The moment of SIGSTOP is not chosen, so the rank may also be between two phases; then the training is started again. */
START_TEST(the_report_names_unit_and_axis)
{
    char mark[64], *text = NULL;
    bool named = false;
    snprintf(mark, sizeof mark, "stall-train-%d", (int)getpid());
    shell_enter();
    shell_write("config.json", config_text);
    ck_assert_int_eq(shell_run("seq 2000 >song.txt"), 0);
    for (int i = 0; i < TRIES && !named; i++) {
        free(text);
        text = stall(mark);
        ck_assert_msg(strstr(text, "its process is stopped (SIGSTOP") != NULL, "%s", text);
        named = strstr(text, " of unit ") && strstr(text, " (model.layers.") && strstr(text, "), micro-batch ") &&
                strstr(text, ", waiting in all_reduce (tp)");
    }
    ck_assert_msg(named, "%s", text);
    free(text);
    shell_leave();
}
END_TEST

SUITE_MAIN("stall_train", the_report_names_unit_and_axis)
