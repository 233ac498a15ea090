/* test_windows.c - which window a position reads: a permutation in each epoch, all shards, no window across two shards.
 */
#include "data/data.h"
#include "data/tokens.h"

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char folder[256], path[512];

static int remove_one(const char *name, const struct stat *facts, int type, struct FTW *place)
{
    (void)facts, (void)type, (void)place;
    return remove(name);
}

static void make_folder(void)
{
    const char *root = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/test_windows.XXXXXX", root ? root : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void)
{
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Writes a shard with tokens first, first + 1, ..., so that the contents of a window tell where it came from. */
static void write_shard(const char *name, int64_t vocab_size, int32_t first, int32_t count)
{
    ce_tokens_writer *writer;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ck_assert_int_eq(ce_tokens_create(&writer, path, vocab_size), CS_OK);
    for (int32_t token = first; token < first + count; token++)
        ck_assert_int_eq(ce_tokens_append_masked(writer, &token, NULL, 1), CS_OK);
    ck_assert_int_eq(ce_tokens_finish(writer), CS_OK);
}

static cs_status open_pattern(ce_windows **windows, const char *pattern, int64_t seq_len, int64_t vocab_size)
{
    snprintf(path, sizeof path, "%s/%s", folder, pattern);
    const char *patterns[] = { path };
    ce_data_settings settings = { patterns, 1, seq_len, true, 42, vocab_size, NULL, false, false, 0, false };
    return ce_windows_open(windows, &settings);
}

static void check_permutation(uint64_t seed, int64_t epoch, int64_t count)
{
    char *seen = calloc((size_t)count, 1);
    ck_assert_ptr_nonnull(seen);
    for (int64_t i = 0; i < count; i++) {
        int64_t place = ce_windows_permute(seed, epoch, count, i);
        if (place < 0 || place >= count || seen[place])
            ck_abort_msg("count %jd index %jd", (intmax_t)count, (intmax_t)i);
        seen[place] = 1;
    }
    free(seen);
}

START_TEST(every_count_is_permuted)
{
    static const int64_t large[] = { 1000, 4095, 4096, 4097, 65535, 65536, 65537, 999983 };
    for (int64_t count = 1; count <= 300; count++)
        for (int64_t epoch = 0; epoch < 5; epoch++)
            check_permutation(7, epoch, count);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        check_permutation(large[i] == 65536 ? 0 : UINT64_MAX, 3, large[i]);
}
END_TEST

START_TEST(huge_counts_stay_inside)
{
    static const int64_t counts[] = { INT64_C(1) << 40, (INT64_C(1) << 40) + 1, INT64_MAX / 2, INT64_MAX };
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (int64_t i = 0; i < 1000; i++) {
            int64_t low = ce_windows_permute(1, 0, counts[c], i);
            int64_t high = ce_windows_permute(1, 0, counts[c], counts[c] - 1 - i);
            ck_assert(low >= 0 && low < counts[c]);
            ck_assert(high >= 0 && high < counts[c]);
            ck_assert_int_ne(low, high);
        }
}
END_TEST

/* Over many epochs, the permutation puts an index into every position about equally often: the chi-square value is far
 * below the value of a skewed order. */
START_TEST(places_are_spread_evenly)
{
    static const int64_t counts[] = { 2, 3, 5, 8, 30 };
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        enum { EPOCHS = 30000 };
        int64_t count = counts[c];
        for (int64_t index = 0; index < count; index += count - 1) {
            double hits[30] = { 0 }, chi = 0, expected = (double)EPOCHS / (double)count;
            for (int64_t epoch = 0; epoch < EPOCHS; epoch++)
                hits[ce_windows_permute(11, epoch, count, index)]++;
            for (int64_t place = 0; place < count; place++)
                chi += (hits[place] - expected) * (hits[place] - expected) / expected;
            ck_assert_msg(chi < 4.0 * (double)count + 20, "count %jd: chi-square %g", (intmax_t)count, chi);
        }
    }
}
END_TEST

/* A random order leaves about one element in its position, and about half of the neighbours in order. */
START_TEST(orders_are_thorough_and_differ)
{
    enum { COUNT = 10000 };
    int fixed = 0, rising = 0, near = 0, same_epoch = 0, same_seed = 0;
    for (int64_t i = 0; i < COUNT; i++) {
        int64_t place = ce_windows_permute(3, 0, COUNT, i), next = ce_windows_permute(3, 0, COUNT, (i + 1) % COUNT);
        fixed += place == i;
        rising += place < next;
        near += labs(place - next) <= 100; /* expected: about 2 % */
        same_epoch += place == ce_windows_permute(3, 1, COUNT, i);
        same_seed += place == ce_windows_permute(4, 0, COUNT, i);
    }
    ck_assert_int_lt(fixed, 15);
    ck_assert_int_lt(same_epoch, 15);
    ck_assert_int_lt(same_seed, 15);
    ck_assert_int_gt(rising, COUNT / 2 - 300);
    ck_assert_int_lt(rising, COUNT / 2 + 300);
    ck_assert_int_gt(near, 120);
    ck_assert_int_lt(near, 290);
}
END_TEST

/* The order is part of what a checkpoint means: it must stay equal to these recorded values. */
START_TEST(the_order_never_changes)
{
    static const int64_t places[] = { 524, 167, 904, 826, 532, 775, 53, 99 };
    for (int64_t i = 0; i < 8; i++)
        ck_assert_int_eq(ce_windows_permute(1234, i / 4, 1000, i % 4), places[i]);
}
END_TEST

/* Shards of 12, 4, 0, 5, 1 and 9 tokens have 2, 0, 0, 1, 0 and 2 windows of 4 + 1 tokens. */
START_TEST(windows_stay_inside_shards)
{
    static const int32_t sizes[] = { 12, 4, 0, 5, 1, 9 }, first[] = { 0, 4, 300, 500, 504 };
    for (int wide = 0; wide < 2; wide++) {
        ce_windows *windows;
        int32_t inputs[4], targets[4];
        for (int32_t s = 0; s < 6; s++) {
            char name[32];
            snprintf(name, sizeof name, "train-%05d.bin", s);
            write_shard(name, wide ? 100000 : 1000, 100 * s, sizes[s]);
        }
        ck_assert_msg(open_pattern(&windows, "train-*.bin", 4, 1000) == CS_OK, "%s", cs_error());
        ck_assert_int_eq(ce_windows_count(windows), 5);
        for (int64_t index = 0; index < 5; index++) {
            ce_windows_read_plain(windows, index, (ce_window){ inputs, targets, NULL });
            for (int t = 0; t < 4; t++) {
                ck_assert_int_eq(inputs[t], first[index] + t);
                ck_assert_int_eq(targets[t], first[index] + t + 1);
            }
        }
        for (int64_t epoch = 0; epoch < 20; epoch++) {
            int seen = 0;
            for (int64_t index = 0; index < 5; index++) {
                ce_windows_read(windows, 5 * epoch + index, (ce_window){ inputs, targets, NULL });
                ck_assert_int_eq(inputs[0], first[ce_windows_permute(42, epoch, 5, index)]);
                for (int w = 0; w < 5; w++)
                    seen |= (inputs[0] == first[w]) << w;
            }
            ck_assert_int_eq(seen, 31);
        }
        ce_windows_close(windows);
    }
}
END_TEST

START_TEST(unshuffled_is_file_order)
{
    ce_windows *windows;
    int32_t inputs[3], targets[3];
    write_shard("b.bin", 100, 20, 10);
    char second[512];
    strcpy(second, path);
    write_shard("a.bin", 100, 50, 10);
    const char *patterns[] = { second, path }; /* the order of the list takes precedence over alphabetical order */
    ce_data_settings settings = { patterns, 2, 3, false, 0, 0, NULL, false, false, 0, false };
    ck_assert_int_eq(ce_windows_open(&windows, &settings), CS_OK);
    for (int64_t position = 0; position < 12; position++) {
        static const int32_t first[] = { 20, 23, 26, 50, 53, 56 };
        ce_windows_read(windows, position, (ce_window){ inputs, targets, NULL });
        ck_assert_int_eq(inputs[0], first[position % 6]);
        ck_assert_int_eq(targets[2], first[position % 6] + 3);
    }
    ce_windows_close(windows);
}
END_TEST

/* Two patterns with equal weights are read equally often, although the first pattern has ten times as many windows as
 * the second. The target of a masked token is -1. */
START_TEST(mixtures_and_masks_are_read)
{
    static const double weights[] = { 1, 1 };
    ce_windows *windows;
    ce_tokens_writer *writer;
    int32_t inputs[4], targets[4], small = 0;
    char first[512];
    write_shard("large.bin", 1000, 0, 401);
    strcpy(first, path);
    snprintf(path, sizeof path, "%s/small.bin", folder);
    ck_assert_int_eq(ce_tokens_create(&writer, path, 1000), CS_OK);
    for (int32_t i = 0; i < 41; i++) {
        int32_t token = 500 + i;
        bool learnt = i % 2;
        ck_assert_int_eq(ce_tokens_append_masked(writer, &token, &learnt, 1), CS_OK);
    }
    ck_assert_int_eq(ce_tokens_finish(writer), CS_OK);
    const char *patterns[] = { first, path };
    ce_data_settings settings = { patterns, 2, 4, true, 7, 0, weights, false, false, 0, false };
    ck_assert_msg(ce_windows_open(&windows, &settings) == CS_OK, "%s", cs_error());
    ck_assert_int_eq(ce_windows_count(windows), 110);
    for (int64_t position = 0; position < 110; position++) {
        ce_windows_read(windows, position, (ce_window){ inputs, targets, NULL });
        small += inputs[0] >= 500;
        for (int t = 0; t < 4; t++)
            ck_assert_int_eq(targets[t], inputs[0] < 500 || (inputs[t] + 1) % 2 ? inputs[t] + 1 : -1);
    }
    ck_assert_int_eq(small, 55);
    ce_windows_close(windows);
    settings.shuffle = false;
    ck_assert_int_eq(ce_windows_open(&windows, &settings), CS_BAD_CONFIG);
}
END_TEST

/* Shards that do not say where their documents begin cannot be packed by documents. */
START_TEST(documents_need_an_index)
{
    ce_windows *windows;
    write_shard("unlisted.bin", 100, 0, 20);
    const char *patterns[] = { path };
    ce_data_settings settings = { .patterns = patterns, .pattern_count = 1, .seq_len = 4, .documents = true };
    ck_assert_int_eq(ce_windows_open(&windows, &settings), CS_BAD_FILE);
    ck_assert_msg(strstr(cs_error(), "unlisted.bin") && strstr(cs_error(), "cspeed.data.packing"), "%s", cs_error());
}
END_TEST

static uint64_t mark_of(const char *pattern, int64_t seq_len)
{
    ce_windows *windows;
    ck_assert_int_eq(open_pattern(&windows, pattern, seq_len, 0), CS_OK);
    uint64_t mark = ce_windows_mark(windows);
    ce_windows_close(windows);
    return mark;
}

/* Two shards with the same number of tokens but different tokens have different marks. The mark of a short shard
 * depends on all its tokens. */
START_TEST(other_data_has_another_mark)
{
    write_shard("a.bin", 5000, 5, 1000);
    write_shard("b.bin", 5000, 5, 1000);
    write_shard("c.bin", 5000, 6, 1000);
    write_shard("d.bin", 5000, 5, 1001);
    write_shard("e.bin", 5000, 7, 20);
    write_shard("f.bin", 5000, 8, 20);
    ck_assert_uint_eq(mark_of("a.bin", 8), mark_of("b.bin", 8));
    ck_assert_uint_ne(mark_of("a.bin", 8), mark_of("c.bin", 8));
    ck_assert_uint_ne(mark_of("a.bin", 8), mark_of("d.bin", 8));
    ck_assert_uint_ne(mark_of("a.bin", 8), mark_of("a.bin", 16));
    ck_assert_uint_ne(mark_of("e.bin", 8), mark_of("f.bin", 8));
    ck_assert_uint_ne(mark_of("[ac].bin", 8), mark_of("[bd].bin", 8));
}
END_TEST

START_TEST(faults_are_named)
{
    ce_windows *windows;
    ce_data_settings empty = { .seq_len = 4 };
    ck_assert_int_eq(ce_windows_open(&windows, &empty), CS_BAD_CONFIG);
    ck_assert_int_eq(open_pattern(&windows, "none-*.bin", 4, 0), CS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(cs_error(), "none-*.bin"));
    ck_assert_ptr_null(windows);
    write_shard("short.bin", 100, 0, 4);
    ck_assert_int_eq(open_pattern(&windows, "short.bin", 4, 0), CS_BAD_FILE);
    ck_assert_msg(strstr(cs_error(), "short.bin") && strstr(cs_error(), "5 tokens"), "%s", cs_error());
    ck_assert_int_eq(open_pattern(&windows, "short.bin", 0, 0), CS_BAD_CONFIG);
    ck_assert_int_eq(open_pattern(&windows, "short.bin", 3, 0), CS_OK);
    ce_windows_close(windows);
    ce_windows_close(NULL);
}
END_TEST

START_TEST(tokens_beyond_the_vocabulary_are_named)
{
    ce_windows *windows;
    write_shard("t-0.bin", 60000, 0, 5000);
    write_shard("t-1.bin", 70000, 40000, 6000);
    ck_assert_int_eq(open_pattern(&windows, "t-*.bin", 8, 45000), CS_BAD_FILE);
    ck_assert_msg(strstr(cs_error(), "t-1.bin") && strstr(cs_error(), "token 45000 at position 5000"), "%s",
                  cs_error());
    ck_assert_int_eq(open_pattern(&windows, "t-*.bin", 8, 46000), CS_OK);
    ce_windows_close(windows);
    ck_assert_int_eq(open_pattern(&windows, "t-*.bin", 8, 0), CS_OK);
    ce_windows_close(windows);
}
END_TEST

/* A token must be below the vocabulary size that the shard itself states. A 32-bit token that is too large must not be
 * taken for a masked target. */
START_TEST(tokens_beyond_the_shard_are_named)
{
    ce_windows *windows;
    uint16_t broken = 256;
    int32_t llmc[256 + 10] = { 20240801, 7, 10 };
    write_shard("own.bin", 256, 0, 200);
    FILE *file = fopen(path, "r+");
    ck_assert_int_eq(fseek(file, 64 + 2 * 77, SEEK_SET), 0);
    ck_assert_uint_eq(fwrite(&broken, sizeof broken, 1, file), 1);
    fclose(file);
    ck_assert_int_eq(open_pattern(&windows, "own.bin", 8, 50257), CS_BAD_FILE);
    ck_assert_msg(strstr(cs_error(), "token 256 at position 77"), "%s", cs_error());
    llmc[256 + 6] = -1;
    snprintf(path, sizeof path, "%s/llmc.bin", folder);
    file = fopen(path, "w");
    ck_assert_uint_eq(fwrite(llmc, sizeof llmc, 1, file), 1);
    fclose(file);
    ck_assert_int_eq(open_pattern(&windows, "llmc.bin", 4, 0), CS_BAD_FILE);
    ck_assert_msg(strstr(cs_error(), "token 4294967295 at position 6"), "%s", cs_error());
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("windows");
    TCase *cases = tcase_create("windows");
    tcase_set_timeout(cases, 120);
    tcase_add_checked_fixture(cases, make_folder, remove_folder);
    tcase_add_test(cases, every_count_is_permuted);
    tcase_add_test(cases, huge_counts_stay_inside);
    tcase_add_test(cases, places_are_spread_evenly);
    tcase_add_test(cases, orders_are_thorough_and_differ);
    tcase_add_test(cases, the_order_never_changes);
    tcase_add_test(cases, windows_stay_inside_shards);
    tcase_add_test(cases, unshuffled_is_file_order);
    tcase_add_test(cases, mixtures_and_masks_are_read);
    tcase_add_test(cases, documents_need_an_index);
    tcase_add_test(cases, other_data_has_another_mark);
    tcase_add_test(cases, faults_are_named);
    tcase_add_test(cases, tokens_beyond_the_vocabulary_are_named);
    tcase_add_test(cases, tokens_beyond_the_shard_are_named);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
