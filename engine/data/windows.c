/* windows.c - reads the window that belongs to a position of the training. Windows are parts of the mapped shards.
 *
 * The order of an epoch is computed, not stored. It is a permutation made by a generalized Feistel network over a grid
 * that is slightly larger than the number of windows. While the result is not the index of a window, the network is
 * applied to this result again (cycle walking; Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). To
 * select a window takes about fifty multiplications and no memory, whatever the amount of data. */
#include "data/data.h"
#include "base/must.h"
#include "base/rng.h"
#include "data/mixture.h"
#include "data/pairs.h"
#include "data/tokens.h"

#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char *path;
    ce_tokens tokens;
    ce_pairs pairs;
    ce_fill fill;
    int64_t first; /* index of the shard's first window */
} shard;

struct ce_windows {
    shard *shards;
    int64_t shard_count, count, seq_len, vocab_size;
    bool shuffle, documents, pairs;
    uint64_t seed;
    ce_data_counts counts;
    ce_mixture mixture;                 /* A count of 0 means that there is no mixture. */
    int64_t set_first[CE_MIXTURE_SETS]; /* index of the first window of each set of the mixture */
};

/* ---- the permutation ---- */

enum { ROUNDS = 8, MARKED = 256 };

static uint64_t ceil_root(uint64_t number)
{
    /* The result, the smallest root with root^2 >= number, is always in (low - 1, high]. */
    uint64_t low = 1, high = (uint64_t)1 << 32;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (middle * middle >= number)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* A bijection of [0, rows * columns). Each round adds to one coordinate a pseudo-random number that depends on the key
 * and on the other coordinate. */
static uint64_t scatter(uint64_t key, uint64_t rows, uint64_t columns, uint64_t place)
{
    uint64_t row = place / columns, column = place % columns;
    for (uint64_t round = 0; round < ROUNDS; round += 2) {
        row = (row + ce_rng_mix(ce_rng_mix(key, round), column) % rows) % rows;
        column = (column + ce_rng_mix(ce_rng_mix(key, round + 1), row) % columns) % columns;
    }
    return row * columns + column;
}

int64_t ce_windows_permute(uint64_t seed, int64_t epoch, int64_t count, int64_t index)
{
    CE_ASSERT(index >= 0);
    CE_ASSERT(index < count);
    uint64_t key = ce_rng_mix(ce_rng_key(seed, "data.shuffle"), (uint64_t)epoch);
    uint64_t total = (uint64_t)count, rows = ceil_root(total), columns = (total + rows - 1) / rows;
    uint64_t place = (uint64_t)index;
    do
        place = scatter(key, rows, columns, place);
    while (place >= total);
    return (int64_t)place;
}

/* ---- opening ---- */

/* Checks all tokens against the vocabulary size when the data are opened. So a bad token stops the program before the
 * training begins; the message gives the position of the token. */
static cs_status check_tokens(const ce_tokens *tokens, const ce_data_settings *settings, const char *path)
{
    int64_t limit = settings->vocab_size > 0 ? settings->vocab_size : INT32_MAX;
    bool stated = tokens->vocab_size > 0 && tokens->vocab_size < limit;
    if (stated)
        limit = tokens->vocab_size;
    if (tokens->token_bytes == 2 && limit > UINT16_MAX)
        return CS_OK;
    int64_t place = ce_tokens_find_above(tokens, limit);
    if (place == tokens->count)
        return CS_OK;
    if (!stated && settings->vocab_size > 0 && tokens->vocab_size > limit)
        return ce_fail(CS_BAD_FILE,
                       "%s: token %" PRId64 " at position %" PRId64 ": the tokenizer has %" PRId64 " tokens with its "
                       "added ones, but vocab_size of the model is %" PRId64 ": use the tokenizer of the model, or a "
                       "model with a greater vocab_size",
                       path, ce_tokens_at(tokens, place), place, tokens->vocab_size, limit);
    return ce_fail(CS_BAD_FILE, "%s: token %" PRId64 " at position %" PRId64 " is not below %" PRId64 ", the %s", path,
                   ce_tokens_at(tokens, place), place, limit,
                   stated                     ? "vocabulary size in the header of the shard; pack the text again"
                   : settings->vocab_size > 0 ? "model's vocab_size; the tokens were made for another model"
                                              : "limit of all tokens");
}

/* Counts what windows that begin at the multiples of seq_len contain. */
static int64_t count_plain(ce_data_counts *counts, const ce_tokens *tokens, const ce_data_settings *settings)
{
    int64_t targets = tokens->count > 0 ? tokens->count - 1 : 0;
    int64_t count = settings->all ? ce_divide_up(targets, settings->seq_len) : targets / settings->seq_len;
    int64_t rows = count * settings->seq_len < targets ? count * settings->seq_len : targets;
    for (int64_t k = 0; k < tokens->documents; k++) {
        ce_range of = ce_tokens_range(tokens, k);
        counts->documents += of.from < of.to;
        counts->divided += of.from < of.to && of.from / settings->seq_len != (of.to - 1) / settings->seq_len;
    }
    counts->rows += rows;
    counts->lost += ce_tokens_targets(tokens, (ce_range){ rows + 1, tokens->count });
    return count;
}

/* Divides a shard into windows. */
static cs_status divide(ce_windows *windows, const ce_data_settings *settings, shard *added)
{
    ce_data_counts *counts = &windows->counts;
    int longer = settings->all && settings->longer != CE_LONG_REFUSE ? CE_LONG_SPLIT : settings->longer;
    if (settings->pairs)
        CE_TRY(ce_pairs_open(&added->pairs, counts, &added->tokens, windows->seq_len, added->path));
    else if (settings->documents)
        CE_TRY(ce_fill_open(&added->fill, counts, &added->tokens, windows->seq_len, longer, added->path));
    else
        windows->count += count_plain(counts, &added->tokens, settings);
    windows->count += added->pairs.count + added->fill.count;
    return CS_OK;
}

static cs_status add_shard(ce_windows *windows, const ce_data_settings *settings, const char *path)
{
    windows->shards = ce_must_resize(windows->shards, (size_t)(windows->shard_count + 1) * sizeof *windows->shards);
    shard *added = &windows->shards[windows->shard_count++];
    *added = (shard){ .path = ce_must_copy(path) };
    CE_TRY(ce_tokens_open(&added->tokens, path));
    /* A shard after the first one may lie within one document. */
    bool known = added->tokens.documents > 0 || (added->tokens.starts && windows->counts.documents > 0);
    if (settings->documents && !known)
        return ce_fail(CS_BAD_FILE,
                       "%s: it has no index of documents, which cspeed.data.packing \"documents\" needs: make the "
                       "shards with `cspeed pack`, or set packing to \"windows\"",
                       path);
    added->first = windows->count;
    CE_TRY(divide(windows, settings, added));
    return check_tokens(&added->tokens, settings, path);
}

static cs_status add_pattern(ce_windows *windows, const ce_data_settings *settings, const char *pattern)
{
    glob_t found;
    int outcome = glob(pattern, 0, NULL, &found);
    if (outcome == GLOB_NOMATCH)
        return ce_fail(CS_NOT_FOUND,
                       "%s: no such file; cspeed.data names it (`cspeed pack` makes token shards of a text)", pattern);
    if (outcome != 0)
        return ce_fail(outcome == GLOB_NOSPACE ? CS_NO_MEMORY : CS_IO_ERROR,
                       "%s: the files of this pattern cannot be searched", pattern);
    cs_status status = CS_OK;
    for (size_t i = 0; status == CS_OK && i < found.gl_pathc; i++)
        status = add_shard(windows, settings, found.gl_pathv[i]);
    globfree(&found);
    return status;
}

/* Opens the mixture. Each data set consists of the shards that match one pattern. */
static cs_status mix(ce_windows *windows, const ce_data_settings *settings)
{
    int64_t counts[CE_MIXTURE_SETS];
    int sets = settings->pattern_count;
    if (!settings->shuffle)
        return ce_fail(CS_BAD_CONFIG,
                       "cspeed.data.weights: a mixture of several sets is always shuffled; leave shuffle true");
    for (int i = 0; i < sets; i++)
        counts[i] = (i + 1 < sets ? windows->set_first[i + 1] : windows->count) - windows->set_first[i];
    return ce_mixture_open(&windows->mixture, settings->weights, counts, sets);
}

static cs_status build(ce_windows *windows, const ce_data_settings *settings)
{
    if (settings->seq_len < 1)
        return ce_fail(CS_BAD_CONFIG, "cspeed.data.seq_len is %" PRId64 " and must be at least 1", settings->seq_len);
    if (settings->pattern_count < 1)
        return ce_fail(CS_BAD_CONFIG, "cspeed.data: the list of token shards is empty");
    if (settings->weights && settings->pattern_count > CE_MIXTURE_SETS)
        return ce_fail(CS_BAD_CONFIG, "cspeed.data.weights: at most %d sets are possible", CE_MIXTURE_SETS);
    for (int i = 0; i < settings->pattern_count; i++) {
        if (settings->weights)
            windows->set_first[i] = windows->count;
        CE_TRY(add_pattern(windows, settings, settings->patterns[i]));
    }
    bool drops = settings->longer == CE_LONG_DROP && !settings->all;
    if (windows->count > 0)
        return settings->weights ? mix(windows, settings) : CS_OK;
    if (settings->pairs)
        return ce_fail(CS_BAD_FILE,
                       "%s: nothing to train on: each of the %" PRId64 " pairs has a prompt of seq_len, %" PRId64 " "
                       "tokens, or more; take a greater seq_len",
                       settings->patterns[0], windows->counts.bare, settings->seq_len);
    if (settings->documents)
        return ce_fail(CS_BAD_FILE,
                       "%s: nothing to train on: of %" PRId64 " documents, %" PRId64
                       " are longer than seq_len, %" PRId64 " tokens%s, and %" PRId64
                       " have no target in the tokens that cspeed.data.long leaves; "
                       "take a greater seq_len%s",
                       settings->patterns[0], windows->counts.documents, windows->counts.longer, settings->seq_len,
                       drops ? ", and are left out because cspeed.data.long is \"drop\"" : "", windows->counts.bare,
                       drops ? ", or truncate or split them" : "");
    int64_t max = 0;
    for (int64_t i = 0; i < windows->shard_count; i++)
        max = windows->shards[i].tokens.count > max ? windows->shards[i].tokens.count : max;
    return ce_fail(CS_BAD_FILE,
                   "%s: too short: one sequence is %" PRId64 " tokens (seq_len + 1), and the largest shard has %" PRId64
                   "; take a longer text or a smaller seq_len",
                   settings->patterns[0], settings->seq_len + 1, max);
}

cs_status ce_windows_open(ce_windows **windows, const ce_data_settings *settings)
{
    *windows = NULL;
    ce_windows *opened = ce_must_alloc(sizeof *opened);
    opened->seq_len = settings->seq_len;
    opened->vocab_size = settings->vocab_size;
    opened->shuffle = settings->shuffle;
    opened->documents = settings->documents;
    opened->pairs = settings->pairs;
    opened->seed = settings->seed;
    cs_status status = build(opened, settings);
    if (status == CS_OK)
        *windows = opened;
    else
        ce_windows_close(opened);
    return status;
}

void ce_windows_close(ce_windows *windows)
{
    if (!windows)
        return;
    for (int64_t i = 0; i < windows->shard_count; i++) {
        free(windows->shards[i].path);
        ce_fill_close(&windows->shards[i].fill);
        ce_pairs_close(&windows->shards[i].pairs);
        ce_tokens_close(&windows->shards[i].tokens);
    }
    free(windows->shards);
    free(windows);
}

/* ---- reading ---- */

int64_t ce_windows_count(const ce_windows *windows)
{
    return windows->count;
}

const ce_data_counts *ce_windows_counts(const ce_windows *windows)
{
    return &windows->counts;
}

double ce_windows_times(const ce_windows *windows, int set)
{
    const ce_mixture *mixture = &windows->mixture;
    double share = (double)(mixture->first[set + 1] - mixture->first[set]);
    return share > 0 ? share / (double)mixture->windows[set] : 0;
}

/* Returns element `at` of MARKED positions that are spread evenly over [0, count). */
static int64_t sampled(int64_t count, int64_t at)
{
    return count / MARKED * at + count % MARKED * at / MARKED;
}

uint64_t ce_windows_mark(const ce_windows *windows)
{
    uint64_t mark = ce_rng_key((uint64_t)windows->seq_len, "data.mark");
    for (int64_t i = 0; i < windows->shard_count; i++) {
        const ce_tokens *tokens = &windows->shards[i].tokens;
        mark = ce_rng_mix(mark, (uint64_t)tokens->count);
        if (windows->pairs) {
            mark = ce_pairs_mark(&windows->shards[i].pairs, tokens, mark);
            continue;
        }
        for (int64_t at = 0; at < MARKED && at < tokens->count; at++)
            mark = ce_rng_mix(mark, (uint64_t)ce_tokens_at(tokens, sampled(tokens->count, at)));
        const ce_fill *plan = &windows->shards[i].fill;
        for (int64_t at = 0; at < MARKED && at < plan->piece_count; at++)
            mark = ce_rng_mix(mark, (uint64_t)plan->pieces[sampled(plan->piece_count, at)].from);
    }
    return mark;
}

/* Returns the shard that holds a window: the last shard whose `first` is at most `index`. A shard that is too short for
 * a window has the same `first` as the next shard. */
static const shard *holder(const ce_windows *windows, int64_t index)
{
    int64_t low = 0, high = windows->shard_count;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (windows->shards[middle].first <= index)
            low = middle;
        else
            high = middle;
    }
    return &windows->shards[low];
}

static void copy_tokens(int32_t *to, const ce_tokens *tokens, int64_t from, int64_t count)
{
    if (tokens->token_bytes == 2) {
        const uint16_t *token = (const uint16_t *)tokens->tokens + from;
        for (int64_t t = 0; t < count; t++)
            to[t] = token[t];
    } else {
        /* The values of the tokens were checked when the shard was opened. */
        memcpy(to, (const int32_t *)tokens->tokens + from, (size_t)count * sizeof *to);
    }
}

/* Reads a piece of a shard as the rows from `at` on. Returns the first row after it. */
static int64_t read_piece(const ce_tokens *tokens, ce_fill_piece piece, int64_t at, ce_window window)
{
    int64_t targets = piece.rows - !piece.continues;
    copy_tokens(window.inputs + at, tokens, piece.from, piece.rows);
    copy_tokens(window.targets + at, tokens, piece.from + 1, targets);
    for (int64_t t = 0; t < piece.rows; t++) {
        if (t >= targets || !ce_tokens_is_learnt(tokens, piece.from + t + 1))
            window.targets[at + t] = -1;
        if (window.starts)
            window.starts[at + t] = (int32_t)at;
    }
    return at + piece.rows;
}

/* Fills the rows from `at` to the end of the window with padding. */
static void pad(int64_t at, int64_t seq_len, ce_window window)
{
    for (int64_t t = at; t < seq_len; t++) {
        window.inputs[t] = 0;
        window.targets[t] = -1;
        if (window.starts)
            window.starts[t] = (int32_t)at;
    }
}

/* Returns the window that begins at the multiple number `index` of seq_len. */
static ce_fill_piece plain_piece(const ce_windows *windows, const ce_tokens *tokens, int64_t index)
{
    int64_t from = index * windows->seq_len, left = tokens->count - 1 - from;
    return (ce_fill_piece){ from, (int32_t)(left < windows->seq_len ? left : windows->seq_len), true };
}

/* Ends the process if a token is too large for the model, after the warning about the change of the file. All tokens were checked when the data were opened. */
static void check_rows(const ce_windows *windows, const shard *from, ce_window window)
{
    for (int64_t t = 0; t < windows->seq_len * (windows->pairs ? 2 : 1) && windows->vocab_size > 0; t++)
        if (window.inputs[t] < 0 || window.inputs[t] >= windows->vocab_size ||
            window.targets[t] >= windows->vocab_size) {
            ce_tokens_watch(&from->tokens, from->path);
            ce_fatal(CS_BAD_FILE,
                     "%s has a token that is not below %" PRId64 ", the model's vocab_size, and had no such token "
                     "when it was opened: the file was changed while the training reads it",
                     from->path, windows->vocab_size);
        }
}

static void read_window(const ce_windows *windows, const shard *from, int64_t number, ce_window window)
{
    int64_t at = 0;
    if (windows->pairs) {
        ce_pairs_read(&from->pairs, &from->tokens, number, windows->seq_len, window);
        return;
    }
    if (windows->documents)
        for (int64_t i = from->fill.first[number]; i < from->fill.first[number + 1]; i++)
            at = read_piece(&from->tokens, from->fill.pieces[i], at, window);
    else
        at = read_piece(&from->tokens, plain_piece(windows, &from->tokens, number), at, window);
    pad(at, windows->seq_len, window);
}

void ce_windows_read_plain(const ce_windows *windows, int64_t index, ce_window window)
{
    CE_ASSERT(index >= 0);
    CE_ASSERT(index < windows->count);
    const shard *from = holder(windows, index);
    ce_tokens_watch(&from->tokens, from->path);
    read_window(windows, from, index - from->first, window);
    check_rows(windows, from, window);
}

int64_t ce_windows_index(const ce_windows *windows, int64_t position)
{
    CE_ASSERT(position >= 0);
    int64_t epoch = position / windows->count, index = position % windows->count;
    if (windows->mixture.count > 0) {
        ce_mixture_place place = ce_mixture_at(&windows->mixture, windows->seed, position);
        return windows->set_first[place.set] + place.window;
    }
    return windows->shuffle ? ce_windows_permute(windows->seed, epoch, windows->count, index) : index;
}

void ce_windows_read(const ce_windows *windows, int64_t position, ce_window window)
{
    ce_windows_read_plain(windows, ce_windows_index(windows, position), window);
}
