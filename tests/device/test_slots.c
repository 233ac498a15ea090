/* test_slots.c - operations of mixtures of experts beside the routing, compared with plain loops in double precision:
 * copies of rows to slots, sums of slots, factors of rows, and the load-balancing loss. */
#include "near.h"
#include "suite.h"

#include "device/device.h"
#include "cspeed/ops.h"

#include <math.h>
#include <stdlib.h>

static cs_stream *stream;

static int32_t *numbers(cs_tensor x)
{
    return x.data;
}

/* ---- slots ---- */

/* Every row has `chosen` slots. Slot numbers have no order, as far as these operations are concerned. */
static void check_slots(cs_dtype dtype, cs_dtype sum_type, int columns, int chosen)
{
    enum { ROWS = 51 };
    int slots = ROWS * chosen;
    cs_routing here = { .rows = near_new(CS_I32, slots, 1), .slots = near_new(CS_I32, ROWS, chosen) };
    cs_tensor x = near_random(dtype, ROWS, columns, 1, 1), taken = near_new(dtype, slots, columns);
    cs_tensor other = near_random(dtype, slots, columns, 2, 1), sum = near_new(sum_type, ROWS, columns);
    double *want = near_doubles(sum);
    for (int i = 0; i < slots; i++) {
        numbers(here.slots)[i] = i * 79 % slots; /* 79 has no common factor with `slots` */
        numbers(here.rows)[i * 79 % slots] = i / chosen;
    }
    cs_routing there = { .rows = near_at(here.rows), .slots = near_at(here.slots) };
    cs_op_take_slots(stream, near_at(taken), near_at(x), &there);
    cs_op_add_slots(stream, near_at(sum), near_at(other), &there);
    near_fetch();
    for (int slot = 0; slot < slots; slot++)
        for (int i = 0, row = numbers(here.rows)[slot]; i < columns; i++) {
            ck_assert(near_element(taken, slot * columns + i) == near_element(x, row * columns + i));
            want[row * columns + i] += near_element(other, slot * columns + i);
        }
    ck_assert(near_all("add_slots", sum, want, 1e-6));
    free(want);
    near_free(x), near_free(taken), near_free(sum), near_free(other), near_free(here.rows), near_free(here.slots);
}

START_TEST(rows_are_copied_and_summed)
{
    stream = ce_device_stream(near_open(2), CE_COMPUTE);
    check_slots(CS_F32, CS_F32, 70, 3);
    check_slots(CS_BF16, CS_BF16, 72, 8);
    check_slots(CS_BF16, CS_F32, 72, 1);
    check_slots(CS_F16, CS_F16, 2051, 5);
    near_close();
}
END_TEST

/* ---- factors of rows, and the load-balancing loss ---- */

/* `factor_type`: the type of the factors and of their gradient. */
static void check_scale(cs_dtype dtype, cs_dtype factor_type, int columns, bool logistic)
{
    enum { ROWS = 30 };
    cs_tensor x = near_random(dtype, ROWS, columns, 1, 1), dy = near_random(dtype, ROWS, columns, 2, 1);
    cs_tensor factors = near_random(factor_type, ROWS, 1, 3, 2), dfactors = near_new(factor_type, ROWS, 1);
    cs_tensor y = near_new(dtype, ROWS, columns), dx = near_new(dtype, ROWS, columns);
    double *want_y = near_doubles(y), *want_dx = near_doubles(dx), want_df[ROWS];
    for (int row = 0; row < ROWS; row++) {
        double given = near_element(factors, row), factor = logistic ? 1 / (1 + exp(-given)) : given, dot = 0;
        for (int i = row * columns; i < (row + 1) * columns; i++) {
            want_y[i] = factor * near_element(x, i);
            want_dx[i] = factor * near_element(dy, i);
            dot += near_element(x, i) * near_element(dy, i);
        }
        want_df[row] = dot * (logistic ? factor * (1 - factor) : 1);
    }
    cs_op_scale_rows(stream, near_at(y), near_at(x), near_at(factors), logistic);
    cs_op_scale_rows_grad(stream, near_at(dx), near_at(dfactors), near_at(dy), near_at(x), near_at(factors), logistic);
    near_fetch();
    ck_assert(near_all("scale_rows", y, want_y, 1e-6));
    ck_assert(near_all("scale_rows_grad", dx, want_dx, 1e-6));
    ck_assert(near_all("scale_rows_grad of factors", dfactors, want_df, 2e-6));
    cs_op_scale_rows_grad(stream, near_at(dy), near_at(dfactors), near_at(dy), near_at(x), near_at(factors), logistic);
    cs_op_scale_rows(stream, near_at(x), near_at(x), near_at(factors), logistic);
    near_fetch();
    ck_assert(near_same_bits("scale_rows_grad in place", dy, dx));
    ck_assert(near_same_bits("scale_rows in place", x, y));
    ck_assert(near_all("scale_rows_grad of factors, in place", dfactors, want_df, 2e-6));
    free(want_y), free(want_dx);
    near_free(x), near_free(dy), near_free(factors), near_free(dfactors), near_free(y), near_free(dx);
}

START_TEST(rows_have_factors)
{
    stream = ce_device_stream(near_open(2), CE_COMPUTE);
    check_scale(CS_F32, CS_F32, 1100, false);
    check_scale(CS_F32, CS_F32, 1104, true);
    check_scale(CS_BF16, CS_BF16, 1104, true);
    check_scale(CS_BF16, CS_F32, 1408, false);
    check_scale(CS_F16, CS_F16, 5, true);
    near_close();
}
END_TEST

/* The formula of transformers' load_balancing_loss_func, and its derivative. */
static void check_balance(int layers, int rows, int experts)
{
    cs_tensor tokens = near_new(CS_I32, layers, experts), probabilities = near_random(CS_F32, layers, experts, 1, 3);
    cs_tensor loss = near_random(CS_F32, rows, 1, 2, 1), targets = near_new(CS_I32, rows, 1);
    cs_tensor weights = near_random(CS_F32, rows, 1, 3, 1), slopes = near_new(CS_F32, experts, 1);
    double *want = near_doubles(loss), *slope = near_doubles(slopes), all = layers * rows, weight = 0, value = 0;
    for (int row = 0; row < rows; row++) {
        numbers(targets)[row] = row % 4 == 1 ? -1 : row;
        near_set(weights, row, fabs(near_element(weights, row)));
        weight += row % 4 == 1 ? 0 : near_element(weights, row);
    }
    for (int e = 0; e < experts; e++) {
        double n = 0, p = 0;
        for (int cell = e; cell < layers * experts; cell += experts) {
            near_set(probabilities, cell, fabs(near_element(probabilities, cell)));
            n += numbers(tokens)[cell] = (cell * 7 + 3) % 11;
            p += near_element(probabilities, cell);
        }
        value += 0.5 * experts * (n / all) * (p / all);
        slope[e] = weight * 0.5 * experts * (n / all) / all;
    }
    for (int row = 0; row < rows; row++)
        want[row] += row % 4 == 1 ? 0 : value;
    cs_balance given = { near_at(tokens), near_at(probabilities), near_at(slopes), 0.5f };
    cs_op_balance(stream, &given, near_at(loss), near_at(targets), near_at(weights));
    near_fetch();
    ck_assert(near_all("loss", loss, want, 1e-6));
    ck_assert(near_all("gradient of probabilities", slopes, slope, 1e-6));
    free(want), free(slope);
    near_free(tokens), near_free(probabilities), near_free(slopes);
    near_free(loss), near_free(targets), near_free(weights);
}

START_TEST(load_balancing_loss)
{
    stream = ce_device_stream(near_open(1), CE_COMPUTE);
    check_balance(3, 10, 4);
    check_balance(2, 1500, 600);
    near_close();
}
END_TEST

SUITE_MAIN("slots", rows_are_copied_and_summed, rows_have_factors, load_balancing_loss)
