/* test_gpu.c - tests of .ci/gpu, the test run on a GPU, with the emulated CUDA module. They test the archive, the run,
 * and the tables that show the results. A table also shows failed steps, and steps that were cut by time. */
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

/* Returns the output of a command that must end with this exit code; the caller frees it. */
static char *output_of(int code, int got)
{
    char *said = shell_read("out.txt", NULL);
    ck_assert_msg(code == got, "exit code %d, not %d:\n%s", got, code, said);
    return said;
}

/* Makes the archive in a copy of this checkout, from programs of this build, and moves the copy. In the programs' place
 * .ci/gpu then has to put a link. Returns false if this checkout is not a clone. */
static bool pack(void)
{
    if (shell_run("git -C %s rev-parse", CS_SOURCE) != 0) {
        printf("the archive for a GPU: skipped, %s is not a clone\n", CS_SOURCE);
        return false;
    }
    int code =
        shell_run("git clone -q %s clone && git -C %s ls-files -z | tar -C %s --null -T - -c | tar -C clone -x && "
                  "CSPEED_GPU_BIN=%s XZ_OPT=--lzma2=preset=0,dict=64MiB clone/.ci/gpu pack && mv clone moved",
                  CS_SOURCE, CS_SOURCE, CS_SOURCE, CS_BIN);
    free(output_of(0, code));
    return true;
}

/* A run without a device stops before its first step, and says why. It leaves a link that leads nowhere. */
static void run_without_a_device(void)
{
    int code = shell_run("LD_LIBRARY_PATH=/inherited CSPEED_EMULATOR_DEVICES=0 moved/.ci/gpu run all --out none");
    char *said = output_of(1, code), *report = shell_read("none/report.txt", NULL);
    expect(said, "there is a driver here but no GPU");
    expect(said, "cspeed finds no GPU here; ");
    expect(report, "programs of commit ");
    expect(report, ":/inherited\n");
    free(said);
    free(report);
    ck_assert_int_eq(shell_run("test ! -e none/correctness.tsv && test -L clone && test ! -e clone"), 0);
}

static void check_tables(void)
{
    static const char *const correctness[] = { "smoke-gpt2\t0",
                                               "flash\t0",
                                               "expert_products\t0",
                                               "cudnn-flash\t0",
                                               "stages\t0",
                                               "graphs\t0",
                                               "nccl-one-rank\t0",
                                               "nccl-graphs\t0",
                                               "curve-gpt2-fp32\t0",
                                               "curve-gemma2-fp32\t0",
                                               "curve-mixtral-bf16\t0",
                                               "devices\t0",
                                               "memcheck-flash\t-",
                                               NULL };
    static const char *const speed[] = { "products\t0",      "nccl-host-us\t0",     "algorithms\t0",
                                         "gpt2-32-50257\t-", "torch-llama-1b-4\t-", NULL };
    static const char *const profile[] = { "save-kill-resume\t0", "ncu-forward\t-", "llama-8b\t-", NULL };
    ck_assert_int_gt(check_steps("results/correctness.tsv"), 60);
    ck_assert_int_gt(check_steps("results/speed.tsv"), 15);
    ck_assert_int_gt(check_steps("results/profile.tsv"), 10);
    check_names("results/correctness.tsv", correctness);
    check_names("results/speed.tsv", speed);
    check_names("results/profile.tsv", profile);
    check_names("results/curves.tsv", (const char *const[]){ "gpt2-fp32-10\t10\t", "mixtral-bf16-20\t20\t", NULL });
}

static void check_page(void)
{
    char *said = output_of(0, shell_run("%s/.ci/gpu read results", CS_SOURCE));
    expect(said, "| smoke-gpt2 | 0 | ");
    expect(said, " steps, at most ");
    expect(said, "(bound 0.001)");
    expect(said, "| memcheck-flash | - | 0 | skipped: ");
    expect(said, " | all_reduce returns to the host after ");
    expect(said, "| product | algorithm | ms | ms of the first | ms of the fastest of any bits |");
    expect(said, "bf16 to fp32");
    ck_assert_ptr_null(strstr(said, "(failed)"));
    ck_assert_ptr_null(strstr(said, "Cut by time"));
    free(said);
}

static void write_program(const char *path, const char *text)
{
    shell_write(path, text);
    ck_assert_int_eq(shell_run("chmod +x %s", path), 0);
}

/* The steps that need a GPU run, because the archive does not say that its module is emulated. The benchmarks, the profiler
 * and torch are scripts that print what the real programs print. */
static void run_with_fakes(void)
{
    ck_assert_int_eq(shell_run("mkdir tree tools && tar -xJf moved/.gpu/cspeed.tar.xz -C tree && rm tree/emulated"), 0);
    write_program("tree/bin/train", "#!/bin/sh\nkill -KILL $$\n");
    write_program("tree/bin/bench_ops", "#!/bin/sh\necho 'matrix roof 700000.0 GFLOP/s'\n");
    write_program("tree/bin/bench_comm", "#!/bin/sh\necho 'all_reduce 1024 9.0 0.5 2.5'\n");
    write_program("tree/bin/bench_step",
                  "#!/bin/sh\n"
                  "echo 'gpt2 500000.0 tok/s'\n"
                  "echo 'product (8 x 8 x 8): algorithm 2 of 6, 0.1 ms (first: 0.2, fastest of 8: 0.1)'\n");
    write_program("tools/ncu", "#!/bin/sh\n"
                               "case \"$*\" in *gated_rows*) echo '==ERROR== ERR_NVGPUCTRPERM'; exit 1 ;; esac\n"
                               "echo '    DRAM Throughput  %  12.34'; echo '    Duration  us  5.00'\n");
    write_program("tools/python3", "#!/bin/sh\n"
                                   "case $1 in *step_cuda.py) echo 'tokens_per_s=400000.0 step_ms=64.00' ;; esac\n");
    ck_assert_int_eq(shell_run("XZ_OPT=-0 tar -cJf moved/.gpu/cspeed.tar.xz -C tree ."), 0);
    for (int i = 0; i < 2; i++) {
        int code = shell_run("PATH=$PWD/tools:$PATH moved/.ci/gpu run %s --out fakes", i == 0 ? "speed" : "profile");
        free(output_of(i, code));
    }
    char *said = output_of(0, shell_run("%s/.ci/gpu read fakes", CS_SOURCE));
    expect(said, "| gpt2-32-50304 | 500000.0 | 400000.0 | 1.250 |");
    expect(said, " | all_reduce returns to the host after 2.5 us (1 KiB) |");
    expect(said, "| (8 x 8 x 8) | 2 of 6 | 0.1 | 0.2 | 0.1 |");
    expect(said, "| save-kill-resume | 1 (failed) | ");
    expect(said, " | DRAM Throughput % 12.34; Duration us 5.00 |");
    expect(said, "| ncu-gated_rows | 1 (failed) | ");
    expect(said, " | ==ERROR== ERR_NVGPUCTRPERM |");
    free(said);
}

START_TEST(all_parts_run_from_an_archive)
{
    if (!near_emulated("the proof on a GPU"))
        return;
    shell_enter();
    if (pack()) {
        run_without_a_device();
        char *said = output_of(0, shell_run("moved/.ci/gpu run all --out results"));
        expect(said, "0 steps failed; the logs");
        free(said);
        check_tables();
        check_page();
        run_with_fakes();
    }
    shell_leave();
}
END_TEST

/* A training fails and a benchmark takes too long: neither stops later steps, and the table shows both with their last
 * output. The programs have the library path of the caller. */
START_TEST(failed_steps_are_reported)
{
    if (!near_emulated("the proof on a GPU that fails"))
        return;
    shell_enter();
    ck_assert_int_eq(shell_run("mkdir bin && ln -s %s/* bin && rm bin/train bin/bench_comm", CS_BIN), 0);
    shell_write("bin/train", "#!/bin/sh\necho out of paper\nexit 7\n");
    shell_write("bin/bench_comm", "#!/bin/sh\necho half way in $LD_LIBRARY_PATH\nexec timeout 1 sleep 20\n");
    int code = shell_run("chmod +x bin/train bin/bench_comm && LD_LIBRARY_PATH=/inherited "
                         "CSPEED_GPU_BIN=$PWD/bin %s/.ci/gpu run speed --here --out results",
                         CS_SOURCE);
    char *said = output_of(1, code);
    expect(said, "3 steps failed; cut by time: nccl-host-us; the logs");
    free(said);
    said = output_of(0, shell_run("%s/.ci/gpu read results", CS_SOURCE));
    expect(said, "| data | 0 | ");
    expect(said, "| products | 7 (failed) | ");
    expect(said, "| nccl-host-us | 124 (out of time) | ");
    expect(said, "| algorithms | 1 (failed) | ");
    expect(said, "    out of paper\n");
    expect(said, "    half way in /inherited\n");
    free(said);
    said = output_of(0, shell_run("rm results/speed.log && %s/.ci/gpu read results", CS_SOURCE));
    expect(said, "| products | 7 (failed) | ");
    expect(said, "speed.log is missing");
    free(said);
    ck_assert_int_eq(shell_run("%s/.ci/gpu read nothing", CS_SOURCE), 66);
    shell_leave();
}
END_TEST

START_TEST(tables_show_ratios_and_cut_steps)
{
    shell_enter();
    shell_write("speed.tsv", "gpt2-32\t0\t20\t500000.0 tok/s 0.1 ms; 600000.0 tok/s 0.1 ms graphs\n"
                             "torch-gpt2-32\t0\t60\ttokens_per_s=400000.0 step_ms=64\n"
                             "llama-1b-4\t124\t60\t\n"
                             "torch-llama-1b-4\t-\t0\tskipped: no time is left\n"
                             "llama-1b-8\t137\t3\t\n");
    char *said = output_of(0, shell_run("%s/.ci/gpu read .", CS_SOURCE));
    expect(said, "\nCut by time: llama-1b-4, torch-llama-1b-4\n");
    expect(said, "\n| llama-1b-8 | 137 (killed) | 3 |  |\n");
    expect(said, "| gpt2-32 | 500000.0 | 400000.0 | 1.250 |\n| gpt2-32, graphs | 600000.0 | 400000.0 | 1.500 |\n");
    free(said);
    shell_leave();
}
END_TEST

SUITE_MAIN("gpu", tables_show_ratios_and_cut_steps, failed_steps_are_reported, all_parts_run_from_an_archive)
