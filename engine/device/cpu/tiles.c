/* tiles.c - opening the tile registers, and the model of their instructions for sets of instructions without AMX.
 *
 * The model follows Intel's description of TDPBF16PS. Products with an even inner index and products with an odd one
 * are added up separately, by fused multiply-adds; then the two sums are added to each other, and to the tile. Numbers
 * below 2^-126 count as 0, both factors and results. */
#include "device/cpu/tiles.h"

#ifdef CE_TILES_ARE_INSTRUCTIONS

void ce_tiles_open(void)
{
    /* the memory operand of LDTILECFG: palette 1 has tiles of at most 16 rows of 64 bytes */
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = { .palette = 1 };
    for (int i = 0; i < CE_TILES; i++) {
        config.row_bytes[i] = CE_TILE_ROW_BYTES;
        config.rows[i] = CE_TILE_ROWS;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
}

void ce_tiles_close(void)
{
    __asm__ volatile("tilerelease");
}

#else

#include "base/half.h"
#include "base/must.h"

#include <math.h>
#include <string.h>

enum { LANES = CE_TILE_ROW_BYTES / 4 };

static _Thread_local struct {
    bool open;
    _Alignas(64) uint32_t word[CE_TILES][CE_TILE_ROWS][LANES];
} tiles;

void ce_tiles_open(void)
{
    memset(&tiles, 0, sizeof tiles);
    tiles.open = true;
}

void ce_tiles_close(void)
{
    tiles.open = false;
}

static void check(int tile)
{
    CE_ASSERT(tiles.open && tile >= 0 && tile < CE_TILES);
}

void ce_tiles_load(int tile, const void *from, int64_t stride)
{
    check(tile);
    for (int row = 0; row < CE_TILE_ROWS; row++)
        memcpy(tiles.word[tile][row], (const char *)from + row * stride, CE_TILE_ROW_BYTES);
}

void ce_tiles_store(int tile, void *to, int64_t stride)
{
    check(tile);
    for (int row = 0; row < CE_TILE_ROWS; row++)
        memcpy((char *)to + row * stride, tiles.word[tile][row], CE_TILE_ROW_BYTES);
}

void ce_tiles_zero(int tile)
{
    check(tile);
    memset(tiles.word[tile], 0, CE_TILE_BYTES);
}

/* Returns x, or 0 with the sign of x if |x| is below 2^-126. */
static inline float flush(float x)
{
    uint32_t bits = ce_float_bits(x);
    return ce_bits_float(bits & 0x7f800000 ? bits : bits & 0x80000000);
}

static inline float add_product(float sum, uint32_t a, uint32_t b)
{
    return flush(fmaf(flush(ce_bits_float(a)), flush(ce_bits_float(b)), sum));
}

void ce_tiles_multiply(int sums, int a, int b)
{
    check(sums), check(a), check(b);
    CE_ASSERT(sums != a && sums != b && a != b);
    for (int row = 0; row < CE_TILE_ROWS; row++) {
        float even[LANES] = { 0 }, odd[LANES] = { 0 };
        for (int pair = 0; pair < LANES; pair++) {
            uint32_t x = tiles.word[a][row][pair];
            const uint32_t *y = tiles.word[b][pair];
            for (int lane = 0; lane < LANES; lane++) {
                even[lane] = add_product(even[lane], x << 16, y[lane] << 16);
                odd[lane] = add_product(odd[lane], x & 0xffff0000, y[lane] & 0xffff0000);
            }
        }
        for (int lane = 0; lane < LANES; lane++) {
            float sum = flush(ce_bits_float(tiles.word[sums][row][lane]));
            tiles.word[sums][row][lane] = ce_float_bits(flush(sum + flush(even[lane] + odd[lane])));
        }
    }
}

#endif
