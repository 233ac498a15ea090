/* test_fill.c - whole documents in windows: each document lies in one window, every target is read once, and the windows
 * are those of TRL's packing. */
#include "data/data.h"
#include "shell.h"
#include "suite.h"

enum { MAX_DOCUMENTS = 1000 };

/* A shard and what its windows have read. Token p of the shard is p + 1, because padding is token 0. */
typedef struct {
    int64_t lengths[MAX_DOCUMENTS], count, tokens;
    bool masked;
    int *reads, *hits; /* for each token, how often it was an input, and how often it was a target */
} sample;

static void make_lengths(sample *made, int64_t count, uint64_t most, uint64_t seed, int64_t seq_len)
{
    *made = (sample){ .count = count };
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int64_t length = 2 + (int64_t)((seed >> 33) % most);
        made->lengths[i] = length + (length % seq_len == 1);
    }
}

/* Every third document has no target, and every other one has targets from its second half on. */
static bool is_learnt(const sample *of, int64_t document, int64_t at)
{
    return !of->masked || (document % 3 != 2 && at >= of->lengths[document] / 2);
}

static void write_sample(sample *made)
{
    ce_tokens_writer *writer;
    made->tokens = 0;
    CS_MUST(ce_tokens_create(&writer, "fill.bin", 10000000));
    for (int64_t k = 0; k < made->count; k++) {
        ce_tokens_document(writer);
        for (int64_t t = 0; t < made->lengths[k]; t++) {
            int32_t token = (int32_t)++made->tokens;
            bool learnt = is_learnt(made, k, t);
            CS_MUST(ce_tokens_append_masked(writer, &token, &learnt, 1));
        }
    }
    CS_MUST(ce_tokens_finish(writer));
    made->reads = calloc((size_t)made->tokens + 2, sizeof *made->reads);
    made->hits = calloc((size_t)made->tokens + 2, sizeof *made->hits);
}

static void free_sample(sample *made)
{
    free(made->reads);
    free(made->hits);
}

/* Counts the tokens of a window. The rows of a document are consecutive tokens, and a target is the next token of the
 * same document. Returns the sum of the squares of the documents' lengths. */
static uint64_t read_window(sample *of, const ce_windows *windows, int64_t index, int64_t seq_len)
{
    int32_t *inputs = calloc(3 * (size_t)seq_len, sizeof *inputs), *targets = inputs + seq_len,
            *starts = targets + seq_len;
    uint64_t squares = 0;
    ce_windows_read_plain(windows, index, (ce_window){ inputs, targets, starts });
    for (int64_t t = 0; t < seq_len; t++) {
        int64_t begin = starts[t], next = t + 1;
        ck_assert(begin <= t && starts[begin] == begin);
        ck_assert_int_eq(inputs[t], inputs[begin] == 0 ? 0 : inputs[begin] + t - begin);
        ck_assert(targets[t] == -1 || (inputs[t] > 0 && targets[t] == inputs[t] + 1));
        of->reads[inputs[t]]++;
        of->hits[targets[t] + 1]++; /* element p + 1 counts the targets p */
        if (inputs[t] > 0 && (next == seq_len || starts[next] == next))
            squares += (uint64_t)((next - begin) * (next - begin)) * 2654435761u % 4294967296u;
    }
    free(inputs);
    return squares % 4294967296u;
}

static cs_status open_sample(ce_windows **windows, const ce_data_settings *with)
{
    static const char *const patterns[] = { "fill.bin" };
    ce_data_settings settings = *with;
    settings.patterns = patterns;
    settings.pattern_count = 1;
    return ce_windows_open(windows, &settings);
}

/* Opens and reads all windows. Returns a hash of the lengths of the documents in each window. */
static uint64_t read_all(sample *of, ce_windows **windows, const ce_data_settings *with)
{
    uint64_t hash = 0;
    write_sample(of);
    ck_assert_msg(open_sample(windows, with) == CS_OK, "%s", cs_error());
    for (int64_t w = 0; w < ce_windows_count(*windows); w++) {
        uint64_t squares = read_window(of, *windows, w, with->seq_len);
        hash += squares * squares;
    }
    return hash;
}

/* The windows and hashes are those of `trl.pack_dataset` (TRL 1.16): packing_strategy "bfd" and "bfd_split". */
START_TEST(windows_are_those_of_trl)
{
    static const struct {
        int64_t count, seq_len;
        uint64_t most, seed;
        int longer;
        int64_t windows;
        uint64_t hash;
    } rows[] = {
        { 1000, 256, 300, 1, CE_LONG_TRUNCATE, 621, 13161259798672170079u },
        { 1000, 256, 300, 1, CE_LONG_SPLIT, 621, 4199074744259679289u },
        { 500, 512, 2000, 2, CE_LONG_TRUNCATE, 436, 242713857474144135u },
        { 500, 512, 2000, 2, CE_LONG_SPLIT, 943, 18310634257061899710u },
        { 200, 128, 100, 3, CE_LONG_TRUNCATE, 79, 12232355776669295764u },
        { 1000, 1024, 60, 4, CE_LONG_TRUNCATE, 30, 9724287284001837249u },
    };
    static sample made;
    shell_enter();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ce_windows *windows;
        ce_data_settings with = { .seq_len = rows[i].seq_len, .documents = true, .longer = rows[i].longer };
        make_lengths(&made, rows[i].count, rows[i].most, rows[i].seed, rows[i].seq_len);
        uint64_t hash = read_all(&made, &windows, &with);
        ck_assert_int_eq(ce_windows_count(windows), rows[i].windows);
        ck_assert_uint_eq(hash, rows[i].hash);
        ck_assert_int_eq(ce_windows_counts(windows)->documents, rows[i].count);
        ce_windows_close(windows);
        free_sample(&made);
    }
    shell_leave();
}
END_TEST

/* What is expected of the tokens of a document: how many of its first tokens are read, in how many parts. */
static int64_t expected_tokens(int64_t length, int64_t seq_len, int longer)
{
    if (length <= seq_len || longer == CE_LONG_SPLIT)
        return length;
    return longer == CE_LONG_DROP ? 0 : seq_len;
}

/* Each target that is kept is read once, and no other token is a target. */
static void check_document(const sample *of, int64_t k, int64_t first, int64_t kept, ce_data_counts *counts)
{
    int64_t targets = 0, lost = 0;
    for (int64_t t = 1; t < of->lengths[k]; t++) {
        bool learnt = is_learnt(of, k, t);
        ck_assert_int_eq(of->hits[first + t + 1], learnt && t < kept);
        targets += learnt && t < kept;
        lost += learnt && t >= kept;
    }
    ck_assert_int_eq(of->hits[first + 1], 0); /* the first token of a document */
    for (int64_t t = 0; t + 1 < of->lengths[k] && kept == of->lengths[k] && targets > 0 && !of->masked; t++)
        ck_assert_int_eq(of->reads[first + t], 1);
    counts->documents += of->lengths[k] > 0;
    counts->bare += kept > 0 && targets == 0;
    counts->lost += lost;
}

static void check_long(bool masked, int longer, bool all, int64_t seq_len)
{
    static sample made;
    ce_windows *windows;
    ce_data_settings with = { .seq_len = seq_len, .documents = true, .longer = longer, .all = all };
    ce_data_counts expected = { 0 };
    make_lengths(&made, 300, 100, 5, 1000);
    made.masked = masked;
    made.lengths[3] = 0;
    made.lengths[4] = 1;
    read_all(&made, &windows, &with);
    if (longer == CE_LONG_AUTO)
        longer = masked ? CE_LONG_TRUNCATE : CE_LONG_SPLIT;
    for (int64_t k = 0, first = 1; k < made.count; first += made.lengths[k++]) {
        int64_t length = made.lengths[k];
        check_document(&made, k, first, expected_tokens(length, seq_len, all ? CE_LONG_SPLIT : longer), &expected);
        expected.longer += length > seq_len;
        expected.example_number = expected.longer == 1 && length > seq_len ? k + 1 : expected.example_number;
    }
    const ce_data_counts *counts = ce_windows_counts(windows);
    ck_assert_int_eq(counts->documents, expected.documents);
    ck_assert_int_eq(counts->bare, expected.bare);
    ck_assert_int_eq(counts->lost, expected.lost);
    ck_assert_int_eq(counts->longer, expected.longer);
    ck_assert_int_eq(counts->example_number, expected.example_number);
    ck_assert(!all || counts->lost == 0);
    ce_windows_close(windows);
    free_sample(&made);
}

START_TEST(long_documents_are_cut_divided_or_dropped)
{
    static const int modes[] = { CE_LONG_AUTO, CE_LONG_TRUNCATE, CE_LONG_SPLIT, CE_LONG_DROP };
    shell_enter();
    for (int64_t seq_len = 1; seq_len < 130; seq_len += 16)
        for (int i = 0; i < 8; i++)
            check_long(i & 1, modes[i / 2], seq_len % 32 == 1, seq_len == 1 ? 2 : seq_len);
    shell_leave();
}
END_TEST

START_TEST(a_long_document_is_refused_by_number)
{
    static sample made;
    ce_windows *windows;
    ce_data_settings with = { .seq_len = 8, .documents = true, .longer = CE_LONG_REFUSE };
    shell_enter();
    made = (sample){ .lengths = { 8, 5, 9 }, .count = 3 };
    write_sample(&made);
    ck_assert_int_eq(open_sample(&windows, &with), CS_BAD_FILE);
    ck_assert_msg(strstr(cs_error(), "fill.bin, document 3: 9 tokens, more than seq_len, 8") != NULL, "%s", cs_error());
    free_sample(&made);
    made = (sample){ .lengths = { 1, 1 }, .count = 2 };
    write_sample(&made);
    ck_assert_int_eq(open_sample(&windows, &with), CS_BAD_FILE);
    ck_assert_msg(strstr(cs_error(), "nothing to train on: of 2 documents,") != NULL, "%s", cs_error());
    free_sample(&made);
    with.longer = CE_LONG_DROP;
    made = (sample){ .lengths = { 9, 9 }, .count = 2 };
    write_sample(&made);
    ck_assert_int_eq(open_sample(&windows, &with), CS_BAD_FILE);
    ck_assert_msg(strstr(cs_error(), "2 are longer than seq_len, 8 tokens, and are left out because cspeed.data.long "
                                     "is \"drop\", and 0 have") != NULL,
                  "%s", cs_error());
    free_sample(&made);
    shell_leave();
}
END_TEST

/* Without documents, evaluation reads the tokens after the last whole window too, and training counts them. */
START_TEST(the_last_tokens_are_evaluated)
{
    static sample made;
    shell_enter();
    for (int all = 0; all < 2; all++) {
        int32_t inputs[8], targets[8];
        ce_windows *windows;
        ce_data_settings with = { .seq_len = 8, .all = all };
        made = (sample){ .lengths = { 9, 12 }, .count = 2 };
        write_sample(&made);
        ck_assert_msg(open_sample(&windows, &with) == CS_OK, "%s", cs_error());
        ck_assert_int_eq(ce_windows_count(windows), 2 + all);
        ck_assert_int_eq(ce_windows_counts(windows)->lost, all ? 0 : 4);
        ck_assert_int_eq(ce_windows_counts(windows)->rows, all ? 20 : 16);
        ck_assert_int_eq(ce_windows_counts(windows)->divided, 2);
        for (int t = 0; t < 8 && all; t++) {
            ce_windows_read_plain(windows, 2, (ce_window){ inputs, targets, NULL });
            ck_assert_int_eq(inputs[t], t < 4 ? 17 + t : 0);
            ck_assert_int_eq(targets[t], t < 4 ? 18 + t : -1);
        }
        ce_windows_close(windows);
        free_sample(&made);
    }
    shell_leave();
}
END_TEST

SUITE_MAIN("fill", windows_are_those_of_trl, long_documents_are_cut_divided_or_dropped,
           a_long_document_is_refused_by_number, the_last_tokens_are_evaluated)
