/* fill.c - divides the documents of a token shard among windows: best-fit decreasing.
 *
 * The windows are made each time the data are opened, and are not stored: a million documents take 0.12 s and 16 MB,
 * and seq_len may change without a new shard. */
#include "data/fill.h"
#include "base/must.h"
#include "data/places.h"
#include "base/range.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- pieces ---- */

typedef struct {
    ce_fill *plan;
    ce_data_counts *counts;
    const ce_tokens *tokens;
    int64_t seq_len, capacity;
    int longer; /* CE_LONG_*, but not CE_LONG_AUTO */
    const char *path;
} planner;

static void add_piece(planner *self, ce_fill_piece piece)
{
    ce_fill *plan = self->plan;
    CE_MUST_HOLD(plan->pieces, self->capacity, plan->piece_count + 1);
    plan->pieces[plan->piece_count++] = piece;
    self->counts->rows += piece.rows;
}

void ce_fill_note_long(ce_data_counts *counts, const char *path, int64_t number, int64_t length)
{
    if (counts->longer++ > 0)
        return;
    counts->example = path;
    counts->example_number = number;
    counts->example_length = length;
}

static cs_status refuse(const planner *self, int64_t number, int64_t length)
{
    char place[CE_PLACES_TEXT];
    if (!ce_places_find(place, self->path, number))
        snprintf(place, sizeof place, "%s, document %" PRId64, self->path, number);
    return ce_fail(CS_BAD_FILE,
                   "%s: %" PRId64 " tokens, more than seq_len, %" PRId64 ", and cspeed.data.long is \"refuse\"; take "
                   "a greater seq_len, or set it to truncate, split or drop",
                   place, length, self->seq_len);
}

/* Adds the pieces of a document. A piece without a target is left out, because no other piece attends to it. `number`
 * is the document's number in the shard, from 1. */
static cs_status add_document(planner *self, ce_range of, int64_t number)
{
    int64_t length = ce_range_length(of), before = self->plan->piece_count, end = of.to;
    if (length == 0)
        return CS_OK;
    self->counts->documents++;
    if (length > self->seq_len) {
        if (self->longer == CE_LONG_REFUSE)
            return refuse(self, number, length);
        ce_fill_note_long(self->counts, self->path, number, length);
        end = self->longer == CE_LONG_DROP ? of.from : self->longer == CE_LONG_SPLIT ? of.to : of.from + self->seq_len;
        self->counts->divided += self->longer == CE_LONG_SPLIT;
        self->counts->lost += ce_tokens_targets(self->tokens, (ce_range){ end > of.from ? end : of.from + 1, of.to });
    }
    for (int64_t from = of.from; from < end; from += self->seq_len) {
        int64_t rows = end - from < self->seq_len ? end - from : self->seq_len;
        bool continues = from + rows < end;
        if (ce_tokens_targets(self->tokens, (ce_range){ from + 1, from + rows + continues }) > 0)
            add_piece(self, (ce_fill_piece){ from, (int32_t)rows, continues });
    }
    self->counts->bare += end > of.from && self->plan->piece_count == before;
    return CS_OK;
}

/* Adds the pieces of all documents, in the order of the shard. Tokens before the first document are the end of one that
 * began in another shard. */
static cs_status add_documents(planner *self)
{
    const ce_tokens *tokens = self->tokens;
    CE_TRY(add_document(self, (ce_range){ 0, tokens->documents > 0 ? (int64_t)tokens->starts[0] : tokens->count }, 0));
    for (int64_t k = 0; k < self->tokens->documents; k++)
        CE_TRY(add_document(self, ce_tokens_range(self->tokens, k), k + 1));
    return CS_OK;
}

/* ---- best-fit decreasing ---- */

/* Lists of numbers, one list for each length from 0 to seq_len. A number is in at most one list. */
typedef struct {
    int64_t *first, *last; /* (seq_len + 1) -1: the list is empty */
    int64_t *next;         /* for each number, the one that follows it in its list, or -1 */
    uint64_t *full;        /* one bit for each list that is not empty */
} lists;

static void open_lists(lists *opened, int64_t seq_len, int64_t numbers)
{
    size_t count = (size_t)seq_len + 1;
    opened->first = ce_must_alloc(count * sizeof *opened->first);
    opened->last = ce_must_alloc(count * sizeof *opened->last);
    opened->next = ce_must_alloc((size_t)(numbers + 1) * sizeof *opened->next);
    opened->full = ce_must_alloc((count / 64 + 1) * sizeof *opened->full);
}

static void close_lists(lists *opened)
{
    free(opened->first);
    free(opened->last);
    free(opened->next);
    free(opened->full);
}

static void append(lists *to, int64_t length, int64_t number)
{
    uint64_t bit = (uint64_t)1 << length % 64, *word = &to->full[length / 64];
    if (*word & bit)
        to->next[to->last[length]] = number;
    else
        to->first[length] = number;
    to->last[length] = number;
    to->next[number] = -1;
    *word |= bit;
}

static int64_t take_first(lists *from, int64_t length)
{
    int64_t number = from->first[length];
    from->first[length] = from->next[number];
    if (from->first[length] < 0)
        from->full[length / 64] &= ~((uint64_t)1 << length % 64);
    return number;
}

/* Returns the smallest length from `least` to `most` whose list is not empty, or -1. */
static int64_t find_list(const lists *in, int64_t least, int64_t most)
{
    uint64_t mask = UINT64_MAX << least % 64;
    for (int64_t word = least / 64; word <= most / 64; word++, mask = UINT64_MAX)
        if (in->full[word] & mask)
            return word * 64 + __builtin_ctzll(in->full[word] & mask);
    return -1;
}

/* Sets window_of[i] to the window of piece i. `pieces` has the pieces by their lengths, and `windows` the windows by
 * the rows that they have left. */
static void fit(ce_fill *plan, int64_t seq_len, lists *pieces, lists *windows, int64_t *window_of)
{
    for (int64_t i = 0; i < plan->piece_count; i++)
        append(pieces, plan->pieces[i].rows, i);
    for (int64_t rows = seq_len; rows > 0; rows--)
        while (pieces->full[rows / 64] >> rows % 64 & 1) {
            int64_t piece = take_first(pieces, rows), room = find_list(windows, rows, seq_len);
            int64_t window = room < 0 ? plan->count++ : take_first(windows, room);
            window_of[piece] = window;
            append(windows, (room < 0 ? seq_len : room) - rows, window);
        }
}

/* Numbers the windows by their first pieces, and sorts the pieces by window. */
static void arrange(ce_fill *plan, int64_t *window_of)
{
    ce_fill_piece *sorted = ce_must_alloc((size_t)(plan->piece_count + 1) * sizeof *sorted);
    int64_t *number = ce_must_alloc((size_t)(plan->count + 1) * sizeof *number), named = 0;
    plan->first = ce_must_alloc((size_t)(plan->count + 2) * sizeof *plan->first);
    for (int64_t w = 0; w < plan->count; w++)
        number[w] = -1;
    for (int64_t i = 0; i < plan->piece_count; i++) {
        if (number[window_of[i]] < 0)
            number[window_of[i]] = named++;
        window_of[i] = number[window_of[i]];
        plan->first[window_of[i] + 2]++;
    }
    for (int64_t w = 1; w <= plan->count; w++)
        plan->first[w + 1] += plan->first[w];
    /* first[w + 1] is the place of the next piece of window w, and at the end of the loop the end of window w. */
    for (int64_t i = 0; i < plan->piece_count; i++)
        sorted[plan->first[window_of[i] + 1]++] = plan->pieces[i];
    free(number);
    free(plan->pieces);
    plan->pieces = sorted;
}

static void pack(ce_fill *plan, int64_t seq_len)
{
    lists pieces, windows;
    CE_FREED int64_t *window_of = ce_must_alloc((size_t)(plan->piece_count + 1) * sizeof *window_of);
    open_lists(&pieces, seq_len, plan->piece_count);
    open_lists(&windows, seq_len, plan->piece_count);
    fit(plan, seq_len, &pieces, &windows, window_of);
    arrange(plan, window_of);
    close_lists(&pieces);
    close_lists(&windows);
}

cs_status ce_fill_open(ce_fill *plan, ce_data_counts *counts, const ce_tokens *tokens, int64_t seq_len, int longer,
                       const char *path)
{
    if (longer == CE_LONG_AUTO)
        longer = tokens->learnt ? CE_LONG_TRUNCATE : CE_LONG_SPLIT;
    planner self = {
        .plan = plan, .counts = counts, .tokens = tokens, .seq_len = seq_len, .longer = longer, .path = path
    };
    *plan = (ce_fill){ 0 };
    cs_status status = add_documents(&self);
    if (status == CS_OK)
        pack(plan, seq_len);
    else
        ce_fill_close(plan);
    return status;
}

void ce_fill_close(ce_fill *plan)
{
    free(plan->first);
    free(plan->pieces);
    *plan = (ce_fill){ 0 };
}
