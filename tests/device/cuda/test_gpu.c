/* test_gpu.c - tests of .ci/gpu, the test run on a GPU, with the emulated CUDA module. They test the run, and the
 * tables that show the results. A table also shows failed steps. */
#include "near.h"
#include "shell.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part), "there is no \"%s\" in:\n%s", part, text);
}

/* Checks that every step ended with exit code 0 or was skipped with a reason. */
static int check_steps(const char *path)
{
    char *table = shell_read(path, NULL), *rest = table, *line;
    int steps = 0;
    for (; (line = strsep(&rest, "\n")) && *line; steps++) {
        char *name = strsep(&line, "\t"), *code = strsep(&line, "\t");
        bool skipped = strcmp(code, "-") == 0 && strstr(line, "skipped: ");
        ck_assert_msg(skipped || strcmp(code, "0") == 0, "%s: step %s ended with %s", path, name, code);
    }
    free(table);
    return steps;
}

static void check_names(const char *path, const char *const *names)
{
    char *table = shell_read(path, NULL);
    for (; *names; names++)
        expect(table, *names);
    free(table);
}

START_TEST(all_parts_run_on_the_emulator)
{
    static const char *const correctness[] = { "smoke-gpt2\t0",
                                               "flash\t0",
                                               "cudnn-flash\t0",
                                               "stages\t0",
                                               "graphs\t0",
                                               "nccl-one-rank\t0",
                                               "nccl-graphs\t0",
                                               "curve-gpt2-fp32\t0",
                                               "curve-llama-bf16\t0",
                                               "memcheck-flash\t-",
                                               NULL };
    static const char *const speed[] = { "products\t0", "algorithms\t0", "gpt2-32-50257\t-", "torch-llama-1b-4\t-",
                                         NULL };
    static const char *const profile[] = { "save-kill-resume\t0", "four-ranks-devices\t0", "ncu\t-", NULL };
    if (!near_emulated("the proof on a GPU"))
        return;
    shell_enter();
    int code = shell_run("CSPEED_GPU_BIN=%s %s/.ci/gpu run all --here --out results", CS_BIN, CS_SOURCE);
    char *said = shell_read("out.txt", NULL);
    ck_assert_msg(code == 0, "it ended with %d:\n%s", code, said);
    expect(said, "0 steps failed");
    free(said);
    ck_assert_int_gt(check_steps("results/correctness.tsv"), 40);
    ck_assert_int_gt(check_steps("results/speed.tsv"), 15);
    ck_assert_int_ge(check_steps("results/profile.tsv"), 5);
    check_names("results/correctness.tsv", correctness);
    check_names("results/speed.tsv", speed);
    check_names("results/profile.tsv", profile);
    ck_assert_int_eq(shell_run("%s/.ci/gpu read results", CS_SOURCE), 0);
    said = shell_read("out.txt", NULL);
    expect(said, "| smoke-gpt2 | 0 | ");
    expect(said, " steps, at most ");
    expect(said, "(bound 0.001)");
    expect(said, "| memcheck-flash | - | 0 | skipped: ");
    expect(said, "| product | algorithm | ms | ms of the first |");
    expect(said, "bf16 to fp32");
    ck_assert_ptr_null(strstr(said, "(failed)"));
    free(said);
    shell_leave();
}
END_TEST

/* A training fails and a test takes too long: neither stops later steps, and the table shows both with their last
 * output. */
START_TEST(failed_steps_are_reported)
{
    if (!near_emulated("the proof on a GPU that fails"))
        return;
    shell_enter();
    ck_assert_int_eq(shell_run("mkdir bin && ln -s %s/* bin && rm bin/train bin/test_devices", CS_BIN), 0);
    shell_write("bin/train", "#!/bin/sh\necho out of paper\nexit 7\n");
    shell_write("bin/test_devices", "#!/bin/sh\necho half way\nexec timeout 1 sleep 20\n");
    ck_assert_int_eq(shell_run("chmod +x bin/train bin/test_devices && "
                               "CSPEED_GPU_BIN=$PWD/bin %s/.ci/gpu run profile --here --out results",
                               CS_SOURCE),
                     1);
    char *said = shell_read("out.txt", NULL);
    expect(said, "2 steps failed");
    free(said);
    ck_assert_int_eq(shell_run("%s/.ci/gpu read results", CS_SOURCE), 0);
    said = shell_read("out.txt", NULL);
    expect(said, "| data | 0 | ");
    expect(said, "| save-kill-resume | 1 (failed) | ");
    expect(said, "| four-ranks-devices | 124 (out of time) | ");
    expect(said, "    out of paper\n");
    expect(said, "    half way\n");
    free(said);
    ck_assert_int_eq(shell_run("rm results/profile.log && %s/.ci/gpu read results", CS_SOURCE), 0);
    said = shell_read("out.txt", NULL);
    expect(said, "| save-kill-resume | 1 (failed) | ");
    expect(said, "profile.log is missing");
    free(said);
    ck_assert_int_eq(shell_run("%s/.ci/gpu read nothing", CS_SOURCE), 66);
    shell_leave();
}
END_TEST

SUITE_MAIN("gpu", failed_steps_are_reported, all_parts_run_on_the_emulator)
