/* test_blocks.c - optimizer state in blocks: the maps and the updates are those of bitsandbytes; codes are nearest values;
 * the bits do not depend on threads or on how a parameter is divided into ranges. */
#include "golden.h"
#include "near.h"
#include "suite.h"

#include "base/dynamic_map.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static cs_stream *stream;

static golden *open_file(void)
{
    return golden_open(CS_SOURCE "/tests/golden/blocks.golden");
}

START_TEST(maps_are_those_of_bitsandbytes)
{
    golden *file = open_file();
    size_t bytes = sizeof ce_dynamic_signed()->value;
    ck_assert_mem_eq(ce_dynamic_signed()->value, golden_tensor(file, "signed").data, bytes);
    ck_assert_mem_eq(ce_dynamic_unsigned()->value, golden_tensor(file, "unsigned").data, bytes);
    golden_close(file);
}
END_TEST

/* Finds the nearest code by a search of all values. */
static int search(const ce_dynamic_map *map, float x)
{
    int best = 0;
    for (int i = 1; i < CE_DYNAMIC_CODES; i++)
        if (x > (map->value[i - 1] + map->value[i]) / 2)
            best = i;
    return best;
}

START_TEST(codes_are_nearest)
{
    const ce_dynamic_map *maps[] = { ce_dynamic_signed(), ce_dynamic_unsigned() };
    for (int m = 0; m < 2; m++) {
        const ce_dynamic_map *map = maps[m];
        for (int i = 0; i < CE_DYNAMIC_CODES; i++) {
            ck_assert_int_eq(ce_dynamic_code(map, map->value[i]), i);
            float middle = i ? (map->value[i - 1] + map->value[i]) / 2 : 0;
            for (int k = -1; i && k <= 1; k++) {
                float x = k ? nextafterf(middle, k < 0 ? -2.0f : 2.0f) : middle;
                ck_assert_int_eq(ce_dynamic_code(map, x), search(map, x));
            }
        }
        for (float x = m ? 0 : -1; x <= 1; x += 0x1p-13f)
            ck_assert_int_eq(ce_dynamic_code(map, x), search(map, x));
        ck_assert_int_eq(ce_dynamic_code(map, 1e-30f), map->zero);
        ck_assert_int_eq(ce_dynamic_code(map, NAN), map->zero);
    }
}
END_TEST

/* ---- updates ---- */

enum { BLOCKS = 4, COUNT = 1000, STEPS = 3 };

/* The parameter at step 0, then the gradients, as in tests/golden/make_blocks.py. */
static void fill(cs_tensor x, int64_t count, int64_t step)
{
    for (int64_t i = 0; i < count; i++)
        ((float *)x.data)[i] =
            (float)((i * 40503 + step * 30011) % 65536 - 32768) / 65536 * (float)exp2(-(double)(i % 23));
}

typedef struct {
    int64_t count;
    cs_tensor value, gradient, codes[CE_OPTIM_SLOTS], scales[CE_OPTIM_SLOTS]; /* codes: four in an element */
} state;

static state make(int64_t count)
{
    state made = { .count = count, .value = near_new(CS_F32, 1, count), .gradient = near_new(CS_F32, 1, count) };
    for (int slot = 0; slot < CE_OPTIM_SLOTS; slot++) {
        made.codes[slot] = near_new(CS_I32, 1, (count + 3) / 4);
        made.scales[slot] = near_new(CS_F32, 1, (count + CE_OPTIM_BLOCK - 1) / CE_OPTIM_BLOCK);
    }
    fill(made.value, count, 0);
    return made;
}

static void drop(state *all)
{
    near_free(all->value), near_free(all->gradient);
    for (int slot = 0; slot < CE_OPTIM_SLOTS; slot++)
        near_free(all->codes[slot]), near_free(all->scales[slot]);
}

static void apply(state *all, const ce_optim_settings *settings, ce_state_range *ranges, int64_t count, int step)
{
    ce_optimizer optimizer = ce_optim_find(settings);
    ce_state_rows rows = { .master = near_at(all->value),
                           .gradient = near_at(all->gradient),
                           .ranges = near_ranges(near_at, ranges, count) };
    for (int slot = 0; slot < optimizer.slots; slot++) {
        rows.slots[slot] = cs_vector(near_at(all->codes[slot]).data, CS_U8, all->count);
        rows.scales[slot] = near_at(all->scales[slot]).data;
    }
    ce_state_update(stream, &optimizer, ce_optim_hyper(settings, 0.01, step, 1), &rows);
    near_fetch();
}

static void update(state *all, const ce_optim_settings *settings, ce_state_range *ranges, int64_t count, int step)
{
    fill(all->gradient, all->count, step);
    apply(all, settings, ranges, count, step);
}

static ce_optim_settings settings_of(ce_optim_kind kind)
{
    return (ce_optim_settings){ .kind = (int)kind,
                                .betas = { 0.9, 0.99 },
                                .epsilon = 1e-8,
                                .weight_decay = 0.1,
                                .bias_correction = true,
                                .bits = 8 };
}

/* The library computes the same sums in another order, so a value near a midpoint may get the neighbouring code. */
static void compare(golden *file, const char *name, const state *all, int slot)
{
    char at[32];
    int other = 0;
    snprintf(at, sizeof at, "%s.codes%d", name, slot);
    const uint8_t *got = all->codes[slot].data, *want = golden_tensor(file, at).data;
    for (int i = 0; i < COUNT; i++) {
        ck_assert_msg(abs(got[i] - want[i]) <= 1, "%s[%d]: %d and %d", at, i, got[i], want[i]);
        other += got[i] != want[i];
    }
    ck_assert_msg(other <= 3, "%s: %d codes differ", at, other);
    snprintf(at, sizeof at, "%s.scales%d", name, slot);
    ck_assert(near_tensors(at, all->scales[slot], golden_tensor(file, at), 1e-6));
}

START_TEST(updates_are_those_of_bitsandbytes)
{
    static const struct {
        ce_optim_kind kind;
        int slots;
        const char *name, *value;
    } all[] = { { CE_OPTIM_ADAMW, 2, "adam", "adam.value" }, { CE_OPTIM_LION, 1, "lion", "lion.value" } };
    golden *file = open_file();
    stream = ce_device_stream(near_open(near_threads(2)), CE_COMPUTE);
    for (int i = 0; i < 2; i++) {
        state made = make(COUNT);
        ce_optim_settings settings = settings_of(all[i].kind);
        for (int step = 1; step <= STEPS; step++)
            update(&made, &settings, &(ce_state_range){ .to = COUNT, .decays = 1 }, 1, step);
        ck_assert(near_tensors(all[i].value, made.value, golden_tensor(file, all[i].value), 1e-6));
        for (int slot = 0; slot < all[i].slots; slot++)
            compare(file, all[i].name, &made, slot);
        drop(&made);
    }
    near_close();
    golden_close(file);
}
END_TEST

START_TEST(bits_do_not_depend_on_threads_and_ranges)
{
    enum { MANY = 100000, CUT = 51200 };
    const ce_optim_settings settings = settings_of(CE_OPTIM_ADAMW);
    state one = make(MANY), two = make(MANY);
    ce_state_range parts[] = { { .to = CUT, .decays = 1 },
                               { .from = CUT, .to = MANY, .slots = { CUT, CUT }, .decays = 1 } };
    stream = ce_device_stream(near_open(1), CE_COMPUTE);
    for (int step = 1; step <= STEPS; step++)
        update(&one, &settings, &(ce_state_range){ .to = MANY, .decays = 1 }, 1, step);
    near_close();
    stream = ce_device_stream(near_open(near_threads(3)), CE_COMPUTE);
    for (int step = 1; step <= STEPS; step++)
        update(&two, &settings, parts, 2, step);
    near_close();
    ck_assert(near_same_bits("value", two.value, one.value));
    for (int slot = 0; slot < CE_OPTIM_SLOTS; slot++) {
        ck_assert(near_same_bits("codes", two.codes[slot], one.codes[slot]));
        ck_assert(near_same_bits("scales", two.scales[slot], one.scales[slot]));
    }
    drop(&one);
    drop(&two);
}
END_TEST

/* A gradient that is not finite must not disappear in a code. */
START_TEST(infinite_gradients_are_seen)
{
    const ce_optim_settings settings = settings_of(CE_OPTIM_ADAMW);
    const float bad[] = { NAN, INFINITY, -INFINITY };
    stream = ce_device_stream(near_open(1), CE_COMPUTE);
    for (int i = 0; i < 3; i++) {
        state made = make(2 * CE_OPTIM_BLOCK);
        ((float *)made.gradient.data)[300] = bad[i];
        apply(&made, &settings, &(ce_state_range){ .to = made.count, .decays = 1 }, 1, 1);
        ck_assert(isnan(near_element(made.value, 300)));
        ck_assert(isfinite(near_element(made.value, 299)) && isfinite(near_element(made.scales[0], 0)));
        ck_assert(!isfinite(near_element(made.scales[0], 1)));
        drop(&made);
    }
    near_close();
}
END_TEST

SUITE_MAIN("blocks", maps_are_those_of_bitsandbytes, codes_are_nearest, updates_are_those_of_bitsandbytes,
           bits_do_not_depend_on_threads_and_ranges, infinite_gradients_are_seen)
