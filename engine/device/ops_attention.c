/* ops_attention.c - the operations of cspeed/ops.h on heads and tokens: attention, rotary positions, embeddings. */
#include "device/run.h"

static void check_starts(cs_tensor starts, cs_tensor like)
{
    if (starts.data)
        NEED_VECTOR(starts, CS_I32, cs_rows(like));
}

static void check_heads(cs_heads heads)
{
    NEED(heads.queries > 0 && heads.keys > 0 && heads.queries % heads.keys == 0,
         "heads.queries is %lld, and a multiple of heads.keys, %lld, is needed", (long long)heads.queries,
         (long long)heads.keys);
    NEED(heads.scale >= 0 && heads.cap >= 0 && heads.window >= 0 && heads.first >= 0,
         "heads.scale, heads.cap, heads.window and heads.first must not be negative");
}

static void check_heads_of(int64_t columns, cs_heads heads)
{
    NEED(columns % heads.queries == 0, "y has %lld columns, which are not divisible by %lld heads", (long long)columns,
         (long long)heads.queries);
}

static void check_attention(cs_stream *stream, const ce_attention_args *attention, int products)
{
    cs_heads heads = attention->heads;
    int64_t rows = cs_rows(attention->y), columns = cs_columns(attention->y);
    ce_need_numbers("y", attention->y);
    ce_need_type("qkv", attention->qkv, attention->y.dtype);
    check_heads(heads);
    check_heads_of(columns, heads);
    ce_need_matrix("qkv", attention->qkv, rows, columns + 2 * columns / heads.queries * heads.keys);
    ce_need_type("lse", attention->lse, CS_F32);
    int64_t length = cs_columns(attention->lse), samples = length > 0 ? rows / length : 0;
    NEED(length > 0 && rows % length == 0, "lse has %lld columns, positions of a sample, and y has %lld rows",
         (long long)length, (long long)rows);
    ce_need_rows("lse", attention->lse, samples * heads.queries);
    check_starts(heads.starts, attention->y);
    ce_need_dropout(attention->dropout, samples, rows * columns);
    /* for each head, each matrix product does D multiply-adds for each pair (i, j) with j <= i inside the window */
    double window = (double)(heads.window && heads.window < length ? heads.window : length);
    double pairs = (window * (double)length - 0.5 * window * (window - 1)) * (double)samples;
    stream->device->flops += 2.0 * products * pairs * (double)columns;
}

void cs_op_attention(cs_stream *stream, cs_tensor y, cs_tensor lse, cs_tensor qkv, cs_heads heads, cs_dropout dropout)
{
    NEED_STREAM(stream);
    ce_attention_args attention = { .y = y, .lse = lse, .qkv = qkv, .heads = heads, .dropout = dropout };
    check_attention(stream, &attention, 2);
    RUN(stream, attention, &attention);
}

void cs_op_attention_grad(cs_stream *stream, cs_tensor dqkv, cs_tensor dy, cs_tensor y, cs_tensor lse, cs_tensor qkv,
                          cs_heads heads, cs_dropout dropout)
{
    NEED_STREAM(stream);
    ce_attention_args attention = {
        .y = y, .lse = lse, .qkv = qkv, .dy = dy, .dqkv = dqkv, .heads = heads, .dropout = dropout
    };
    double before = stream->device->flops;
    check_attention(stream, &attention, 5);
    ce_note_gradient(stream, before);
    NEED_LIKE(dy, y);
    NEED_LIKE(dqkv, qkv);
    RUN(stream, attention_grad, &attention);
}

static void rotate(cs_stream *stream, const ce_turn *turn)
{
    int64_t width, head;
    NEED(turn->rope, "rope is NULL");
    width = turn->rope->width;
    head = ce_rope_head(turn->rope);
    ce_need_numbers("x", turn->x);
    NEED(turn->rows.length > 0, "rows.length is %lld, and at least 1 is needed", (long long)turn->rows.length);
    NEED(width > 0 && width % 2 == 0 && width <= CS_ROPE_WIDTH && head >= width,
         "rope.width is %lld of %lld columns of a head, and an even number of at most %d is needed", (long long)width,
         (long long)head, CS_ROPE_WIDTH);
    NEED(turn->rows.heads * head <= cs_columns(turn->x),
         "x has %lld columns, and %lld heads of %lld columns are needed", (long long)cs_columns(turn->x),
         (long long)turn->rows.heads, (long long)head);
    RUN(stream, rope, turn);
}

void cs_op_rope(cs_stream *stream, cs_tensor x, const cs_rope *rope, cs_rope_rows rows)
{
    NEED_STREAM(stream);
    rotate(stream, &(ce_turn){ x, rope, rows, 1 });
}

void cs_op_rope_grad(cs_stream *stream, cs_tensor dx, const cs_rope *rope, cs_rope_rows rows)
{
    NEED_STREAM(stream);
    rotate(stream, &(ce_turn){ dx, rope, rows, -1 });
}

void cs_op_attention_extend(cs_stream *stream, cs_tensor y, cs_tensor lse, cs_tensor qkv, cs_tensor keys,
                            cs_tensor values, cs_heads heads, int64_t start)
{
    NEED_STREAM(stream);
    int64_t width = cs_columns(y), rows = cs_rows(y), shared = cs_columns(keys);
    NEED_NUMBERS(y);
    NEED_TYPE(qkv, y.dtype);
    NEED_TYPE(keys, y.dtype);
    NEED_TYPE(values, y.dtype);
    check_heads(heads);
    check_heads_of(width, heads);
    NEED_COLUMNS(keys, heads.keys * (width / heads.queries));
    NEED_MATRIX(qkv, rows, width + 2 * shared);
    NEED(start >= 0 && cs_rows(keys) >= start + rows,
         "keys has %lld rows, and %lld new rows from row %lld on are needed", (long long)cs_rows(keys), (long long)rows,
         (long long)start);
    NEED_MATRIX(values, cs_rows(keys), shared);
    if (lse.data) {
        NEED_TYPE(lse, CS_F32);
        NEED_MATRIX(lse, heads.queries, rows);
    }
    double pairs = (double)rows * (double)start + 0.5 * (double)rows * (double)(rows + 1);
    stream->device->flops += 4.0 * pairs * (double)width;
    RUN(stream, extend, &(ce_extension){ y, lse, qkv, keys, values, heads, start });
}

static void check_tokens(cs_tensor tokens, cs_tensor y, int64_t first)
{
    NEED_VECTOR(tokens, CS_I32, cs_rows(y));
    NEED(first >= CS_WHOLE_TABLE, "first is %lld, and a token or CS_WHOLE_TABLE is needed", (long long)first);
}

static void check_positions(cs_tensor positions, cs_tensor tokens, cs_tensor y)
{
    NEED_COLUMNS(positions, cs_columns(y));
    NEED(cs_rows(positions) >= cs_columns(tokens), "the table of positions has %lld rows, and a sample has %lld tokens",
         (long long)cs_rows(positions), (long long)cs_columns(tokens));
}

void cs_op_embed(cs_stream *stream, cs_tensor y, cs_tensor tokens, cs_tensor table, int64_t first, cs_tensor positions,
                 cs_tensor starts)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(y);
    check_tokens(tokens, y, first);
    NEED_TYPE(table, y.dtype);
    NEED_COLUMNS(table, cs_columns(y));
    if (positions.data) {
        NEED_TYPE(positions, y.dtype);
        check_positions(positions, tokens, y);
    }
    check_starts(starts, y);
    RUN(stream, embed, y, tokens, table, first, positions, starts);
}

void cs_op_embed_grad(cs_stream *stream, cs_tensor dtable, int64_t first, cs_tensor dpositions, cs_tensor dy,
                      cs_tensor tokens, cs_tensor starts, int64_t padding)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(dy);
    check_tokens(tokens, dy, first);
    NEED_TYPE(dtable, CS_F32);
    NEED_COLUMNS(dtable, cs_columns(dy));
    if (dpositions.data) {
        NEED_TYPE(dpositions, CS_F32);
        check_positions(dpositions, tokens, dy);
    }
    check_starts(starts, dy);
    if (dtable.overwrite)
        RUN(stream, fill, dtable, 0);
    if (dpositions.data && dpositions.overwrite)
        RUN(stream, fill, dpositions, 0);
    RUN(stream, embed_grad, dtable, first, dpositions, dy, tokens, starts, padding);
}
