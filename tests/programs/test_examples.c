/* test_examples.c - the examples. ddp_toy prints its eight lines however it is started. train_npy learns from files of
 * arrays, with each of its losses and with the same result at any number of ranks, and refuses other files. modes gives the same bits in three modes.
 * ring shows the steps of a ring all-reduce, and its cost. */
#include "shell.h"
#include "suite.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- ddp_toy ---- */

START_TEST(the_toy_prints_eight_lines)
{
    static const char *const commands[] = {
        CS_BIN "/cspeed --quiet --no_prefix --oversubscribe --num_gpus 4 " CS_BIN "/ddp_toy --config %s",
        CS_BIN "/cspeed launch --quiet --no_prefix --oversubscribe --nproc_per_node=4 " CS_BIN "/ddp_toy --config %s",
        CS_BIN "/ddp_toy --spawn 4 --config %s",
    };
    shell_enter();
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char command[1024];
        snprintf(command, sizeof command, commands[i], CS_SOURCE "/configs/ddp_toy.json");
        ck_assert_int_eq(shell_run("%s 2> err.txt", command), 0);
        char *out = shell_read("out.txt", NULL);
        int lines = 0;
        for (const char *at = out; (at = strchr(at, '\n')); at++)
            lines++;
        ck_assert_msg(lines == 8, "%s:\n%s", command, out);
        for (int line = 0; line < 8; line++) {
            char wanted[80];
            snprintf(wanted, sizeof wanted, "GPU:%d | Epoch:%d | Batchsize: 32 | Steps: 32\n", line / 2, line % 2);
            ck_assert_msg(strstr(out, wanted) != NULL, "%s: no %s in:\n%s", command, wanted, out);
        }
        free(out);
    }
    shell_leave();
}
END_TEST

/* ---- train_npy ---- */

enum { ROWS = 300, INPUTS = 3 };

static void write_npy(const char *path, const char *type, const char *shape, const void *data, size_t bytes)
{
    char header[118];
    FILE *file = fopen(path, "wb");
    int used = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", type, shape);
    memset(header + used, ' ', sizeof header - (size_t)used);
    header[117] = '\n';
    ck_assert(file && fwrite("\x93NUMPY\x01\x00\x76\x00", 10, 1, file) == 1);
    ck_assert(fwrite(header, sizeof header, 1, file) == 1 && fwrite(data, bytes, 1, file) == 1 && fclose(file) == 0);
}

/* Writes points in a cube. The target of a regression is a linear function of the point. The class, from 0 to 3, is
 * given by the signs of the coordinates 0 and 2. */
static void write_arrays(void)
{
    static float x[ROWS][INPUTS], y[ROWS];
    static int64_t class[ROWS];
    unsigned short state[3] = { 1, 2, 3 };
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < INPUTS; j++)
            x[i][j] = (float)(2 * erand48(state) - 1);
        y[i] = x[i][0] - 2 * x[i][1] + 0.5f;
        class[i] = (x[i][0] > 0) + 2 * (x[i][2] > 0);
    }
    write_npy("x.npy", "<f4", "300, 3", x, sizeof x);
    write_npy("y.npy", "<f4", "300, 1", y, sizeof y);
    write_npy("c.npy", "<i8", "300,", class, sizeof class);
    write_npy("short.npy", "<f4", "300, 1", y, sizeof y / 2);
    write_npy("double.npy", "<f8", "150", y, sizeof y);
}

/* Runs the program and returns the number after the last `word` in its output. */
static double run_with(const char *config, int ranks, const char *arguments, const char *word)
{
    char launch[256] = "";
    if (ranks > 1)
        snprintf(launch, sizeof launch, CS_BIN "/cspeed --quiet --oversubscribe --no_prefix --num_gpus %d ", ranks);
    int code = shell_run("%s" CS_BIN "/train_npy --config %s --inputs x.npy %s 2> err.txt", launch, config, arguments);
    char *out = shell_read("out.txt", NULL), *err = shell_read("err.txt", NULL), *last = NULL;
    ck_assert_msg(code == 0, "%s: exit code %d: %s%s", arguments, code, out, err);
    for (char *at = out; (at = strstr(at, word)); at++)
        last = at;
    ck_assert_msg(last != NULL, "%s: %s", arguments, out);
    double number = strtod(last + strlen(word), NULL);
    free(out);
    free(err);
    return number;
}

static double run(int ranks, const char *arguments, const char *word)
{
    return run_with(CS_SOURCE "/configs/train_npy.json", ranks, arguments, word);
}

START_TEST(each_loss_falls)
{
    shell_enter();
    write_arrays();
    ck_assert(run(1, "--targets y.npy --loss mse --epochs 20", "loss ") < 0.02);
    ck_assert(run(2, "--targets y.npy --loss mae --epochs 20", "loss ") < 0.15);
    ck_assert(run(1, "--targets c.npy --loss cross_entropy --epochs 20", "accuracy ") > 0.9);
    ck_assert(run(2, "--targets c.npy --loss cross_entropy --epochs 20", "accuracy ") > 0.9);
    shell_leave();
}
END_TEST

/* Writes images of 8 x 8 pixels; the class is the quarter that is bright. A convnet that loses the positions of pixels
 * cannot tell the quarters apart. */
static void write_images(void)
{
    static float x[ROWS][8][8];
    static int64_t class[ROWS];
    unsigned short state[3] = { 4, 5, 6 };
    for (int i = 0; i < ROWS; i++) {
        class[i] = i % 4;
        for (int row = 0; row < 8; row++)
            for (int column = 0; column < 8; column++)
                x[i][row][column] = (float)(erand48(state) - 0.5 + (row / 4 * 2 + column / 4 == class[i] ? 0.7 : 0));
    }
    write_npy("images.npy", "<f4", "300, 8, 8", x, sizeof x);
    write_npy("odd.npy", "<f4", "400, 8, 6", x, sizeof x);
    write_npy("quarters.npy", "<i8", "300,", class, sizeof class);
}

START_TEST(a_convnet_learns_from_images)
{
    static const char arguments[] = "--model convnet --inputs images.npy --targets quarters.npy --loss cross_entropy "
                                    "--epochs 8 --width 16";
    shell_enter();
    write_arrays();
    write_images();
    ck_assert(run(1, arguments, "accuracy ") > 0.95);
    ck_assert(run(2, arguments, "accuracy ") > 0.95);
    shell_write("bf16.json", "{\"train_micro_batch_size_per_gpu\": 32, \"bf16\": {\"enabled\": true}, \"optimizer\": "
                             "{\"type\": \"AdamW\", \"params\": {\"lr\": 0.01}}}");
    ck_assert(run_with("bf16.json", 1, arguments, "accuracy ") > 0.95);
    ck_assert_int_eq(shell_run(CS_BIN "/train_npy --model convnet --inputs odd.npy --targets quarters.npy 2>&1"), 65);
    shell_leave();
}
END_TEST

START_TEST(the_examples_need_no_file_but_a_small_one)
{
    shell_enter();
    write_arrays();
    ck_assert_int_eq(shell_run(CS_BIN "/ddp_toy"), 66);
    char *out = shell_read("out.txt", NULL);
    ck_assert_msg(strstr(out, "there is no configs/ddp_toy.json in this folder: start ddp_toy") != NULL, "%s", out);
    free(out);
    shell_write("own.json", "{\"train_micro_batch_size_per_gpu\": 32}");
    ck_assert_int_eq(shell_run(CS_BIN "/ddp_toy --config own.json"), 0);
    ck_assert_int_eq(shell_run(CS_BIN "/train_npy --config own.json --inputs x.npy --targets y.npy --epochs 1"), 0);
    shell_leave();
}
END_TEST

START_TEST(other_files_are_refused)
{
    static const struct {
        const char *arguments, *sentence;
        int code;
    } rows[] = {
        { "--targets short.npy", "short.npy: it is shorter than its shape says", 65 },
        { "--targets double.npy", "double.npy: its type is not float32, int32 or int64", 65 },
        { "--targets c.npy", "c.npy: targets of mse and mae are float32", 65 },
        { "--targets y.npy --loss cross_entropy", "y.npy: classes are a vector of int32 or int64", 65 },
        { "--targets text.npy", "text.npy: it is no .npy file", 65 },
        { "--targets nothing.npy", "cspeed: nothing.npy: No such file or directory", 66 },
        { "--targets y.npy", "there is no configs/train_npy.json in this folder: start train_npy", 66 },
    };
    shell_enter();
    write_arrays();
    shell_write("text.npy", "1.0, 2.0, 3.0\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_int_eq(shell_run(CS_BIN "/train_npy --inputs x.npy %s 2>&1", rows[i].arguments), rows[i].code);
        char *out = shell_read("out.txt", NULL);
        ck_assert_msg(strstr(out, rows[i].sentence) != NULL, "%s: %s", rows[i].arguments, out);
        free(out);
    }
    shell_leave();
}
END_TEST

/* ---- modes ---- */

/* Runs `modes` on `ranks` ranks; returns its output, which the caller frees. */
static char *run_modes(int ranks, const char *arguments)
{
    ck_assert_msg(shell_run(CS_BIN "/cspeed --quiet --no_prefix --oversubscribe --num_gpus %d " CS_BIN "/modes %s",
                            ranks, arguments) == 0,
                  "%s", arguments);
    return shell_read("out.txt", NULL);
}

/* Returns the number after `words` in the output. */
static double number_after(const char *out, const char *words)
{
    const char *at = strstr(out, words);
    ck_assert_msg(at != NULL, "no \"%s\" in:\n%s", words, out);
    return strtod(at + strlen(words), NULL);
}

START_TEST(three_modes_give_the_same_bits)
{
    static const char *const steps[] = { "step 10/30 | squared error ", "step 20/30 | squared error ",
                                         "step 30/30 | squared error " };
    shell_enter();
    char *ddp = run_modes(4, "--mode ddp --steps 30");
    char *ps = run_modes(6, "--mode ps --servers 2 --steps 30");
    char *dp = run_modes(1, "--mode dp --threads 4 --steps 30");
    for (int i = 0; i < 3; i++) {
        double error = number_after(ddp, steps[i]);
        ck_assert(number_after(ps, steps[i]) == error && number_after(dp, steps[i]) == error);
    }
    ck_assert_double_lt(number_after(ddp, steps[2]), number_after(ddp, steps[0]) / 2);
    char *row = strstr(ps, "servers:\n") + strlen("servers:\n");
    for (int from = 0; from < 6; from++)
        for (int to = 0; to < 6; to++) /* 512 weights of 4 bytes in each of 30 steps; workers send nothing to workers */
            ck_assert_int_eq(strtol(row, &row, 10), (from < 4) == (to < 4) ? 0 : 30 * 512 * 4);
    free(ddp);
    free(ps);
    free(dp);
    shell_leave();
}
END_TEST

START_TEST(asynchronous_workers_converge_within_their_bound)
{
    shell_enter();
    char *out = run_modes(4, "--mode async --staleness 2 --steps 200");
    ck_assert_double_lt(number_after(out, "step 200/200 | squared error "), 0.1);
    double begun = 0;
    for (int ahead = 0; ahead <= 2; ahead++) {
        char words[80];
        snprintf(words, sizeof words, "steps that began %d steps ahead of the slowest worker: ", ahead);
        begun += number_after(out, words);
    }
    ck_assert_double_eq(begun, 3 * 200);
    free(out);
    shell_leave();
}
END_TEST

START_TEST(modes_are_compared)
{
    static const char *const names[] = { "\n     ddp        2", "\n      ps        1", "\n   async        1",
                                         "\n      dp        2" };
    shell_enter();
    char *out = run_modes(2, "--compare 4,8 --steps 5");
    for (int i = 0; i < 4; i++)
        ck_assert_double_gt(number_after(out, names[i]), 0);
    free(out);
    ck_assert_int_eq(shell_run(CS_BIN "/modes --mode ps 2>&1"), 78);
    ck_assert(shell_says("with servers at least one rank more than --servers"));
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed --quiet --no_prefix --oversubscribe --num_gpus 2 " CS_BIN
                                      "/modes --compare 4,x 2>&1"),
                     78);
    ck_assert(shell_says("--compare needs at most 16 numbers above 0"));
    shell_leave();
}
END_TEST

/* ---- ring ---- */

/* Each rank has sent and received the right chunk in the first step of each half, and has all sums after the last. */
START_TEST(a_ring_is_shown_step_by_step)
{
    char row[128];
    shell_enter();
    for (int ranks = 2; ranks <= 5; ranks++) {
        ck_assert_int_eq(shell_run(CS_BIN
                                   "/cspeed --quiet --no_prefix --oversubscribe --console first --num_gpus %d " CS_BIN
                                   "/ring",
                                   ranks),
                         0);
        char *text = shell_read("out.txt", NULL), *reduce = strstr(text, "\nscatter-reduce, step 1 of "), *last = text;
        char *gather = strstr(text, "\nall-gather, step 1 of ");
        ck_assert(reduce && gather && reduce < gather);
        for (int rank = 0; rank < ranks; rank++) {
            int before = (rank + ranks - 1) % ranks;
            snprintf(row, sizeof row, "\n  %d     chunk %d  chunk %d ", rank, rank, before);
            ck_assert_msg(strstr(reduce, row) != NULL, "no %s in %s", row, reduce);
            snprintf(row, sizeof row, "\n  %d     chunk %d  chunk %d ", rank, (rank + 1) % ranks, rank);
            ck_assert_msg(strstr(gather, row) != NULL, "no %s in %s", row, gather);
        }
        for (char *next = gather; (next = strstr(next + 1, "\nall-gather, step ")); last = next)
            ;
        last = strstr(last > gather ? last : gather, "\n  0 ");
        for (int rank = 0; rank < ranks; rank++, last = strchr(last + 1, '\n')) {
            int plus = 0;
            for (const char *c = last + 1; *c && *c != '\n'; c++)
                plus += *c == '+';
            ck_assert_int_eq(plus, ranks * (ranks - 1)); /* each of `ranks` chunks is a sum over all ranks */
        }
        free(text);
    }
    shell_leave();
}
END_TEST

START_TEST(the_cost_of_a_ring_is_that_of_the_formula)
{
    shell_enter();
    ck_assert_int_eq(shell_run(CS_BIN "/ring --params 300e6 --bw 1e9"), 0);
    ck_assert(shell_says("all-reduce of 1200000000 bytes over links of 1000000000 bytes a second"));
    ck_assert(shell_says("\n      2       1.2 s       1.2 s      2  1200000000\n"));
    ck_assert(shell_says("\n     16        18 s      2.25 s     30  2250000000\n"));
    ck_assert(shell_says("\n  limit    no limit       2.4 s\n"));
    ck_assert_int_eq(shell_run(CS_BIN "/ring --params 300e6 2>&1"), 64);
    ck_assert(shell_says("start 2 to 16 ranks"));
    shell_leave();
}
END_TEST

SUITE_MAIN("examples", the_toy_prints_eight_lines, each_loss_falls, a_convnet_learns_from_images,
           the_examples_need_no_file_but_a_small_one, other_files_are_refused, three_modes_give_the_same_bits,
           asynchronous_workers_converge_within_their_bound, modes_are_compared, a_ring_is_shown_step_by_step,
           the_cost_of_a_ring_is_that_of_the_formula)
