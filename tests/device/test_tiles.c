/* test_tiles.c - the tile registers of AMX, as instructions in the set amx and as plain C in the other sets: loads and
 * stores, the product bit for bit as Intel describes it, and that released registers are not used. */
#include "near.h"
#include "suite.h"

#include "base/half.h"
#include "device/cpu/tiles.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STRIDE = 96, SEED = 5, ROUNDS = 200, SPECIALS = 6 };

static uint64_t state = SEED;

static uint32_t draw(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

START_TEST(rows_are_loaded_and_stored)
{
    unsigned char from[CE_TILE_ROWS][STRIDE], to[CE_TILE_ROWS][STRIDE];
    for (int i = 0; i < CE_TILE_ROWS * STRIDE; i++)
        from[i / STRIDE][i % STRIDE] = (unsigned char)draw();
    memset(to, 0, sizeof to);
    ce_tiles_open();
    CE_TILES_LOAD(3, from, STRIDE);
    CE_TILES_STORE(3, to, STRIDE);
    for (int row = 0; row < CE_TILE_ROWS; row++) {
        ck_assert_mem_eq(to[row], from[row], CE_TILE_ROW_BYTES);
        for (int i = CE_TILE_ROW_BYTES; i < STRIDE; i++)
            ck_assert_int_eq(to[row][i], 0);
    }
    from[5][7] = (unsigned char)~from[5][7]; /* a store just before a load is seen by the load */
    CE_TILES_LOAD(7, from, STRIDE);
    CE_TILES_STORE(7, to, STRIDE);
    ck_assert_int_eq(to[5][7], from[5][7]);
    CE_TILES_ZERO(7);
    CE_TILES_STORE(7, to, STRIDE);
    for (int i = 0; i < CE_TILE_ROWS * STRIDE; i++)
        ck_assert_int_eq(to[i / STRIDE][i % STRIDE], 0);
    ce_tiles_close();
}
END_TEST

/* ---- the product ---- */

static float flushed(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

/* Returns one sum after a product: even and odd inner indices are added up separately. */
static float expected(float sum, const uint16_t *a, uint16_t b[][CE_TILE_DEPTH], int column)
{
    float part[2] = { 0, 0 };
    for (int k = 0; k < CE_TILE_DEPTH; k++) {
        float x = flushed(ce_bf16_to_float(a[k])), y = flushed(ce_bf16_to_float(b[k / 2][2 * column + k % 2]));
        part[k % 2] = flushed(fmaf(x, y, part[k % 2]));
    }
    return flushed(flushed(sum) + flushed(part[0] + part[1]));
}

/* Elements with exponents over a range of about 2 * `spread`, and now and then a special value. */
static uint16_t element(int spread, bool special)
{
    static const uint16_t specials[SPECIALS] = { 0x8000, 0x0001, 0x807f, 0x0080, 0x7f80, 0xff80 };
    if (special && draw() % 97 == 0)
        return specials[draw() % SPECIALS];
    uint32_t exponent = 127 - (uint32_t)spread + draw() % (2 * (uint32_t)spread);
    return (uint16_t)((draw() & 0x807f) | exponent << 7);
}

static void check_product(int spread, bool special)
{
    uint16_t a[CE_TILE_ROWS][CE_TILE_DEPTH], b[CE_TILE_ROWS][CE_TILE_DEPTH];
    float before[CE_TILE_ROWS][CE_TILE_ROWS], after[CE_TILE_ROWS][CE_TILE_ROWS];
    for (int i = 0; i < CE_TILE_ROWS; i++) {
        for (int j = 0; j < CE_TILE_DEPTH; j++) {
            a[i][j] = element(spread, special);
            b[i][j] = element(spread, special);
        }
        for (int j = 0; j < CE_TILE_ROWS; j++)
            before[i][j] = ce_bf16_to_float(element(spread, special));
    }
    ce_tiles_open();
    CE_TILES_LOAD(0, before, CE_TILE_ROW_BYTES);
    CE_TILES_LOAD(4, a, CE_TILE_ROW_BYTES);
    CE_TILES_LOAD(6, b, CE_TILE_ROW_BYTES);
    CE_TILES_MULTIPLY(0, 4, 6);
    CE_TILES_STORE(0, after, CE_TILE_ROW_BYTES);
    ce_tiles_close();
    for (int i = 0; i < CE_TILE_ROWS; i++)
        for (int j = 0; j < CE_TILE_ROWS; j++) {
            float want = expected(before[i][j], a[i], b, j), got = after[i][j];
            ck_assert_msg((isnan(want) && isnan(got)) || ce_float_bits(want) == ce_float_bits(got),
                          "row %d, column %d: %a, not %a", i, j, (double)got, (double)want);
        }
}

START_TEST(products_are_those_of_the_instruction)
{
    for (int round = 0; round < ROUNDS; round++) {
        check_product(2, false);
        check_product(20, true);
        check_product(120, true); /* products and sums below 2^-126, and overflow */
    }
}
END_TEST

/* Any call of oneDNN may release the registers. A kernel that relies on an earlier ce_tiles_open must not pass. */
START_TEST(released_tiles_are_not_used)
{
    static char memory[CE_TILE_BYTES];
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        ce_tiles_open();
        ce_tiles_close();
        CE_TILES_LOAD(0, memory, CE_TILE_ROW_BYTES);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
}
END_TEST

SUITE_MAIN("tiles", rows_are_loaded_and_stored, products_are_those_of_the_instruction, released_tiles_are_not_used)
