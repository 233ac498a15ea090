/* test_isa_train.c - the choice of the set of CPU instructions: ranks with different sets use the lowest one, and a
 * wrong CSPEED_CPU_ISA ends the program with exit code 78. */
#include "near.h"
#include "suite.h"
#include "shell.h"
#include "training.h"

#include <stdio.h>

static const char config[] =
    "{ \"train_micro_batch_size_per_gpu\": 2, \"bf16\": { \"enabled\": true },\n"
    "  \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 5e-3 } },\n"
    "  \"cspeed\": { \"steps\": 3, \"seed\": 5, \"output\": \"out\",\n"
    "    \"data\": { \"train\": \"song.txt\", \"seq_len\": 32 },\n"
    "    \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 32,\n"
    "               \"n_positions\": 32, \"vocab_size\": 256 } } }\n";

static char highest[CE_ISA_LIST], list[CE_ISA_LIST];

static void prepare(void)
{
    unsigned available = ce_isa_available();
    snprintf(highest, sizeof highest, "%s", ce_isa_name(ce_isa_highest(available)));
    ce_isa_list(available, list);
    shell_enter();
    shell_write("config.json", config);
    FILE *song = fopen("song.txt", "w");
    for (int i = 0; song && i < 400; i++)
        fprintf(song, "%d green bottles hanging on the wall\n", i * 37 % 101);
    ck_assert(song && fclose(song) == 0);
}

/* Trains with two ranks, each of which first runs the shell commands `environment`. Checks the exit code, and returns
 * the output, which the caller frees. */
static char *train(int code, const char *environment)
{
    int got =
        shell_run("%s/cspeed --num_gpus 2 --oversubscribe run sh -c '%s exec %s/train --config config.json --fresh'",
                  CS_BIN, environment, CS_BIN);
    char *printed = shell_read("out.txt", NULL);
    ck_assert_msg(got == code, "exit code %d, not %d; it printed:\n%s", got, code, printed);
    return printed;
}

static void check_has(const char *printed, const char *words)
{
    ck_assert_msg(strstr(printed, words) != NULL, "not said: %s\n%s", words, printed);
}

/* The weights of rank 1 must have rank 0's bits: at stage 0 every rank updates its own copy. */
START_TEST(ranks_use_the_lowest_set)
{
    char words[256];
    prepare();
    free(train(0, "export CSPEED_CPU_ISA=avx2;"));
    ck_assert_int_eq(shell_run("cp out/metrics.jsonl both.jsonl"), 0);
    char *printed = train(0, "[ $RANK = 0 ] || export CSPEED_CPU_ISA=avx2;");
    check_has(printed, ", avx2; bf16");
    bool differ = strcmp(highest, "avx2") != 0;
    snprintf(words, sizeof words,
             "CPU instructions: all ranks use avx2, which every CPU of the job has; the best CPU has %s", highest);
    ck_assert((strstr(printed, words) != NULL) == differ);
    free(printed);
    double both[3], mixed[3];
    training_losses("both.jsonl", both, 3);
    training_losses("out/metrics.jsonl", mixed, 3);
    ck_assert_mem_eq(both, mixed, sizeof both);
    printed = train(0, "");
    snprintf(words, sizeof words, ", %s; bf16", highest);
    check_has(printed, words);
    ck_assert_ptr_null(strstr(printed, "CPU instructions:"));
    free(printed);
    shell_leave();
}
END_TEST

START_TEST(a_wrong_set_is_refused)
{
    char words[256];
    prepare();
    char *printed = train(78, "export CSPEED_CPU_ISA=avx3;");
    snprintf(words, sizeof words, "CSPEED_CPU_ISA=avx3: no set of CPU instructions has this name; this CPU has: %s",
             list);
    check_has(printed, words);
    free(printed);
    printed = train(78, "export CSPEED_CPU_ISA=asimd;");
    snprintf(words, sizeof words, "not supported: CSPEED_CPU_ISA=asimd, because this CPU has only: %s", list);
    check_has(printed, words);
    free(printed);
    shell_leave();
}
END_TEST

START_TEST(the_report_says_the_sets)
{
    char words[256];
    prepare();
    ck_assert_int_eq(shell_run("%s/cspeed report", CS_BIN), 0);
    char *printed = shell_read("out.txt", NULL);
    snprintf(words, sizeof words, "kernels for            %s\n", list);
    check_has(printed, words);
    snprintf(words, sizeof words, "kernels used           %s, the highest set", highest);
    check_has(printed, words);
    free(printed);
    ck_assert_int_eq(shell_run("CSPEED_CPU_ISA=avx2 %s/cspeed report", CS_BIN), 0);
    printed = shell_read("out.txt", NULL);
    check_has(printed, "kernels used           avx2, which CSPEED_CPU_ISA names");
    check_has(printed, "the library has no native products for this CPU");
    free(printed);
    shell_leave();
}
END_TEST

/* An emulated CPU without AVX2: the program must say so before any instruction that the CPU lacks. Sanitizers do not
 * run in the emulator. */
START_TEST(an_old_cpu_is_refused)
{
    prepare();
    if (shell_run("command -v qemu-x86_64") != 0 || near_limit(1, 0) == 0) {
        printf("isa_train: skipped, there is no qemu-x86_64 for a CPU without AVX2, or sanitizers are on\n");
        shell_leave();
        return;
    }
    ck_assert_int_eq(shell_run("qemu-x86_64 -cpu core2duo %s/train --config config.json", CS_BIN), 78);
    char *printed = shell_read("out.txt", NULL);
    check_has(printed, "not supported: this CPU lacks one of AVX2, FMA, BMI1 and BMI2");
    free(printed);
    shell_leave();
}
END_TEST

#if defined(__x86_64__)
SUITE_MAIN("isa_train", ranks_use_the_lowest_set, a_wrong_set_is_refused, the_report_says_the_sets,
           an_old_cpu_is_refused)
#else
int main(void)
{
    printf("isa_train: skipped, this architecture has one set of instructions\n");
    return 0;
}
#endif
