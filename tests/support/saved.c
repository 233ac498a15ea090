/* saved.c - a small state for tests of saving and loading: tensors of every kind, in which each value identifies its
 * element. */
#include "saved.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ce_piece tensors[SAVED_TENSORS] = {
    { .name = "wte.weight", .folder = "weights", .dtype = CS_F32, .dims = 2, .shape = { 37, 12 } },
    { .name = "h.0.ln.weight", .folder = "weights", .dtype = CS_F32, .dims = 1, .shape = { 12 } },
    { .name = "h.0.qkv", .folder = "weights", .dtype = CS_F32, .dims = 2, .shape = { 12, 36 } },
    { .name = "conv", .folder = "weights", .dtype = CS_F32, .dims = 3, .shape = { 3, 5, 7 } },
    { .name = "scalar", .folder = "weights", .dtype = CS_F32, .dims = 0 },
    { .name = "nothing", .folder = "weights", .dtype = CS_F32, .dims = 2, .shape = { 3, 0 } },
    { .name = "half \"\xc3\xa9\"/..", .folder = "weights", .dtype = CS_BF16, .dims = 2, .shape = { 13, 1 } },
    { .name = "deep", .folder = "weights", .dtype = CS_F16, .dims = 4, .shape = { 2, 3, 2, 5 } },
    { .name = "state.wte.weight.exp_avg", .folder = "optim", .dtype = CS_F32, .dims = 2, .shape = { 37, 12 } },
    { .name = "state.scalar.exp_avg", .folder = "optim", .dtype = CS_F32, .dims = 0 },
    { .name = "state.steps", .folder = "optim", .dtype = CS_I64, .dims = 1, .shape = { 3 } },
    { .name = "state.flags", .folder = "optim", .dtype = CS_U8, .dims = 1, .shape = { 11 } },
};

static int64_t count_of(const ce_piece *tensor)
{
    int64_t count = 1;
    for (int i = 0; i < tensor->dims; i++)
        count *= tensor->shape[i];
    return count;
}

/* Writes the bytes of one element. The values are small enough to be finite, and different, in every type. */
static void value_of(char *bytes, int tensor, int64_t element, int64_t step)
{
    int64_t value = (tensor * 131 + element * 7 + step * 29) % 15000;
    float real = (float)value;
    if (tensors[tensor].dtype == CS_F32)
        memcpy(bytes, &real, sizeof real);
    else
        memcpy(bytes, &value, cs_dtype_bytes(tensors[tensor].dtype));
}

static ce_range range_of(int tensor, int rank, int size, saved_deal deal)
{
    int64_t total = 0, before = 0, count = count_of(&tensors[tensor]);
    for (int i = 0; i < SAVED_TENSORS; i++) {
        before += i < tensor ? count_of(&tensors[i]) : 0;
        total += count_of(&tensors[i]);
    }
    if (deal == SAVED_EACH)
        return ce_range_part(count, rank, size);
    ce_range flat = ce_range_part(total, rank, size);
    flat = ce_range_overlap(flat, (ce_range){ before, before + count });
    return flat.from < flat.to ? (ce_range){ flat.from - before, flat.to - before } : (ce_range){ 0, 0 };
}

void saved_open(saved_pieces *pieces, int rank, int size, saved_deal deal, int64_t step)
{
    pieces->count = 0;
    for (int i = 0; i < SAVED_TENSORS; i++) {
        ce_piece piece = tensors[i];
        size_t bytes = cs_dtype_bytes(piece.dtype);
        piece.range = range_of(i, rank, size, deal);
        if (ce_range_length(piece.range) == 0 && count_of(&piece) > 0)
            continue;
        piece.data = calloc((size_t)ce_range_length(piece.range) + 1, bytes);
        for (int64_t at = piece.range.from; at < piece.range.to && step >= 0; at++)
            value_of((char *)piece.data + (size_t)(at - piece.range.from) * bytes, i, at, step);
        pieces->piece[pieces->count++] = piece;
    }
}

void saved_close(saved_pieces *pieces)
{
    for (int i = 0; i < pieces->count; i++)
        free(pieces->piece[i].data);
}

static int index_of(const char *name)
{
    int index = 0;
    while (strcmp(tensors[index].name, name) != 0)
        index++;
    return index;
}

bool saved_holds(const saved_pieces *pieces, int64_t step)
{
    for (int i = 0; i < pieces->count; i++) {
        const ce_piece *piece = &pieces->piece[i];
        size_t bytes = cs_dtype_bytes(piece->dtype);
        for (int64_t at = piece->range.from; at < piece->range.to; at++) {
            char wanted[8];
            value_of(wanted, index_of(piece->name), at, step);
            if (memcmp((char *)piece->data + (size_t)(at - piece->range.from) * bytes, wanted, bytes) != 0) {
                fprintf(stderr, "%s: element %lld is not that of step %lld\n", piece->name, (long long)at,
                        (long long)step);
                return false;
            }
        }
    }
    return true;
}

cs_comm *saved_world(void)
{
    cs_world world;
    cs_comm *comm = NULL;
    cs_comm_settings settings = { .kind = "auto", .heap_bytes = 1 << 20 };
    ck_assert_msg(cs_world_read(&world) == CS_OK, "%s", cs_error());
    ck_assert_msg(cs_comm_open(&comm, &world, &settings) == CS_OK, "%s", cs_error());
    return comm;
}

static cs_status save_in(cs_comm *comm, saved_deal deal, const char *dir, const char *tag, int64_t step)
{
    saved_pieces pieces;
    json_t *engine = json_pack("{s:I}", "global_step", (json_int_t)step);
    ce_checkpoint_content content = {
        .tag = tag, .step = step, .engine = engine, .config_text = "{}", .client_state = "{\"a\": 1}"
    };
    saved_open(&pieces, cs_comm_rank(comm), cs_comm_size(comm), deal, step);
    content.pieces = pieces.piece;
    content.piece_count = pieces.count;
    cs_status status = ce_checkpoint_save(comm, dir, &content);
    saved_close(&pieces);
    json_decref(engine);
    return status;
}

static cs_status load_in(cs_comm *comm, saved_deal deal, const char *dir, const char *tag, int64_t *step)
{
    ce_checkpoint_reader *reader;
    saved_pieces pieces;
    CE_TRY(ce_checkpoint_open(&reader, comm, dir, tag));
    *step = json_integer_value(json_object_get(ce_checkpoint_engine(reader), "global_step"));
    saved_open(&pieces, cs_comm_rank(comm), cs_comm_size(comm), deal, -1);
    cs_status status = ce_checkpoint_read(reader, comm, pieces.piece, pieces.count);
    if (status == CS_OK && !saved_holds(&pieces, *step))
        status = ce_fail(CS_BAD_FILE, "wrong values were loaded");
    if (status == CS_OK && strcmp(ce_checkpoint_client_state(reader), "{\"a\": 1}") != 0)
        status = ce_fail(CS_BAD_FILE, "another client state was loaded");
    saved_close(&pieces);
    ce_checkpoint_close(reader);
    return status;
}

cs_status saved_save(const char *dir, const char *tag, int64_t step)
{
    cs_comm *comm = saved_world();
    cs_status status = save_in(comm, SAVED_FLAT, dir, tag, step);
    cs_comm_close(comm);
    return status;
}

cs_status saved_load(const char *dir, const char *tag, int64_t *step)
{
    int64_t found;
    cs_comm *comm = saved_world();
    cs_status status = load_in(comm, SAVED_FLAT, dir, tag, step ? step : &found);
    cs_comm_close(comm);
    return status;
}

typedef struct {
    saved_deal deal;
    const char *dir, *tag;
    int64_t step;
} job;

static int run_save(void *argument)
{
    const job *j = argument;
    cs_comm *comm = saved_world();
    cs_status status = save_in(comm, j->deal, j->dir, j->tag, j->step);
    cs_comm_close(comm);
    return status != CS_OK;
}

static int run_load(void *argument)
{
    const job *j = argument;
    cs_comm *comm = saved_world();
    int64_t step = -1;
    cs_status status = load_in(comm, j->deal, j->dir, j->tag, &step);
    if (status == CS_OK && step != j->step)
        status = ce_fail(CS_BAD_FILE, "loaded step %lld, not %lld", (long long)step, (long long)j->step);
    cs_comm_close(comm);
    return status != CS_OK;
}

void saved_save_ranks(int ranks, saved_deal deal, const char *dir, const char *tag, int64_t step)
{
    job j = { deal, dir, tag, step };
    ck_assert_msg(cs_spawn(ranks, run_save, &j) == CS_OK, "%s", cs_error());
}

void saved_load_ranks(int ranks, saved_deal deal, const char *dir, const char *tag, int64_t step)
{
    job j = { deal, dir, tag, step };
    ck_assert_msg(cs_spawn(ranks, run_load, &j) == CS_OK, "%s", cs_error());
}
