/* test_tokens.c - token shards: a written shard can be read; other formats are read; malformed files are rejected with
 * a message that names the file. */
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
    snprintf(folder, sizeof folder, "%s/test_tokens.XXXXXX", root ? root : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/shard.bin", folder);
}

static void remove_folder(void)
{
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int count_files(void)
{
    char command[600];
    int count = -1;
    snprintf(command, sizeof command, "ls -A '%s' | wc -l", folder);
    FILE *listing = popen(command, "r");
    ck_assert_ptr_nonnull(listing);
    ck_assert_int_eq(fscanf(listing, "%d", &count), 1);
    pclose(listing);
    return count;
}

static void write_file(const void *bytes, size_t size)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}

static void write_shard(int64_t vocab_size, int64_t count)
{
    ce_tokens_writer *writer;
    ck_assert_int_eq(ce_tokens_create(&writer, path, vocab_size), CS_OK);
    for (int64_t i = 0; i < count; i++) {
        int32_t token = (int32_t)(i * 7919 % vocab_size);
        if (i % 10 == 0)
            ce_tokens_document(writer);
        if (ce_tokens_append_masked(writer, &token, NULL, 1) != CS_OK)
            ck_abort_msg("%s", cs_error());
    }
    ck_assert_int_eq(ce_tokens_finish(writer), CS_OK);
}

START_TEST(what_is_written_is_read)
{
    static const int64_t vocabularies[] = { 1, 256, 65536, 65537, 128256, 0x7fffffff };
    static const int64_t counts[] = { 0, 1, 2, 3, 4, 5, 1000, 10001 };
    for (size_t v = 0; v < sizeof vocabularies / sizeof *vocabularies; v++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            ce_tokens tokens;
            write_shard(vocabularies[v], counts[c]);
            ck_assert_msg(ce_tokens_open(&tokens, path) == CS_OK, "%s", cs_error());
            ck_assert_int_eq(tokens.token_bytes, vocabularies[v] <= 65536 ? 2 : 4);
            ck_assert_int_eq(tokens.vocab_size, vocabularies[v]);
            ck_assert_int_eq(tokens.count, counts[c]);
            ck_assert_int_eq(tokens.documents, (counts[c] + 9) / 10);
            for (int64_t i = 0; i < counts[c]; i++)
                if (ce_tokens_at(&tokens, i) != i * 7919 % vocabularies[v])
                    ck_abort_msg("token %jd is %jd", (intmax_t)i, (intmax_t)ce_tokens_at(&tokens, i));
            ce_tokens_close(&tokens);
            ck_assert_int_eq(count_files(), 1);
        }
}
END_TEST

START_TEST(long_appends_are_chunked)
{
    enum { COUNT = 10000 };
    static int32_t many[COUNT];
    ce_tokens_writer *writer;
    ce_tokens tokens;
    for (int32_t i = 0; i < COUNT; i++)
        many[i] = i;
    ck_assert_int_eq(ce_tokens_create(&writer, path, COUNT), CS_OK);
    ck_assert_int_eq(ce_tokens_append_masked(writer, many, NULL, COUNT), CS_OK);
    ck_assert_int_eq(ce_tokens_append_masked(writer, many, NULL, 0), CS_OK);
    ck_assert_int_eq(ce_tokens_append_masked(writer, many, NULL, 3), CS_OK);
    ck_assert_int_eq(ce_tokens_finish(writer), CS_OK);
    ck_assert_int_eq(ce_tokens_open(&tokens, path), CS_OK);
    ck_assert_int_eq(tokens.count, COUNT + 3);
    for (int64_t i = 0; i < tokens.count; i++)
        ck_assert_int_eq(ce_tokens_at(&tokens, i), i % COUNT);
    ce_tokens_close(&tokens);
}
END_TEST

START_TEST(the_first_token_above_is_found)
{
    for (int wide = 0; wide < 2; wide++) {
        ce_tokens tokens;
        write_shard(wide ? 70000 : 60000, 20000);
        ck_assert_int_eq(ce_tokens_open(&tokens, path), CS_OK);
        for (int64_t limit = 1; limit < 70000; limit += 6999) {
            int64_t expected = 0;
            while (expected < tokens.count && ce_tokens_at(&tokens, expected) < limit)
                expected++;
            ck_assert_int_eq(ce_tokens_find_above(&tokens, limit), expected);
        }
        int64_t largest = 0;
        for (int64_t i = 0; i < tokens.count; i++)
            largest = ce_tokens_at(&tokens, i) > ce_tokens_at(&tokens, largest) ? i : largest;
        ck_assert_int_eq(ce_tokens_find_above(&tokens, ce_tokens_at(&tokens, largest)), largest);
        ck_assert_int_eq(ce_tokens_find_above(&tokens, ce_tokens_at(&tokens, largest) + 1), tokens.count);
        ce_tokens_close(&tokens);
    }
}
END_TEST

START_TEST(llmc_files_are_read)
{
    static const struct {
        int32_t magic, version;
    } forms[] = { { 20240520, 1 }, { 20240520, 7 }, { 20240801, 7 } };
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        int32_t file[256 + 3] = { forms[f].magic, forms[f].version, 3 };
        uint16_t narrow[] = { 5, 50256, 7 };
        uint32_t wide[] = { 5, 128255, 7 };
        bool is_wide = forms[f].version == 7;
        ce_tokens tokens;
        memcpy(file + 256, is_wide ? (void *)wide : (void *)narrow, is_wide ? sizeof wide : sizeof narrow);
        write_file(file, 1024 + (is_wide ? sizeof wide : sizeof narrow));
        ck_assert_msg(ce_tokens_open(&tokens, path) == CS_OK, "%s", cs_error());
        ck_assert_int_eq(tokens.count, 3);
        ck_assert_int_eq(tokens.vocab_size, 0);
        ck_assert_int_eq(ce_tokens_at(&tokens, 1), is_wide ? 128255 : 50256);
        ck_assert_int_eq(ce_tokens_at(&tokens, 2), 7);
        ce_tokens_close(&tokens);
        write_file(file, 1024 + 5);
        ck_assert_int_eq(ce_tokens_open(&tokens, path), CS_BAD_FILE);
        ck_assert_ptr_nonnull(strstr(cs_error(), "token count"));
    }
}
END_TEST

START_TEST(raw_files_are_read)
{
    uint16_t raw[] = { 1, 2, 50256 };
    ce_tokens tokens;
    write_file(raw, sizeof raw);
    ck_assert_int_eq(ce_tokens_open(&tokens, path), CS_OK);
    ck_assert_int_eq(tokens.count, 3);
    ck_assert_int_eq(ce_tokens_at(&tokens, 2), 50256);
    ce_tokens_close(&tokens);
    write_file(raw, 5);
    ck_assert_int_eq(ce_tokens_open(&tokens, path), CS_BAD_FILE);
    ck_assert_ptr_nonnull(strstr(cs_error(), "5 bytes"));
    snprintf(path, sizeof path, "%s/notes.txt", folder);
    write_file(raw, sizeof raw);
    ck_assert_int_eq(ce_tokens_open(&tokens, path), CS_BAD_FILE);
    ck_assert_ptr_nonnull(strstr(cs_error(), "notes.txt"));
    ck_assert_ptr_nonnull(strstr(cs_error(), "plain text to .txt"));
}
END_TEST

/* Overwrites one header field of a shard of 10 tokens of 2 bytes and 2 documents (104 bytes). */
START_TEST(malformed_headers_are_refused)
{
    static const struct {
        size_t offset, bytes;
        uint64_t value;
        const char *word;
    } faults[] = {
        { 8, 4, 2, "version is 2" },
        { 12, 4, 3, "says 3 bytes for each token" },
        { 12, 4, 0, "says 0 bytes for each token" },
        { 16, 8, 0, "vocabulary size is 0" },
        { 16, 8, UINT64_MAX, "vocabulary size is 18446744073709551615" },
        { 24, 8, 21, "token count is 21" },
        { 24, 8, UINT64_MAX, "token count" },
        { 24, 8, UINT64_MAX / 2 + 2, "token count" },
        { 32, 8, 1, "document count is 1" },
        { 32, 8, UINT64_MAX / 8 + 3, "document count" },
        { 40, 8, 64, "offset of the document index is 64" },
        { 40, 8, 89, "offset of the document index is 89" },
        { 40, 8, 112, "offset of the document index is 112" },
        { 40, 8, UINT64_MAX - 7, "offset of the document index" },
        { 48, 8, 1, "the mask takes 8" },
        { 48, 8, 96, "the mask takes 8" },
        { 56, 8, 1, "not zero" },
        { 88, 8, 11, "document 0 starts at token 11" },
        { 88, 8, 10, "document 1 starts at token 3" },
    };
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++) {
        static const uint64_t starts[] = { 0, 3 };
        unsigned char shard[104] = "CSTOKENS";
        uint32_t form[2] = { 1, 2 };
        uint64_t field[4] = { 256, 10, 2, 88 };
        ce_tokens tokens;
        memcpy(shard + 8, form, sizeof form);
        memcpy(shard + 16, field, sizeof field);
        memcpy(shard + 88, starts, sizeof starts);
        write_file(shard, sizeof shard);
        ck_assert_msg(ce_tokens_open(&tokens, path) == CS_OK, "%s", cs_error());
        ce_tokens_close(&tokens);
        memcpy(shard + faults[f].offset, &faults[f].value, faults[f].bytes);
        write_file(shard, sizeof shard);
        ck_assert_int_eq(ce_tokens_open(&tokens, path), CS_BAD_FILE);
        ck_assert_msg(strstr(cs_error(), path) && strstr(cs_error(), faults[f].word), "fault %zu: %s", f, cs_error());
        ck_assert_ptr_null(tokens.mapping);
    }
}
END_TEST

/* A truncated shard is rejected, because its header fits only its full size. */
START_TEST(cut_shards_are_refused)
{
    unsigned char shard[2048];
    write_shard(256, 100);
    FILE *file = fopen(path, "r");
    size_t size = fread(shard, 1, sizeof shard, file);
    fclose(file);
    ck_assert_uint_eq(size, 64 + 200 + 80);
    for (size_t cut = 0; cut <= size + 8; cut++) {
        ce_tokens tokens;
        memset(shard + size, 0, 8);
        write_file(shard, cut);
        bool own = cut >= 8; /* shorter files lack the magic number and look like raw tokens */
        if (own)
            ck_assert_msg((ce_tokens_open(&tokens, path) == CS_OK) == (cut == size), "cut at %zu", cut);
        else
            ck_assert_msg((ce_tokens_open(&tokens, path) == CS_OK) == (cut > 0 && cut % 2 == 0), "cut at %zu", cut);
        ce_tokens_close(&tokens);
    }
}
END_TEST

START_TEST(missing_empty_and_folders)
{
    ce_tokens tokens;
    ck_assert_int_eq(ce_tokens_open(&tokens, path), CS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(cs_error(), path));
    write_file("", 0);
    ck_assert_int_eq(ce_tokens_open(&tokens, path), CS_BAD_FILE);
    ck_assert_ptr_nonnull(strstr(cs_error(), "empty"));
    ck_assert_int_eq(ce_tokens_open(&tokens, folder), CS_BAD_FILE);
    ck_assert_ptr_nonnull(strstr(cs_error(), "directory"));
}
END_TEST

START_TEST(writers_refuse_and_clean_up)
{
    ce_tokens_writer *writer;
    int32_t above = 256, below = -1;
    ck_assert_int_eq(ce_tokens_create(&writer, path, 0), CS_BAD_CONFIG);
    ck_assert_int_eq(ce_tokens_create(&writer, path, INT64_C(1) << 31), CS_BAD_CONFIG);
    ck_assert_int_eq(ce_tokens_create(&writer, path, 256), CS_OK);
    ck_assert_int_eq(ce_tokens_append_masked(writer, &above, NULL, 1), CS_BAD_FILE);
    ck_assert_int_eq(ce_tokens_append_masked(writer, &below, NULL, 1), CS_BAD_FILE);
    ck_assert_int_eq(count_files(), 1);
    ce_tokens_abandon(writer);
    ck_assert_int_eq(count_files(), 0);
    ce_tokens_abandon(NULL);
    strcat(path, "/not/there");
    ck_assert_int_eq(ce_tokens_create(&writer, path, 256), CS_IO_ERROR);
    ck_assert_ptr_null(writer);
}
END_TEST

/* Writes and reads masks of tokens that are inputs but not targets. If no token is masked, the file has no mask. */
START_TEST(masks_are_kept)
{
    enum { COUNT = 10000 };
    static int32_t many[COUNT];
    static bool learnt[COUNT];
    for (int masked = 0; masked < 2; masked++) {
        ce_tokens_writer *writer;
        ce_tokens tokens;
        for (int i = 0; i < COUNT; i++)
            learnt[i] = !masked || i * 7 % 5 > 1;
        ck_assert_int_eq(ce_tokens_create(&writer, path, 256), CS_OK);
        ce_tokens_document(writer);
        ck_assert_int_eq(ce_tokens_append_masked(writer, many, NULL, 77), CS_OK);
        ck_assert_int_eq(ce_tokens_append_masked(writer, many, learnt, COUNT), CS_OK);
        ck_assert_int_eq(ce_tokens_append_masked(writer, many, NULL, 1), CS_OK);
        ck_assert_int_eq(ce_tokens_finish(writer), CS_OK);
        ck_assert_msg(ce_tokens_open(&tokens, path) == CS_OK, "%s", cs_error());
        ck_assert_int_eq(tokens.learnt != NULL, masked);
        ck_assert_uint_eq(tokens.starts[0], 0);
        for (int64_t i = 0; i < tokens.count; i++)
            ck_assert_int_eq(ce_tokens_is_learnt(&tokens, i), i < 77 || i == 77 + COUNT || learnt[i - 77]);
        ce_tokens_close(&tokens);
    }
}
END_TEST

/* Until the writer finishes, the path leads to the old file. */
START_TEST(writing_is_atomic)
{
    ce_tokens_writer *writer;
    ce_tokens tokens;
    int32_t token = 9;
    write_shard(256, 20);
    ck_assert_int_eq(ce_tokens_create(&writer, path, 256), CS_OK);
    ck_assert_int_eq(ce_tokens_append_masked(writer, &token, NULL, 1), CS_OK);
    ck_assert_int_eq(ce_tokens_open(&tokens, path), CS_OK);
    ck_assert_int_eq(tokens.count, 20);
    ck_assert_int_eq(ce_tokens_finish(writer), CS_OK);
    ck_assert_int_eq(ce_tokens_at(&tokens, 1), 7919 % 256);
    ce_tokens_close(&tokens);
    ck_assert_int_eq(ce_tokens_open(&tokens, path), CS_OK);
    ck_assert_int_eq(tokens.count, 1);
    ce_tokens_close(&tokens);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokens");
    TCase *cases = tcase_create("tokens");
    tcase_set_timeout(cases, 60);
    tcase_add_checked_fixture(cases, make_folder, remove_folder);
    tcase_add_test(cases, what_is_written_is_read);
    tcase_add_test(cases, long_appends_are_chunked);
    tcase_add_test(cases, the_first_token_above_is_found);
    tcase_add_test(cases, llmc_files_are_read);
    tcase_add_test(cases, raw_files_are_read);
    tcase_add_test(cases, malformed_headers_are_refused);
    tcase_add_test(cases, cut_shards_are_refused);
    tcase_add_test(cases, missing_empty_and_folders);
    tcase_add_test(cases, writers_refuse_and_clean_up);
    tcase_add_test(cases, masks_are_kept);
    tcase_add_test(cases, writing_is_atomic);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
