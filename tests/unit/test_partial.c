/* test_partial.c - a layer that forgets to add up the terms of its ranks, adds them up twice, or adds up what is whole,
 * ends the dry run with the name of the matrix. Each call of ce_pass_sum_rows of a model is left out in turn (the linker's
 * --wrap). */
#include "core/engine.h"
#include "endings.h"
#include "suite.h"
#include "unit/pass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

cs_tensor __real_ce_pass_sum_rows(cs_pass *pass, cs_tensor y);
cs_tensor __wrap_ce_pass_sum_rows(cs_pass *pass, cs_tensor y);

static int calls, left_out = -1, twice = -1;

cs_tensor __wrap_ce_pass_sum_rows(cs_pass *pass, cs_tensor y)
{
    int number = calls++;
    if (number == left_out)
        return ce_pass_cuts_rows(pass) ? cs_pass_make(pass, y.dtype, ce_pass_rows(pass), cs_columns(y)) : y;
    cs_tensor own = __real_ce_pass_sum_rows(pass, y);
    if (number == twice)
        ce_pass_sum(pass, y);
    return own;
}

static const char config[] =
    "{\"train_micro_batch_size_per_gpu\": 2, \"cspeed\": {\"device\": \"cpu\", \"data\": {\"seq_len\": 8}, \"mesh\": "
    "{\"tp\": 2, \"sequence\": %s}, \"model\": {\"model_type\": \"%s\", \"num_hidden_layers\": 1, \"num_attention_heads\": "
    "2, \"num_key_value_heads\": 2, \"hidden_size\": 16, \"intermediate_size\": 32, \"max_position_embeddings\": 16, "
    "\"vocab_size\": 61, \"num_local_experts\": 2, \"num_experts_per_tok\": 1}}}";

typedef struct {
    const char *family;
    bool sequence;
    int left_out, twice;
} scene;

static void estimate(const void *given, int index)
{
    const scene *s = given;
    char path[] = "/tmp/cspeed-partial-XXXXXX";
    cs_config *opened;
    cs_memory memory[2];
    int64_t parameters;
    (void)index;
    FILE *file = fdopen(mkstemp(path), "w");
    fprintf(file, config, s->sequence ? "true" : "false", s->family);
    fclose(file);
    cs_status status = cs_config_open(&opened, path);
    unlink(path);
    endings_must(status);
    cs_config_lenient(opened);
    cs_config_for_world(opened, 2, 2);
    calls = 0;
    left_out = s->left_out;
    twice = s->twice;
    endings_must(cs_estimate(opened, memory, &parameters));
    _exit(calls > s->left_out && calls > s->twice ? 0 : 99); /* 99: the model has no such call */
}

static int check(const char *family, bool sequence)
{
    for (int i = -1;; i++) {
        scene out = { family, sequence, i, -1 }, again = { family, sequence, -1, i };
        ending end;
        endings_perform(&end, 1, estimate, &out);
        if (end.code == 99)
            return i;
        if (i >= 0) {
            endings_expect(&end, 70, "has only the terms of one of 2 ranks");
            ck_assert_msg(strstr(end.said, ".weight") || strstr(end.said, "experts."), "%s", end.said);
            endings_perform(&end, 1, estimate, &again);
            endings_expect(&end, 70, "is added up over 2 ranks, and no layer has said that it has only the terms");
        } else {
            endings_expect(&end, 0, NULL);
        }
    }
}

START_TEST(a_forgotten_sum_is_named)
{
    ck_assert_int_ge(check("llama", false), 5);
    ck_assert_int_ge(check("llama", true), 5);
    ck_assert_int_ge(check("mixtral", false), 5);
    ck_assert_int_ge(check("gpt_neox", false), 3);
}
END_TEST

SUITE_MAIN("partial", a_forgotten_sum_is_named)
