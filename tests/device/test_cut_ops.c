/* test_cut_ops.c - operations on tensors that are divided over ranks: the results of one to three ranks, put together,
 * are those of the whole operation and of plain loops in double precision. */
#include "reference.h"
#include "shares.h"
#include "suite.h"

#include "device/device.h"
#include "cspeed/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const cs_tensor absent;
static cs_stream *stream;

/* ---- tables whose rows are divided ---- */

enum { V = 27 };

/* Compares one rank's rows of y with those of the whole table: they are equal, or 0 for a token of another rank. */
static void check_rows(cs_tensor y, cs_tensor whole, const int32_t *tokens, share at)
{
    for (int64_t row = 0; row < cs_rows(y); row++) {
        bool here = tokens[row] >= at.first && tokens[row] < at.first + at.count;
        for (int64_t i = row * cs_columns(y); i < (row + 1) * cs_columns(y); i++)
            ck_assert_double_eq(near_element(y, i), here ? near_element(whole, i) : 0);
    }
}

static cs_tensor rows_of(cs_tensor x, share at)
{
    size_t row = (size_t)cs_columns(x) * cs_dtype_bytes(x.dtype);
    cs_tensor part = near_new(x.dtype, at.count, cs_columns(x));
    memcpy(part.data, (const char *)x.data + (size_t)at.first * row, (size_t)at.count * row);
    return part;
}

static void check_table(cs_dtype dtype, int ranks, int64_t width, int64_t padding)
{
    enum { SAMPLES = 3, LENGTH = 50, ROWS = SAMPLES * LENGTH };
    cs_tensor table = near_random(dtype, V, width, 1, 1), positions = near_random(dtype, LENGTH, width, 2, 1);
    cs_tensor tokens = near_new(CS_I32, SAMPLES, LENGTH), y = near_new(dtype, ROWS, width);
    cs_tensor dy = near_random(dtype, ROWS, width, 3, 1);
    cs_tensor dtable = near_random(CS_F32, V, width, 4, 1), dpositions = near_random(CS_F32, LENGTH, width, 5, 1);
    cs_tensor kept[] = { near_copy(dtable), near_copy(dpositions) };
    for (int i = 0; i < ROWS; i++)
        ((int32_t *)tokens.data)[i] = i % 3 ? i * 7 % V : 19;
    cs_op_embed(stream, near_at(y), near_at(tokens), near_at(table), CS_WHOLE_TABLE, near_at(positions), absent);
    cs_op_embed_grad(stream, near_at(dtable), CS_WHOLE_TABLE, near_at(dpositions), near_at(dy), near_at(tokens), absent,
                     padding);
    near_fetch();
    for (int rank = 0; rank < ranks; rank++) {
        share at = share_of(V, rank, ranks);
        cs_tensor own = rows_of(table, at), down = rows_of(kept[0], at), want = rows_of(dtable, at);
        cs_tensor part = near_random(dtype, ROWS, width, 6, 1), dall = near_copy(kept[1]);
        cs_op_embed(stream, near_at(part), near_at(tokens), near_at(own), at.first, near_at(positions), absent);
        cs_op_embed_grad(stream, near_at(down), at.first, near_at(dall), near_at(dy), near_at(tokens), absent, padding);
        near_fetch();
        check_rows(part, y, tokens.data, at);
        ck_assert(near_tensors("the gradient of a part of a table", down, want, near_is_cpu() ? 0 : 1e-6));
        ck_assert(near_same_bits("the gradient of positions", dall, dpositions));
        SHARE_FREE(own, down, want, part, dall);
    }
    SHARE_FREE(table, positions, tokens, y, dy, dtable, dpositions, kept[0], kept[1]);
}

static void check_tables(cs_stream *given, cs_dtype dtype, int ranks)
{
    stream = given;
    check_table(dtype, ranks, 5, -1);
    check_table(dtype, ranks, 64, 0);
    check_table(dtype, ranks, 129, 19);
    check_table(dtype, ranks, 1100, V - 1);
}

START_TEST(tables_are_divided_by_rows)
{
    share_for_all(check_tables);
}
END_TEST

/* ---- cross-entropy of logits whose columns are divided ---- */

enum { MAX_ROWS = 64 };

/* Logits with rows of each kind: targets at both sides of each border between ranks, no target, equal greatest logits,
 * NaN, infinities. */
typedef struct {
    cs_tensor logits;
    int32_t targets[MAX_ROWS];
    int64_t rows, columns, finite; /* finite: number of rows in front of those with NaN or infinity */
} entropy_case;

static int64_t add_row(entropy_case *all, int64_t target)
{
    all->targets[all->rows] = (int32_t)target;
    ck_assert_int_lt(all->rows, MAX_ROWS);
    return all->rows++ * all->columns;
}

static int64_t greatest_of(cs_tensor logits, int64_t row)
{
    int64_t columns = cs_columns(logits), best = 0;
    for (int64_t i = 1; i < columns; i++)
        if (near_element(logits, row * columns + i) > near_element(logits, row * columns + best))
            best = i;
    return best;
}

static void add_borders(entropy_case *all)
{
    for (int ranks = 1; ranks <= SHARE_RANKS; ranks++) {
        for (int rank = 0; rank < ranks; rank++) {
            share at = share_of(all->columns, rank, ranks);
            if (at.count == 0)
                continue;
            add_row(all, at.first);
            add_row(all, at.first + at.count - 1);
            int64_t row = add_row(all, at.first); /* the target is one of three greatest logits */
            near_set(all->logits, row, 30);
            near_set(all->logits, row + at.first, 30);
            near_set(all->logits, row + at.first + at.count - 1, 30);
            add_row(all, -1 - rank);
        }
    }
    all->targets[2] = (int32_t)greatest_of(all->logits, 2);
    int64_t row = all->rows;
    add_row(all, greatest_of(all->logits, row));
}

static entropy_case make_case(cs_dtype dtype, int64_t columns)
{
    entropy_case all = { .logits = near_random(dtype, MAX_ROWS, columns, 1, 5), .columns = columns };
    add_borders(&all);
    all.finite = all.rows;
    static const float odd[] = { NAN, INFINITY, -INFINITY };
    for (int i = 0; i < 3; i++) { /* in the first and in the last column, as the target and beside it */
        near_set(all.logits, add_row(&all, 0), (double)odd[i]);
        int64_t row = add_row(&all, 0);
        near_set(all.logits, row, 30); /* the greatest of its rank */
        near_set(all.logits, row + columns - 1, (double)odd[i]);
        near_set(all.logits, add_row(&all, columns - 1), (double)odd[i]);
        near_set(all.logits, add_row(&all, -1), (double)odd[i]);
        row = add_row(&all, 0); /* all logits of the row */
        for (int64_t c = 0; c < columns; c++)
            near_set(all.logits, row + c, (double)odd[i]);
    }
    cs_tensor logits = near_new(dtype, all.rows, columns);
    memcpy(logits.data, all.logits.data, (size_t)cs_count(logits) * cs_dtype_bytes(dtype));
    near_free(all.logits);
    all.logits = logits;
    return all;
}

typedef struct {
    cs_tensor logits, loss, hits; /* logits: replaced by their gradient */
} entropy_result;

static cs_tensor first_rows(cs_tensor x, int64_t rows)
{
    return cs_matrix(x.data, x.dtype, rows, cs_columns(x));
}

/* Finite rows are within 2e-7 (losses), or the error of two roundings (gradients); in other rows the same elements are
 * NaN or the same infinity. */
static void check_against(const entropy_case *all, cs_tensor got, cs_tensor want, double tolerance)
{
    cs_tensor finite = first_rows(want, all->finite);
    ck_assert(near_tensors("cross-entropy", first_rows(got, all->finite), finite, tolerance));
    for (int64_t i = cs_count(finite); i < cs_count(want); i++) {
        double x = near_element(got, i), y = near_element(want, i);
        ck_assert_msg(isnan(y)   ? isnan(x)
                      : isinf(y) ? x == y
                                 : fabs(x - y) <= 1e-5,
                      "element %lld: %g, not %g", (long long)i, x, y);
    }
}

static void check_loops(const entropy_case *all, cs_tensor loss)
{
    double *x = near_doubles(all->logits), want[MAX_ROWS] = { 0 }, lse;
    for (int64_t row = 0; row < all->finite; row++)
        if (all->targets[row] >= 0)
            want[row] = reference_cross_entropy(&lse, x + row * all->columns, (int)all->columns, all->targets[row]);
    ck_assert(near_all("cross-entropy and loops", first_rows(loss, all->finite), want, 1e-6));
    free(x);
}

/* Computes the whole operation. */
static entropy_result whole_of(const entropy_case *all, cs_tensor targets, cs_tensor dloss)
{
    entropy_result whole = { near_copy(all->logits), near_new(CS_F32, all->rows, 1), near_new(CS_F32, all->rows, 1) };
    cs_op_hits(stream, near_at(whole.hits), near_at(whole.logits), near_at(targets), all->columns);
    cs_op_cross_entropy(stream, near_at(whole.loss), near_at(whole.logits), near_at(targets), all->columns,
                        near_at(dloss));
    near_fetch();
    return whole;
}

/* Compares the facts of one rank's columns, `part`, with loops. */
static void check_facts(const entropy_case *all, const float *facts, cs_tensor part, share at)
{
    for (int64_t row = 0; row < all->finite; row++, facts += CS_ENTROPY_FACTS) {
        int64_t own = all->targets[row] - at.first, best = -1;
        double max = -(double)INFINITY, sum = 0;
        if (all->targets[row] < 0) {
            ck_assert(facts[0] == 0 && facts[1] == 0 && facts[2] == 0 && facts[3] == 0);
            continue;
        }
        for (int64_t i = 0; i < at.count; i++)
            if (near_element(part, row * at.room + i) > max)
                max = near_element(part, row * at.room + (best = i));
        for (int64_t i = 0; i < at.count; i++)
            sum += exp(near_element(part, row * at.room + i) - max);
        bool here = own >= 0 && own < at.count;
        ck_assert_double_eq((double)facts[0], max);
        ck_assert_double_le(fabs((double)facts[1] - sum), 1e-6 * sum);
        ck_assert_double_eq((double)facts[2], here ? near_element(part, row * at.room + own) : -(double)INFINITY);
        ck_assert_double_eq((double)facts[3], here && own == best);
    }
}

static cs_tensor facts_of(const entropy_case *all, cs_tensor targets, int ranks)
{
    cs_tensor facts = near_new(CS_F32, ranks * all->rows, CS_ENTROPY_FACTS);
    for (int rank = 0; rank < ranks; rank++) {
        share at = share_of(all->columns, rank, ranks);
        cs_tensor part = share_columns(all->logits, at), kept = near_copy(part);
        cs_tensor own = facts;
        own.data = (float *)facts.data + rank * all->rows * CS_ENTROPY_FACTS;
        own = first_rows(own, all->rows);
        cs_op_entropy_facts(stream, near_at(own), near_at(part), near_at(targets), at.first, at.count);
        near_fetch();
        ck_assert(near_same_bits("logits, of which the facts are", part, kept));
        check_facts(all, own.data, part, at);
        SHARE_FREE(part, kept);
    }
    return facts;
}

static entropy_result finish(const entropy_case *all, cs_tensor targets, cs_tensor dloss, cs_tensor facts, share at)
{
    entropy_result part = { share_columns(all->logits, at), near_new(CS_F32, all->rows, 1),
                            near_new(CS_F32, all->rows, 1) };
    cs_tensor kept = near_copy(part.logits), loss = near_new(CS_F32, all->rows, 1);
    cs_op_entropy_finish(stream, near_at(loss), absent, near_at(part.logits), near_at(targets), at.first, at.count,
                         absent, near_at(facts), (cs_entropy_terms){ 0 });
    near_fetch();
    ck_assert(near_same_bits("logits, where no gradient is asked for", part.logits, kept));
    cs_op_entropy_finish(stream, near_at(part.loss), near_at(part.hits), near_at(part.logits), near_at(targets),
                         at.first, at.count, near_at(dloss), near_at(facts), (cs_entropy_terms){ 0 });
    near_fetch();
    ck_assert(near_same_bits("loss with a gradient and without", loss, part.loss));
    SHARE_FREE(kept, loss);
    return part;
}

/* Puts the gradients of one rank to their columns of `to`, and checks that those of padding are 0. */
static void place_columns(cs_tensor to, cs_tensor part, share at)
{
    for (int64_t i = 0; i < cs_count(part); i++) {
        int64_t column = i % at.room;
        if (column < at.count)
            near_set(to, i / at.room * cs_columns(to) + at.first + column, near_element(part, i));
        else
            ck_assert_double_eq(near_element(part, i), 0);
    }
}

static void check_entropy_of(cs_dtype dtype, int ranks, int64_t columns)
{
    entropy_case all = make_case(dtype, columns);
    cs_tensor targets = near_new(CS_I32, all.rows, 1), dloss = near_random(CS_F32, all.rows, 1, 2, 1);
    memcpy(targets.data, all.targets, (size_t)all.rows * sizeof *all.targets);
    entropy_result whole = whole_of(&all, targets, dloss), first = { 0 };
    cs_tensor facts = facts_of(&all, targets, ranks), together = near_new(dtype, all.rows, columns);
    for (int rank = 0; rank < ranks; rank++) {
        share at = share_of(columns, rank, ranks);
        entropy_result part = finish(&all, targets, dloss, facts, at);
        place_columns(together, part.logits, at);
        near_free(part.logits);
        if (rank == 0) {
            first = part;
            continue;
        }
        ck_assert(near_same_bits("loss of each rank", part.loss, first.loss));
        ck_assert(near_same_bits("hits of each rank", part.hits, first.hits));
        SHARE_FREE(part.loss, part.hits);
    }
    check_loops(&all, first.loss);
    check_against(&all, first.loss, whole.loss, 2e-7);
    ck_assert(near_same_bits("hits", first.hits, whole.hits));
    check_against(&all, together, whole.logits, 1e-6);
    SHARE_FREE(all.logits, targets, dloss, whole.logits, whole.loss, whole.hits, first.loss, first.hits, facts,
               together);
}

static void check_entropy(cs_stream *given, cs_dtype dtype, int ranks)
{
    stream = given;
    check_entropy_of(dtype, ranks, 1);
    check_entropy_of(dtype, ranks, 8);
    check_entropy_of(dtype, ranks, 63);
    check_entropy_of(dtype, ranks, 6000);
}

START_TEST(logits_are_divided_by_columns)
{
    share_for_all(check_entropy);
}
END_TEST

SUITE_MAIN("cut_ops", tables_are_divided_by_rows, logits_are_divided_by_columns)
