/* test_size.c - the size of the product, and of the part of it that must be read to understand a training step. The
 * bounds become smaller, except when a new axis of parallelism comes. `./check` prints the lines that begin with "size:". */
#include "suite.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PRODUCT_LINES = 131000, HEART_LINES = 1570, HEART_FILES = 14 };

/* The heart: what cs_forward, cs_backward and cs_step call, down to a shard's verbs and how they are carried out. Not
 * counted: what the verbs stand on (sizes, rows of the pools, tables of ranges, buckets), optimizers that need whole
 * tensors (zero/directions.c), and observers (core/observer.h), which the step calls through a table. */
static const char *const heart[] = {
    "core/forward.c", "core/backward.c",   "core/walk.c",  "core/step.c",     "core/step_judge.c",
    "core/phase.c",   "core/preference.c", "zero/shard.c", "zero/gradient.c", "zero/reduction.c",
    "zero/update.c",  "zero/apply.c",      "zero/part.c",  "core/upload.c",
};

static int64_t count_lines(const char *path)
{
    FILE *in = fopen(path, "r");
    int64_t lines = 0;
    ck_assert_msg(in != NULL, "%s", path);
    for (int c; (c = getc(in)) != EOF;)
        lines += c == '\n';
    fclose(in);
    return lines;
}

static int64_t product;

static int add_file(const char *path, const struct stat *facts, int type)
{
    static const char *const endings[] = { ".c", ".h", ".cu", ".cuh", ".cc", ".cpp" };
    const char *ending = strrchr(path, '.');
    (void)facts;
    for (size_t i = 0; type == FTW_F && ending && i < sizeof endings / sizeof *endings; i++)
        if (strcmp(ending, endings[i]) == 0)
            product += count_lines(path);
    return 0;
}

START_TEST(the_product_does_not_grow)
{
    static const char *const folders[] = { "/engine", "/launcher", "/include", "/programs" };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s%s", CS_SOURCE, folders[i]);
        ck_assert_int_eq(ftw(path, add_file, 16), 0);
    }
    printf("size: the product has %lld lines, at most %d\n", (long long)product, PRODUCT_LINES);
    ck_assert_int_gt(product, 50000);
    ck_assert_int_le(product, PRODUCT_LINES);
}
END_TEST

START_TEST(the_heart_does_not_grow)
{
    int64_t lines = 0, files = sizeof heart / sizeof *heart;
    for (int64_t i = 0; i < files; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/engine/%s", CS_SOURCE, heart[i]);
        lines += count_lines(path);
    }
    printf("size: a training step has %lld lines in %lld files, at most %d in %d\n", (long long)lines, (long long)files,
           HEART_LINES, HEART_FILES);
    ck_assert_int_le(lines, HEART_LINES);
    ck_assert_int_le(files, HEART_FILES);
}
END_TEST

SUITE_MAIN("size", the_product_does_not_grow, the_heart_does_not_grow)
