/* test_cut_pieces.c - checkpoints of parameters that tensor parallelism cuts: the pieces of a rank, compared with a loop
 * over all its elements; checkpoints of one layout of ranks, loaded by every other layout; pieces that leave an element
 * out or write one twice. */
#include "saved.h"
#include "shell.h"
#include "suite.h"

#include "base/must.h"
#include "checkpoint/background.h"
#include "zero/part.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the cuts of a small model ---- */

enum { ROWS = 1030, COLUMNS = 24, WIDTH = 600, HEADS = 2 };

/* How a parameter is cut: into rows; into the rows of q, k and v, of which k and v have fewer heads than there are ranks;
 * into columns; into the columns of q, k and v; not at all. */
typedef enum { BY_ROWS, BY_HEADS, BY_COLUMNS, BY_COLUMNS_OF_THREE, NOT_CUT } cut_kind;

static const struct {
    const char *name;
    cut_kind kind;
    int dims;
    int64_t rows, columns;
} parameters[] = {
    { "rows", BY_ROWS, 2, 37, COLUMNS },
    { "bias", BY_ROWS, 1, 37, 1 },
    { "heads", BY_HEADS, 2, 10 * HEADS, 7 },
    { "columns", BY_COLUMNS, 2, 11, COLUMNS + 1 },
    { "many_columns", BY_COLUMNS, 2, ROWS, WIDTH },
    { "three", BY_COLUMNS_OF_THREE, 2, 9, 3 * COLUMNS },
    { "many_of_three", BY_COLUMNS_OF_THREE, 2, ROWS, 3 * WIDTH },
    { "matrix", NOT_CUT, 2, 5, 6 },
    { "norm", NOT_CUT, 1, 13, 1 },
};
enum { PARAMETERS = sizeof parameters / sizeof *parameters };

static ce_cut_part shifted(ce_cut_part part, int64_t by)
{
    part.from += by;
    return part;
}

/* Returns the entry of parameter number `index` on one rank of a tensor-parallel group. The caller does not free it. */
static ce_unit_entry entry_of(int index, ce_cut_group group)
{
    int64_t rows = parameters[index].rows, columns = parameters[index].columns;
    bool vector = parameters[index].dims == 1;
    ce_unit_entry entry = { .full_name = (char *)(uintptr_t)parameters[index].name };
    entry.param.value = vector ? cs_vector(NULL, CS_F32, rows) : cs_matrix(NULL, CS_F32, rows, columns);
    entry.cut = ce_cut_whole(entry.param.value, group);
    ce_cut_part parts[CE_CUT_PARTS] = { entry.cut.part[0] };
    ce_cut_heads heads = ce_cut_heads_of(4 * HEADS, HEADS, group);
    int dim = parameters[index].kind == BY_COLUMNS || parameters[index].kind == BY_COLUMNS_OF_THREE, count = 1;
    switch (parameters[index].kind) {
    case BY_ROWS:
        parts[0] = ce_cut_share(rows, group);
        break;
    case BY_HEADS: { /* heads of two rows for q, three for k and v */
        int64_t each = ce_range_length(heads.keys);
        count = 3;
        parts[0] = (ce_cut_part){ 2 * heads.queries.from, 2 * ce_range_length(heads.queries), 1, 0 };
        parts[1] = (ce_cut_part){ 8 * HEADS + heads.keys.from, each, heads.copies, heads.copy };
        parts[2] = (ce_cut_part){ 9 * HEADS + heads.keys.from, each, heads.copies, heads.copy };
        break;
    }
    case BY_COLUMNS:
        parts[0] = ce_cut_share(columns, group);
        break;
    case BY_COLUMNS_OF_THREE:
        count = 3;
        for (int i = 0; i < 3; i++)
            parts[i] = shifted(ce_cut_share(columns / 3, group), i * columns / 3);
        break;
    case NOT_CUT:
        break;
    }
    entry.cut.dim = dim;
    entry.cut.count = count;
    entry.param.value.shape[dim] = 0;
    for (int i = 0; i < count; i++) {
        entry.cut.part[i] = parts[i];
        entry.param.value.shape[dim] += parts[i].count;
    }
    entry.count = cs_count(entry.param.value);
    return entry;
}

/* ---- the pieces of a rank ---- */

/* Where an element of the local parameter is in the whole parameter, and whether another rank saves it. */
typedef struct {
    int64_t place;
    bool copy;
} origin;

static origin origin_of(const ce_unit_entry *entry, int64_t element)
{
    int64_t width = entry->param.value.dims > 1 ? entry->param.value.shape[1] : 1;
    int64_t at[2] = { element / width, element % width }, inside = at[entry->cut.dim];
    int part = 0;
    while (inside >= entry->cut.part[part].count)
        inside -= entry->cut.part[part++].count;
    at[entry->cut.dim] = entry->cut.part[part].from + inside;
    return (origin){ at[0] * entry->cut.whole[1] + at[1], entry->cut.part[part].copy > 0 };
}

/* Returns the index in the local parameter of element number `element` of a piece's part. */
static int64_t local_of(const ce_shard_piece *piece, int64_t element)
{
    int64_t row = piece->part.size[piece->part.dims - 1];
    return piece->place + (piece->pitch ? element / row * piece->pitch + element % row : element - piece->range.from);
}

static void check_pieces(ce_unit_entry *entry, ce_range local)
{
    ce_shard_piece pieces[CE_PIECES_EACH];
    int count = ce_shard_divide(pieces, entry, local);
    uint8_t *seen = calloc(1, (size_t)entry->count + 1);
    ck_assert_int_le(count, CE_PIECES_EACH);
    for (int i = 0; i < count; i++) {
        const ce_shard_piece *piece = &pieces[i];
        ck_assert_ptr_eq(piece->entry, entry);
        ck_assert_int_gt(ce_range_length(piece->range), 0);
        ck_assert(!piece->pitch || ce_range_length(piece->range) == ce_boxes_volume(&piece->part));
        ck_assert_int_eq(ce_shard_span(piece) - 1, local_of(piece, piece->range.to - 1) - piece->place);
        for (int64_t at = piece->range.from; at < piece->range.to; at++) {
            int64_t element = local_of(piece, at);
            ck_assert(element >= local.from && element < local.to && !seen[element]++);
            origin from = origin_of(entry, element);
            ck_assert_int_eq(from.place, ce_boxes_place(&piece->part, entry->cut.whole, at));
            ck_assert_int_eq(from.copy, piece->copy);
        }
    }
    for (int64_t element = local.from; element < local.to; element++)
        ck_assert(seen[element]);
    free(seen);
}

static uint32_t drawn = 1;

static int64_t draw(int64_t below)
{
    drawn = drawn * 1664525 + 1013904223;
    return (int64_t)(drawn >> 8) % below;
}

START_TEST(pieces_are_the_elements)
{
    for (int round = 0; round < 3000; round++) {
        int size = 1 + (int)draw(4), index = (int)draw(PARAMETERS);
        ce_unit_entry entry = entry_of(index, (ce_cut_group){ .size = size, .rank = (int)draw(size) });
        if (entry.count > 1000 && round % 50)
            continue;
        int64_t from = draw(entry.count + 1);
        check_pieces(&entry, (ce_range){ from, from + draw(entry.count - from + 1) });
        check_pieces(&entry, (ce_range){ 0, entry.count });
        ce_shard_piece pieces[CE_PIECES_EACH];
        if (size == 1) { /* parts that are adjacent are one piece */
            ck_assert_int_eq(ce_shard_divide(pieces, &entry, (ce_range){ 0, entry.count }), 1);
            ck_assert_int_eq(ce_boxes_volume(&pieces->part), ce_cut_count(&entry.cut));
        }
    }
}
END_TEST

/* Compares ce_shard_own_ranges with a loop over the row of a unit in which each parameter has a gap behind it. */
START_TEST(own_ranges_have_no_copies)
{
    enum { GAP = 5, LENGTH = 4096 };
    for (int round = 0; round < 2000; round++) {
        ce_unit_entry entries[4], *list[4];
        uint8_t copies[LENGTH] = { 0 }, found[LENGTH] = { 0 };
        int size = 1 + (int)draw(4);
        ce_cut_group group = { .size = size, .rank = (int)draw(size) };
        cs_unit unit = { .entries = list, .entry_count = 4 };
        int64_t end = 0;
        for (int i = 0; i < 4; i++) {
            int index = (int)draw(PARAMETERS);
            entries[i] = entry_of(parameters[index].rows > 100 ? 0 : index, group);
            entries[i].offset = end;
            list[i] = &entries[i];
            for (int64_t at = 0; at < entries[i].count; at++)
                copies[end + at] = origin_of(&entries[i], at).copy;
            end += entries[i].count + GAP * draw(2);
        }
        ck_assert_int_le(end, LENGTH);
        int64_t from = draw(end + 1);
        ce_shard shard = { .unit = &unit, .own = { from, from + draw(end - from + 1) } };
        ce_range ranges[4 * CE_CUT_PARTS + 1];
        int count = ce_shard_own_ranges(&shard, ranges);
        for (int i = 0; i < count; i++) {
            ck_assert(ranges[i].from < ranges[i].to && (i == 0 || ranges[i - 1].to < ranges[i].from));
            for (int64_t at = ranges[i].from; at < ranges[i].to; at++)
                found[at] = 1;
        }
        for (int64_t at = 0; at < end; at++)
            ck_assert_int_eq(found[at], at >= shard.own.from && at < shard.own.to && !copies[at]);
        if (size == 1)
            ck_assert_int_eq(count, ce_range_length(shard.own) > 0);
    }
}
END_TEST

/* ---- layouts of ranks that load each other's checkpoints ---- */

/* `tp` ranks of tensor parallelism; ZeRO divides the local parameters over `shards` ranks. */
typedef struct {
    int tp, shards;
} layout;

typedef struct {
    layout at;
    bool saves, in_background, on_device;
} job;

static float value_of(int parameter, int64_t place)
{
    return (float)((place * 7 + parameter * 1000003) % 8000009);
}

static void copy(void *argument, void *to, const void *from, size_t bytes)
{
    (void)argument;
    memcpy(to, from, bytes);
}

static const ce_checkpoint_device_copy device = { .fetch = copy, .send = copy };

/* The state of a rank: its local parameters and their pieces. */
typedef struct {
    ce_unit_entry entry[PARAMETERS];
    ce_range own[PARAMETERS];
    float *local[PARAMETERS];
    ce_piece piece[PARAMETERS * CE_PIECES_EACH];
    int count;
} state;

static void open_state(state *s, layout at, int rank, bool saves)
{
    *s = (state){ 0 };
    for (int i = 0; i < PARAMETERS; i++) {
        ce_unit_entry *entry = &s->entry[i];
        ce_shard_piece pieces[CE_PIECES_EACH];
        *entry = entry_of(i, (ce_cut_group){ .size = at.tp, .rank = rank % at.tp });
        s->own[i] = ce_range_part(entry->count, rank / at.tp, at.shards);
        s->local[i] = calloc((size_t)entry->count + 1, sizeof *s->local[i]);
        for (int64_t element = 0; saves && element < entry->count; element++)
            s->local[i][element] = value_of(i, origin_of(entry, element).place);
        int count = ce_shard_divide(pieces, entry, s->own[i]);
        for (int p = 0; p < count; p++)
            if (!saves || !pieces[p].copy)
                s->piece[s->count++] = (ce_piece){ .name = entry->full_name,
                                                   .folder = "weights",
                                                   .dtype = CS_F32,
                                                   .dims = pieces[p].part.dims,
                                                   .shape = { entry->cut.whole[0], entry->cut.whole[1] },
                                                   .part = pieces[p].part,
                                                   .range = pieces[p].range,
                                                   .data = s->local[i] + pieces[p].place,
                                                   .pitch = pieces[p].pitch };
    }
}

static void close_state(state *s)
{
    for (int i = 0; i < PARAMETERS; i++)
        free(s->local[i]);
}

/* Returns true if exactly this rank's own elements have their values; copies are loaded too. */
static bool holds(const state *s)
{
    for (int i = 0; i < PARAMETERS; i++)
        for (int64_t element = 0; element < s->entry[i].count; element++) {
            bool own = element >= s->own[i].from && element < s->own[i].to;
            float wanted = own ? value_of(i, origin_of(&s->entry[i], element).place) : 0;
            if (memcmp(&s->local[i][element], &wanted, sizeof wanted) != 0) {
                fprintf(stderr, "%s: element %lld is %g, not %g\n", parameters[i].name, (long long)element,
                        (double)s->local[i][element], (double)wanted);
                return false;
            }
        }
    return true;
}

static cs_status save(cs_comm *comm, state *s, const job *j)
{
    ce_checkpoint_content content = { .tag = "t",
                                      .config_text = "{}",
                                      .pieces = s->piece,
                                      .piece_count = s->count,
                                      .device_copy = j->on_device ? &device : NULL };
    ce_background *background = NULL;
    if (!j->in_background)
        return ce_checkpoint_save(comm, "out", &content);
    cs_status status = ce_background_save(&background, comm, "out", &content);
    ce_background_hold(background);
    for (int i = 0; i < PARAMETERS; i++)
        memset(s->local[i], 0, (size_t)s->entry[i].count * sizeof *s->local[i]);
    if (status == CS_OK)
        status = ce_background_finish(background);
    ce_background_close(background);
    return status;
}

static cs_status load(cs_comm *comm, state *s, const job *j)
{
    ce_checkpoint_reading reading = { .names = CE_NAMES_ALL,
                                      .verify = j->in_background ? CE_VERIFY_OFF : CE_VERIFY_TOUCHED,
                                      .device_copy = j->on_device ? &device : NULL };
    ce_checkpoint_reader *reader;
    CE_TRY(ce_checkpoint_open_as(&reader, comm, "out", "t", &reading));
    cs_status status = ce_checkpoint_read(reader, comm, s->piece, s->count);
    ce_checkpoint_close(reader);
    return status == CS_OK && !holds(s) ? ce_fail(CS_BAD_FILE, "wrong values were loaded") : status;
}

static int run(void *argument)
{
    const job *j = argument;
    cs_comm *comm = saved_world();
    state s;
    open_state(&s, j->at, cs_comm_rank(comm), j->saves);
    cs_status status = j->saves ? save(comm, &s, j) : load(comm, &s, j);
    close_state(&s);
    cs_comm_close(comm);
    return status != CS_OK;
}

START_TEST(every_layout_loads_every_layout)
{
    static const layout layouts[] = { { 1, 1 }, { 2, 1 }, { 3, 1 }, { 1, 3 }, { 2, 2 }, { 3, 2 }, { 2, 3 } };
    enum { LAYOUTS = sizeof layouts / sizeof *layouts };
    for (int from = 0; from < LAYOUTS; from++) {
        shell_enter();
        job saving = { layouts[from], true, from % 2, from % 4 > 1 };
        SHOULD(cs_spawn(saving.at.tp * saving.at.shards, run, &saving));
        for (int to = 0; to < LAYOUTS; to++) {
            job loading = { layouts[to], false, (from + to) % 2, (from + to) % 4 > 1 };
            SHOULD(cs_spawn(loading.at.tp * loading.at.shards, run, &loading));
        }
        shell_leave();
    }
}
END_TEST

/* ---- pieces that do not fit ---- */

/* Opens the pieces of both ranks of a tensor-parallel group, and saves them from one process. */
static cs_status save_both(void (*change)(ce_piece *piece))
{
    cs_comm *comm = saved_world();
    state s[2];
    ce_piece pieces[2 * PARAMETERS * CE_PIECES_EACH];
    int64_t count = 0;
    for (int rank = 0; rank < 2; rank++) {
        open_state(&s[rank], (layout){ 2, 1 }, rank, true);
        for (int i = 0; i < s[rank].count; i++)
            pieces[count++] = s[rank].piece[i];
    }
    for (int64_t i = 0; i < count; i++)
        change(&pieces[i]);
    ce_checkpoint_content content = { .tag = "t", .config_text = "{}", .pieces = pieces, .piece_count = count };
    cs_status status = ce_checkpoint_save(comm, "out", &content);
    for (int rank = 0; rank < 2; rank++)
        close_state(&s[rank]);
    cs_comm_close(comm);
    return status;
}

static void nothing(ce_piece *piece)
{
    (void)piece;
}

/* The second half of the columns, from column 13, lacks its last element, or begins one column earlier. */
static void lose_one(ce_piece *piece)
{
    piece->range.to -= strcmp(piece->name, "columns") == 0 && piece->part.offset[1] > 0;
}

static void repeat_a_column(ce_piece *piece)
{
    if (strcmp(piece->name, "columns") == 0 && piece->part.offset[1] > 0) {
        piece->part.offset[1]--;
        piece->part.size[1]++;
        piece->range.to = piece->part.size[0] * piece->part.size[1] - 1;
    }
}

/* The columns of k on rank 1 begin at column 24 + 12. */
static void lose_k(ce_piece *piece)
{
    if (strcmp(piece->name, "three") == 0 && piece->part.offset[1] == COLUMNS + COLUMNS / 2)
        piece->range.to = piece->pitch = 0;
}

static void leave_the_tensor(ce_piece *piece)
{
    piece->part.offset[0] += strcmp(piece->name, "bias") == 0;
}

static void shorten_a_pitch(ce_piece *piece)
{
    piece->pitch -= piece->pitch ? piece->pitch - 3 : 0;
}

START_TEST(pieces_must_fit_together)
{
    shell_enter();
    SHOULD(save_both(nothing));
    SHOULD_SAY(save_both(lose_one), CS_BAD_CONFIG, "elements 274 to 275 of tensor columns are written by no rank");
    SHOULD_SAY(save_both(repeat_a_column), CS_BAD_CONFIG, "elements 12 to 13 of tensor columns are written twice");
    SHOULD_SAY(save_both(lose_k), CS_BAD_CONFIG, "elements 36 to 48 of tensor three are written by no rank");
    SHOULD_SAY(save_both(leave_the_tensor), CS_BAD_CONFIG, "tensor bias: a part of it is outside the tensor");
    SHOULD_SAY(save_both(shorten_a_pitch), CS_BAD_CONFIG, "three: a part with rows 3 elements apart");
    shell_leave();
}
END_TEST

/* Both ranks write their copies of parameters that are not cut. */
static int save_copies(void *argument)
{
    cs_comm *comm = saved_world();
    float norm[13] = { 0 };
    ce_piece piece = { .name = "norm",
                       .folder = "weights",
                       .dtype = CS_F32,
                       .dims = 1,
                       .shape = { 13 },
                       .range = { 0, 13 },
                       .data = norm };
    ce_checkpoint_content content = { .tag = "t", .config_text = "{}", .pieces = &piece, .piece_count = 1 };
    (void)argument;
    cs_status status = ce_checkpoint_save(comm, "out", &content);
    bool heard = status == CS_BAD_CONFIG && strstr(cs_error(), "elements 0 to 13 of tensor norm are written twice");
    cs_comm_close(comm);
    return heard ? 0 : 1;
}

START_TEST(copies_must_be_written_once)
{
    shell_enter();
    SHOULD(cs_spawn(2, save_copies, NULL));
    shell_leave();
}
END_TEST

SUITE_MAIN("cut_pieces", pieces_are_the_elements, own_ranges_have_no_copies, every_layout_loads_every_layout,
           pieces_must_fit_together, copies_must_be_written_once)
