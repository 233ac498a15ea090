/* tile_product.c - matrix products on tiles: four of the eight registers hold a block of 32 x 32 sums, two hold 32 rows
 * of a, and two hold 32 columns of b.
 *
 * Both operands are packed (tile_pack.h): rows of a in blocks that take a part of the second-level cache, and b in
 * panels of 32 columns, of which a slice of PART_STEPS steps stays in the first-level cache while all strips of a are
 * multiplied by it. Between slices the sums are in dense memory of 4 KB a block: this costs less than reading both
 * operands from the second-level cache, and rows of c, which are often a multiple of 4,096 bytes apart, would compete
 * for the same cache sets.
 *
 * While the tiles of a block are multiplied, the rest of the core is idle. So the loop over steps also writes rows of
 * the block before (bias, rounding, addition to c), and fetches rows of c that the next block needs, to the second-level
 * cache: in the first-level cache they would displace the slice. GELU is no part of this: it was slower here than in a
 * pass of its own, because its instructions keep the processor from running ahead to the next tiles. */
#include "device/cpu/tile_product.h"
#include "device/cpu/elements.h"
#include "device/cpu/lanes.h"

/* A product with more inner indices than are packed together keeps the sums of BAND_ROWS x BAND_COLUMNS elements of
 * c. */
enum {
    SIDE = CE_TILE_PACK_SIDE,
    STEP = CE_TILE_PACK_STEP,
    PART_STEPS = 8,
    BLOCK_BYTES = 768 << 10,
    BLOCK_ROWS = 512,
    BAND_ROWS = 1024,
    BAND_COLUMNS = 2048
};

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The sizes of a product's blocks, and its scratch memory. */
typedef struct {
    const ce_tile_product *product;
    int parts;
    /* what is packed together: inner indices, rows of a, and panels of b, which are 512 bytes of a row in memory */
    int64_t depth, rows, group;
    int64_t band_rows;        /* rows of c that are computed with one packed copy of b */
    bool keeps_b, keeps_sums; /* whether all panels of a band stay packed, and whether all its sums are kept */
    char *a, *b;
    float *sums;
} plan;

static plan plan_of(int64_t m, int64_t k, int parts)
{
    int64_t depth = parts == 1 ? 1024 : 768;
    plan all = { .parts = parts, .depth = ce_round_up(min(k, depth), SIDE), .group = parts == 1 ? 8 : 4 };
    int64_t fit = BLOCK_BYTES / (all.depth * parts * (int64_t)sizeof(uint16_t)) / SIDE * SIDE;
    all.rows = min(min(fit, BLOCK_ROWS), ce_round_up(m, SIDE));
    all.keeps_sums = k > all.depth;
    all.band_rows = all.keeps_sums ? min(BAND_ROWS, m) : m;
    all.keeps_b = all.band_rows > all.rows;
    return all;
}

/* The bytes of each part of the scratch memory. None of them is less for a larger product. */
static int64_t bytes_of_a(const plan *all, int64_t m)
{
    return min(ce_tile_pack_bytes(m, all->depth, all->parts), BLOCK_BYTES);
}

static int64_t bytes_of_b(const plan *all, int64_t n)
{
    int64_t panels = all->keeps_b ? ce_divide_up(min(n, BAND_COLUMNS), SIDE) : 0;
    return ce_tile_pack_bytes((panels > all->group ? panels : all->group) * SIDE, all->depth, all->parts);
}

static int64_t bytes_of_sums(const plan *all, int64_t m, int64_t n)
{
    int64_t blocks = all->keeps_sums ? ce_divide_up(all->band_rows, SIDE) * ce_divide_up(min(n, BAND_COLUMNS), SIDE)
                                     : ce_divide_up(min(m, BLOCK_ROWS), SIDE);
    return blocks * SIDE * SIDE * (int64_t)sizeof(float);
}

size_t ce_tile_product_scratch(int64_t m, int64_t n, int64_t k, int parts)
{
    plan all = plan_of(m, k, parts);
    return (size_t)(bytes_of_a(&all, m) + bytes_of_b(&all, n) + bytes_of_sums(&all, m, n));
}

/* ---- what is done with the sums ---- */

typedef struct {
    const float *sums; /* NULL: there is no block */
    int64_t row, column, rows, columns;
} block;

/* Writes one row of a block that is narrower than SIDE. */
static void write_edge(const ce_tile_product *to, const float *sums, int64_t at, int64_t column, int64_t columns)
{
    float x[SIDE], wide[SIDE];
    memcpy(x, sums, sizeof x);
    if (to->bias.data)
        ce_elements_add(x, ce_elements_read(to->bias, column, columns, wide), columns);
    if (to->add)
        ce_elements_add(x, (const float *)to->c.data + at, columns);
    ce_elements_write(to->c, at, columns, x);
}

static inline void write_row(const ce_tile_product *to, const block *from, int64_t row)
{
    const float *sums = from->sums + row * SIDE;
    int64_t at = (from->row + row) * to->ldc + from->column;
    if (row >= from->rows)
        return;
    if (from->columns < SIDE) {
        write_edge(to, sums, at, from->column, from->columns);
        return;
    }
#pragma GCC unroll 4
    for (int j = 0; j < SIDE; j += CE_LANES) {
        ce_lanes x = *(const ce_lanes *)(sums + j);
        if (to->bias.data)
            x += ce_lanes_load(to->bias.data, from->column + j, to->bias.dtype);
        if (to->c.dtype == CS_F32) {
            ce_lanes *c = (ce_lanes *)((float *)to->c.data + at + j);
            if (to->add)
                x += *c;
            *c = x;
        } else {
            ce_lanes_narrow((uint16_t *)to->c.data + at + j, x);
        }
    }
}

/* ---- a block of 32 x 32 sums ---- */

/* What else the loop over steps does. */
typedef struct {
    block before;
    const char *next; /* the first row of c that the next block needs; NULL: there is none */
    int64_t stride;   /* in bytes */
} beside;

static inline void multiply_all(void)
{
    CE_TILES_MULTIPLY(0, 4, 6);
    CE_TILES_MULTIPLY(1, 4, 7);
    CE_TILES_MULTIPLY(2, 5, 6);
    CE_TILES_MULTIPLY(3, 5, 7);
}

static inline void load_a(const char *a)
{
    CE_TILES_LOAD(4, a, CE_TILE_ROW_BYTES);
    CE_TILES_LOAD(5, a + CE_TILE_BYTES, CE_TILE_ROW_BYTES);
}

static inline void load_b(const char *b)
{
    CE_TILES_LOAD(6, b, CE_TILE_ROW_BYTES);
    CE_TILES_LOAD(7, b + CE_TILE_BYTES, CE_TILE_ROW_BYTES);
}

/* Adds the products of one step. Products of small parts come first. The order needs few loads. */
static inline void multiply_step(const char *a, const char *b, int parts)
{
    if (parts == 1) { /* each load is followed by a product that needs only what is loaded */
        CE_TILES_LOAD(6, b, CE_TILE_ROW_BYTES);
        CE_TILES_LOAD(4, a, CE_TILE_ROW_BYTES);
        CE_TILES_LOAD(7, b + CE_TILE_BYTES, CE_TILE_ROW_BYTES);
        CE_TILES_MULTIPLY(0, 4, 6);
        CE_TILES_LOAD(5, a + CE_TILE_BYTES, CE_TILE_ROW_BYTES);
        CE_TILES_MULTIPLY(1, 4, 7);
        CE_TILES_MULTIPLY(2, 5, 6);
        CE_TILES_MULTIPLY(3, 5, 7);
        return;
    }
    load_b(b);
    if (parts == 3) {
        load_a(a + 2 * STEP), multiply_all(); /* low, high */
        load_a(a + STEP), multiply_all();     /* middle, high */
        load_b(b + STEP), multiply_all();     /* middle, middle */
        load_a(a), multiply_all();            /* high, middle */
        load_b(b + 2 * STEP), multiply_all(); /* high, low */
        load_b(b), multiply_all();            /* high, high */
    } else {
        load_a(a + STEP), multiply_all(); /* middle, high */
        load_a(a);
        load_b(b + STEP), multiply_all(); /* high, middle */
        load_b(b), multiply_all();        /* high, high */
    }
}

static inline void multiply(const char *a, const char *b, int64_t steps, int parts, const ce_tile_product *to,
                            const beside *other)
{
    int64_t each = ce_divide_up(SIDE, steps), row = 0;
    for (; steps > 0; steps--, a += parts * STEP, b += parts * STEP) {
        multiply_step(a, b, parts);
        for (int64_t end = min(row + each, SIDE); row < end; row++) {
            if (other->next)
                for (int64_t line = 0; line < (to->c.dtype == CS_F32 ? 2 : 1); line++)
                    __builtin_prefetch(other->next + row * other->stride + line * 64, 0, 2);
            if (other->before.sums)
                write_row(to, &other->before, row);
        }
    }
}

static void multiply_parts(const char *a, const char *b, int64_t steps, int parts, const ce_tile_product *to,
                           const beside *other)
{
    if (parts == 1)
        multiply(a, b, steps, 1, to, other);
    else if (parts == 2)
        multiply(a, b, steps, 2, to, other);
    else
        multiply(a, b, steps, 3, to, other);
}

static inline void load_sums(const float *sums, bool zero)
{
    enum { ROW = SIDE * sizeof(float) };
    const char *at = (const char *)sums;
    if (zero) {
        CE_TILES_ZERO(0);
        CE_TILES_ZERO(1);
        CE_TILES_ZERO(2);
        CE_TILES_ZERO(3);
        return;
    }
    CE_TILES_LOAD(0, at, ROW);
    CE_TILES_LOAD(1, at + CE_TILE_ROW_BYTES, ROW);
    CE_TILES_LOAD(2, at + CE_TILE_ROWS * ROW, ROW);
    CE_TILES_LOAD(3, at + CE_TILE_ROWS * ROW + CE_TILE_ROW_BYTES, ROW);
}

static inline void store_sums(float *sums)
{
    enum { ROW = SIDE * sizeof(float) };
    char *at = (char *)sums;
    CE_TILES_STORE(0, at, ROW);
    CE_TILES_STORE(1, at + CE_TILE_ROW_BYTES, ROW);
    CE_TILES_STORE(2, at + CE_TILE_ROWS * ROW, ROW);
    CE_TILES_STORE(3, at + CE_TILE_ROWS * ROW + CE_TILE_ROW_BYTES, ROW);
}

/* ---- the product ---- */

/* The rows, columns and inner indices of a product that are computed together. `rows` is at most one block of a. */
typedef struct {
    ce_range rows, columns, inner;
    int64_t band_row, band_column; /* the first row and column whose sums are kept */
} part;

static float *sums_at(const plan *all, const part *at, int64_t row, int64_t column)
{
    int64_t width = ce_divide_up(min(all->product->n, BAND_COLUMNS), SIDE);
    int64_t index = all->keeps_sums ? (row - at->band_row) / SIDE * width + (column - at->band_column) / SIDE
                                    : (row - at->rows.from) / SIDE;
    return all->sums + index * SIDE * SIDE;
}

/* Returns the first row of c that is written after the block at (row, column): that of the next strip, or of the first
 * strip of the next panel. */
static const char *next_of(const plan *all, const part *at, int64_t row, int64_t column)
{
    const ce_tile_product *product = all->product;
    bool below = row + SIDE < at->rows.to;
    if (!below && column + SIDE >= at->columns.to)
        return NULL;
    int64_t place = below ? (row + SIDE) * product->ldc + column : at->rows.from * product->ldc + column + SIDE;
    return ce_elements_at(product->c, place);
}

/* Multiplies all strips of the packed block of a by steps [from, to) of the panel that begins at `column`. */
static void multiply_panel(const plan *all, const part *at, const char *panel, int64_t column, ce_range steps,
                           beside *other)
{
    const ce_tile_product *product = all->product;
    int64_t step = (int64_t)all->parts * STEP, whole = ce_divide_up(ce_range_length(at->inner), SIDE);
    bool first = at->inner.from == 0 && steps.from == 0, last = at->inner.to == product->k && steps.to == whole;
    for (int64_t row = at->rows.from; row < at->rows.to; row += SIDE) {
        float *sums = sums_at(all, at, row, column);
        const char *strip = all->a + ((row - at->rows.from) / SIDE * whole + steps.from) * step;
        other->next = last ? next_of(all, at, row, column) : NULL;
        load_sums(sums, first);
        multiply_parts(strip, panel + steps.from * step, ce_range_length(steps), all->parts, product, other);
        store_sums(sums);
        other->before =
            (block){ last ? sums : NULL, row, column, min(SIDE, at->rows.to - row), min(SIDE, product->n - column) };
    }
}

/* Multiplies a packed block of a by all panels of a band. Packs the panels if `packs` is true. */
static void multiply_block(const plan *all, const part *at, bool packs)
{
    const ce_tile_product *product = all->product;
    int64_t steps = ce_divide_up(ce_range_length(at->inner), SIDE), bytes = steps * all->parts * STEP;
    /* fp32 operands need few loads for each product, so their panels are not cut */
    int64_t each = all->parts == 1 ? PART_STEPS : steps;
    beside other = { .stride = product->ldc * (int64_t)cs_dtype_bytes(product->c.dtype) };
    for (int64_t j = at->columns.from; j < at->columns.to; j += SIDE) {
        int64_t index = (j - at->columns.from) / SIDE;
        char *panel = all->b + (all->keeps_b ? index : index % all->group) * bytes;
        if (packs && index % all->group == 0)
            ce_tile_pack(panel, &product->b, (ce_range){ j, min(j + all->group * SIDE, at->columns.to) }, at->inner);
        for (int64_t s = 0; s < steps; s += each)
            multiply_panel(all, at, panel, j, (ce_range){ s, min(s + each, steps) }, &other);
    }
    for (int64_t row = 0; other.before.sums && row < SIDE; row++)
        write_row(product, &other.before, row);
}

/* Multiplies a band of rows by a band of columns. */
static void multiply_band(const plan *all, ce_range rows, ce_range columns)
{
    const ce_tile_product *product = all->product;
    for (int64_t k = 0; k < product->k; k += all->depth)
        for (int64_t i = rows.from; i < rows.to; i += all->rows) {
            part at = { .rows = { i, min(i + all->rows, rows.to) },
                        .columns = columns,
                        .inner = { k, min(k + all->depth, product->k) },
                        .band_row = rows.from,
                        .band_column = columns.from };
            if (columns.from == 0 || all->keeps_sums || product->m > all->rows) /* otherwise a is packed as a whole */
                ce_tile_pack(all->a, &product->a, at.rows, at.inner);
            multiply_block(all, &at, i == rows.from);
        }
}

void ce_tile_product_run(const ce_tile_product *product, void *scratch)
{
    plan all = plan_of(product->m, product->k, product->a.parts);
    all.product = product;
    all.a = scratch;
    all.b = all.a + bytes_of_a(&all, product->m);
    all.sums = (float *)(void *)(all.b + bytes_of_b(&all, product->n));
    ce_tiles_open();
    for (int64_t j = 0; j < product->n; j += BAND_COLUMNS)
        for (int64_t i = 0; i < product->m; i += all.band_rows)
            multiply_band(&all, (ce_range){ i, min(i + all.band_rows, product->m) },
                          (ce_range){ j, min(j + BAND_COLUMNS, product->n) });
    ce_tiles_close();
}
