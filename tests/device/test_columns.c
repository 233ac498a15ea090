/* test_columns.c - cs_op_add_columns and cs_op_take_columns compared with plain loops in double precision. */
#include "near.h"
#include "suite.h"

#include "cspeed/ops.h"

#include <stdlib.h>

static const struct {
    int64_t rows, narrow, wide, first;
} sizes[] = { { 1, 1, 1, 0 }, { 5, 3, 11, 8 }, { 33, 24, 48, 24 }, { 9, 1500, 1501, 1 }, { 70, 7, 40, 13 } };
enum { SIZES = sizeof sizes / sizeof *sizes };

static void check(cs_stream *stream, cs_dtype dtype, int i, float scale)
{
    int64_t rows = sizes[i].rows, columns = sizes[i].narrow, wide = sizes[i].wide;
    cs_tensor x = near_random(dtype, rows, columns, 1, 1), y = near_random(dtype, rows, wide, 2, 1);
    cs_tensor taken = near_new(dtype, rows, columns);
    double *want = near_doubles(y), *part = near_doubles(x), *cut = near_doubles(x);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            double *at = &want[r * wide + sizes[i].first + c];
            cut[r * columns + c] = (double)scale * *at;
            *at += (double)scale * part[r * columns + c];
        }
    cs_op_take_columns(stream, near_at(taken), near_at(y), sizes[i].first, scale);
    cs_op_add_columns(stream, near_at(y), sizes[i].first, near_at(x), scale);
    near_fetch();
    ck_assert(near_all("take_columns", taken, cut, 1e-6));
    ck_assert(near_all("add_columns", y, want, 1e-6));
    near_free(x);
    near_free(y);
    near_free(taken);
    free(want);
    free(part);
    free(cut);
}

START_TEST(columns_are_added_and_taken)
{
    static const cs_dtype types[] = { CS_F32, CS_BF16, CS_F16 };
    for (int threads = 1; threads <= near_threads(3); threads++) {
        cs_stream *stream = ce_device_stream(near_open(threads), CE_COMPUTE);
        for (int type = 0; type < 3; type++)
            for (int i = 0; i < SIZES; i++)
                check(stream, types[type], i, i % 2 ? 1 : 0.375f);
        near_close();
    }
}
END_TEST

SUITE_MAIN("columns", columns_are_added_and_taken)
