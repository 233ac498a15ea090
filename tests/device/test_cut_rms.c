/* test_cut_rms.c - RMSNorm of rows whose columns are divided over one to three ranks, compared with plain loops in double
 * precision, and with one rank with the operations on whole rows. */
#include "shares.h"
#include "suite.h"

#include "device/device.h"
#include "cspeed/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static cs_stream *stream;
static const float epsilon = 1e-5f;

enum { N = 37, BEFORE = 3, AFTER = 1 };

/* A rank's tensors. Its columns of x, dy, y and dx begin at column BEFORE, and AFTER columns follow them. */
typedef struct {
    share at;
    cs_tensor x, dy, y, dx, weight, dweight, stats, sums;
} rank_part;

static cs_tensor row_of(cs_tensor x)
{
    return cs_vector(x.data, x.dtype, cs_count(x));
}

static int64_t place_of(const rank_part *part, int64_t row, int64_t column)
{
    return row * cs_columns(part->x) + BEFORE + column;
}

/* Copies the rank's columns of `whole` to those of a random tensor. */
static cs_tensor inside(cs_tensor whole, share at)
{
    int64_t columns = BEFORE + at.count + AFTER;
    cs_tensor part = near_random(whole.dtype, N, columns, 9, 1);
    for (int64_t i = 0; i < N * at.count; i++)
        near_set(part, i / at.count * columns + BEFORE + i % at.count,
                 near_element(whole, i / at.count * cs_columns(whole) + at.first + i % at.count));
    return part;
}

static rank_part make_part(cs_tensor x, cs_tensor dy, cs_tensor weight, share at)
{
    at.room = at.count;
    rank_part part = { .at = at, .x = inside(x, at), .dy = inside(dy, at), .y = inside(x, at), .dx = inside(x, at) };
    part.weight = share_columns(weight, at);
    part.dweight = near_random(CS_F32, 1, at.count, 7, 1);
    part.stats = near_new(CS_F32, N, 1);
    part.sums = near_new(CS_F32, N, 1);
    return part;
}

/* Sets the sums of each rank to the sums over all ranks, as an all-reduce does. */
static void add_sums(rank_part *parts, int ranks)
{
    near_fetch();
    for (int i = 0; i < N; i++) {
        float sum = 0;
        for (int rank = 0; rank < ranks; rank++)
            sum += ((float *)parts[rank].sums.data)[i];
        for (int rank = 0; rank < ranks; rank++)
            ((float *)parts[rank].sums.data)[i] = sum;
    }
}

static void run_forward(rank_part *parts, int ranks, int64_t whole)
{
    for (rank_part *p = parts; p < parts + ranks; p++)
        cs_op_rms_sums(stream, near_at(p->sums), near_at(p->x), BEFORE, p->at.count);
    add_sums(parts, ranks);
    for (rank_part *p = parts; p < parts + ranks; p++)
        cs_op_rms_apply(stream, near_at(p->y), near_at(p->stats), near_at(p->sums), near_at(p->x),
                        near_at(row_of(p->weight)), BEFORE, whole, epsilon);
    near_fetch();
}

static void grad_apply(rank_part *p, cs_tensor dx, cs_tensor dweight, int64_t whole)
{
    cs_op_rms_grad_apply(stream, near_at(dx), near_at(row_of(dweight)), near_at(p->sums), near_at(p->dy), near_at(p->x),
                         near_at(p->stats), near_at(row_of(p->weight)), BEFORE, whole);
}

static void run_backward(rank_part *parts, int ranks, int64_t whole)
{
    for (rank_part *p = parts; p < parts + ranks; p++)
        cs_op_rms_dots(stream, near_at(p->sums), near_at(p->dy), near_at(p->x), near_at(row_of(p->weight)), BEFORE);
    add_sums(parts, ranks);
    for (rank_part *p = parts; p < parts + ranks; p++) {
        cs_tensor again = near_new(CS_F32, 1, p->at.count);
        grad_apply(p, p->dx, p->dweight, whole);
        grad_apply(p, p->dy, again, whole);
        near_fetch();
        for (int64_t i = 0; i < N * p->at.count; i++) {
            int64_t place = place_of(p, i / p->at.count, i % p->at.count);
            ck_assert_double_eq(near_element(p->dy, place), near_element(p->dx, place));
        }
        near_free(again);
    }
}

/* The results of the loops: y, dx and stats as rows, and dweight without its earlier values. */
typedef struct {
    double *y, *dx, *dweight, *stats;
} results;

static results loops(cs_tensor x, cs_tensor dy, cs_tensor weight)
{
    int64_t width = cs_columns(x);
    results want = { near_doubles(x), near_doubles(dy), calloc((size_t)width, sizeof(double)),
                     calloc(N, sizeof(double)) };
    double *w = near_doubles(weight);
    for (int64_t row = 0; row < N; row++) {
        double *y = want.y + row * width, *dx = want.dx + row * width, square = 0, dot = 0;
        for (int64_t i = 0; i < width; i++) {
            square += y[i] * y[i];
            dot += dx[i] * w[i] * y[i];
        }
        double rstd = want.stats[row] = 1 / sqrt(square / (double)width + (double)epsilon);
        for (int64_t i = 0; i < width; i++) {
            double n = y[i] * rstd;
            want.dweight[i] += dx[i] * n;
            dx[i] = rstd * (dx[i] * w[i] - n * dot * rstd / (double)width);
            y[i] = n * w[i];
        }
    }
    free(w);
    return want;
}

/* Compares the rank's columns of `got` with those of `want`, and the columns beside them with those of `kept`. */
static void check_inside(const char *what, const rank_part *part, cs_tensor got, cs_tensor kept, const double *want,
                         int64_t whole)
{
    double *numbers = near_doubles(kept);
    for (int64_t i = 0; i < N * part->at.count; i++) {
        int64_t row = i / part->at.count, column = i % part->at.count;
        numbers[place_of(part, row, column)] = want[row * whole + part->at.first + column];
    }
    ck_assert(near_all(what, got, numbers, 4e-6));
    for (int64_t i = 0; i < cs_count(got); i++) {
        int64_t column = i % cs_columns(got);
        if (column < BEFORE || column >= BEFORE + part->at.count)
            ck_assert_double_eq(near_element(got, i), near_element(kept, i));
    }
    free(numbers);
}

static void check_part(const rank_part *part, cs_tensor kept, const results *want, int64_t whole)
{
    double *dweight = calloc((size_t)part->at.count, sizeof *dweight);
    cs_tensor before = near_random(CS_F32, 1, part->at.count, 7, 1);
    for (int64_t i = 0; i < part->at.count; i++)
        dweight[i] = near_element(before, i) + want->dweight[part->at.first + i];
    check_inside("the y of a rank", part, part->y, kept, want->y, whole);
    check_inside("the dx of a rank", part, part->dx, kept, want->dx, whole);
    ck_assert(near_all("the stats", part->stats, want->stats, 2e-6));
    ck_assert(near_all("the dweight of a rank", part->dweight, dweight, 4e-6));
    free(dweight);
    near_free(before);
}

/* One rank's results are those of the operations on heads, of which there is one. */
static void check_whole(const rank_part *part, cs_tensor kept_dy, cs_tensor kept)
{
    cs_tensor y = near_copy(kept), dx = near_copy(kept), stats = near_new(CS_F32, N, 1);
    cs_tensor dweight = near_random(CS_F32, 1, part->at.count, 7, 1);
    cs_op_rms(stream, near_at(y), near_at(stats), near_at(part->x), near_at(row_of(part->weight)), BEFORE, epsilon);
    cs_op_rms_grad(stream, near_at(dx), near_at(row_of(dweight)), near_at(kept_dy), near_at(part->x), near_at(stats),
                   near_at(row_of(part->weight)), BEFORE);
    near_fetch();
    const cs_tensor pairs[][2] = {
        { part->y, y }, { part->stats, stats }, { part->dx, dx }, { part->dweight, dweight }
    };
    for (int i = 0; i < 4; i++)
        ck_assert(near_is_cpu() ? near_same_bits("one rank", pairs[i][0], pairs[i][1])
                                : near_tensors("one rank", pairs[i][0], pairs[i][1], 1e-6));
    SHARE_FREE(y, dx, stats, dweight);
}

static void check_width(cs_dtype dtype, int ranks, int64_t whole)
{
    cs_tensor x = near_random(dtype, N, whole, 1, 2), dy = near_random(dtype, N, whole, 2, 1);
    cs_tensor weight = near_random(dtype, 1, whole, 3, 1);
    results want = loops(x, dy, weight);
    rank_part parts[SHARE_RANKS];
    int used = 0;
    for (int rank = 0; rank < ranks; rank++)
        if (share_of(whole, rank, ranks).count > 0)
            parts[used++] = make_part(x, dy, weight, share_of(whole, rank, ranks));
    run_forward(parts, used, whole);
    run_backward(parts, used, whole);
    for (rank_part *p = parts; p < parts + used; p++) {
        cs_tensor kept = inside(x, p->at), kept_dy = inside(dy, p->at);
        check_part(p, kept, &want, whole);
        if (used == 1)
            check_whole(p, kept_dy, kept);
        SHARE_FREE(kept, kept_dy, p->x, p->dy, p->y, p->dx, p->weight, p->dweight, p->stats, p->sums);
    }
    free(want.y), free(want.dx), free(want.dweight), free(want.stats);
    SHARE_FREE(x, dy, weight);
}

static void check_widths(cs_stream *given, cs_dtype dtype, int ranks)
{
    static const int64_t widths[] = { 1, 9, 63, 264, 1100, 9001 };
    stream = given;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        check_width(dtype, ranks, widths[i]);
}

START_TEST(rms_is_divided_by_columns)
{
    share_for_all(check_widths);
}
END_TEST

SUITE_MAIN("cut_rms", rms_is_divided_by_columns)
