/* test_bpe.c - byte-pair encoding: compared with a simple implementation of its definition on words of every length,
 * and on very long words. */
#include "text/bpe.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LETTERS = 4, MERGES = 120 };

/* Makes a lexicon with the letters a to d, and merges of pairs of tokens drawn at random. */
static void make(ce_lexicon *lexicon, unsigned seed)
{
    char names[LETTERS + MERGES][64] = { "a", "b", "c", "d" };
    json_t *ids = json_object(), *merges = json_array();
    int count = LETTERS;
    for (int i = 0; i < LETTERS; i++)
        json_object_set_new(ids, names[i], json_integer(i));
    while (count < LETTERS + MERGES) {
        seed = seed * 1103515245u + 12345u;
        const char *left = names[(seed >> 16) % (unsigned)count], *right = names[(seed >> 8) % (unsigned)count];
        char pair[160];
        if (strlen(left) + strlen(right) > 8)
            left = "a", right = names[(seed >> 20) % LETTERS];
        snprintf(pair, sizeof pair, "%.30s %.30s", left, right);
        json_array_append_new(merges, json_string(pair));
        snprintf(names[count], sizeof names[count], "%.30s%.30s", left, right);
        if (!json_object_get(ids, names[count]))
            json_object_set_new(ids, names[count], json_integer(count));
        count++;
    }
    lexicon->is_bytes = true;
    ck_assert_msg(ce_lexicon_fill(lexicon, ids, merges) == CS_OK, "%s", cs_error());
    lexicon->unknown = -1;
    json_decref(ids);
    json_decref(merges);
}

/* Encodes a word by the definition: again and again applies the possible merge with the lowest rank. If this merge is
 * possible at several places, applies it at the leftmost one. */
static int32_t plain(const ce_lexicon *lexicon, const char *word, size_t size, int32_t *ids)
{
    int32_t count = 0;
    for (size_t i = 0; i < size; i++)
        ids[count++] = lexicon->bytes[(unsigned char)word[i]];
    for (;;) {
        const ce_merge *best = NULL;
        int32_t place = 0;
        for (int32_t i = 0; i + 1 < count; i++) {
            const ce_merge *merge = ce_lexicon_merge(lexicon, ids[i], ids[i + 1]);
            if (merge && (!best || merge->rank < best->rank)) {
                best = merge;
                place = i;
            }
        }
        if (!best)
            return count;
        ids[place] = best->id;
        memmove(ids + place + 1, ids + place + 2, (size_t)(--count - place - 1) * sizeof *ids);
    }
}

START_TEST(merges_are_those_of_the_definition)
{
    unsigned state = 7;
    for (unsigned seed = 1; seed <= 10; seed++) {
        ce_lexicon lexicon = { 0 };
        make(&lexicon, seed);
        ce_bpe *bpe = ce_bpe_open(&lexicon);
        for (int round = 0; round < 2000; round++) {
            char word[200];
            int32_t wanted[200], count;
            state = state * 1103515245u + 12345u;
            size_t size = 1 + (state >> 16) % (round % 10 ? 12 : 199), place = 0;
            for (size_t i = 0; i < size; i++) {
                state = state * 1103515245u + 12345u;
                word[i] = (char)('a' + (state >> 16) % LETTERS);
            }
            const ce_bpe_token *made = ce_bpe_word(bpe, word, size, &count);
            ck_assert_int_eq(count, plain(&lexicon, word, size, wanted));
            for (int32_t i = 0; i < count; i++) {
                ck_assert_int_eq(made[i].id, wanted[i]);
                place += (size_t)made[i].size;
            }
            ck_assert_uint_eq(place, size);
        }
        ce_bpe_close(bpe);
        ce_lexicon_free(&lexicon);
    }
}
END_TEST

/* A word of a million letters. An encoder that scans the word for every merge would take hours. */
START_TEST(long_words_are_no_trouble)
{
    enum { SIZE = 1000000 };
    ce_lexicon lexicon = { 0 };
    int32_t count;
    char *word = malloc(SIZE);
    ck_assert_ptr_nonnull(word);
    make(&lexicon, 3);
    for (size_t i = 0; i < SIZE; i++)
        word[i] = (char)('a' + i * i % LETTERS);
    ce_bpe *bpe = ce_bpe_open(&lexicon);
    ce_bpe_word(bpe, word, SIZE, &count);
    ck_assert_int_gt(count, 0);
    ck_assert_int_lt(count, SIZE);
    ce_bpe_close(bpe);
    ce_lexicon_free(&lexicon);
    free(word);
}
END_TEST

/* More different words than the cache can hold. */
START_TEST(a_full_cache_changes_no_token)
{
    ce_lexicon lexicon = { 0 };
    make(&lexicon, 5);
    ce_bpe *bpe = ce_bpe_open(&lexicon);
    for (int pass = 0; pass < 2; pass++)
        for (unsigned number = 0; number < 150000; number++) {
            char word[9];
            int32_t wanted[9], count;
            for (unsigned i = 0; i < 9; i++)
                word[i] = (char)('a' + (number >> 2 * i) % LETTERS);
            const ce_bpe_token *made = ce_bpe_word(bpe, word, 9, &count);
            if (number % 50 == 0) {
                ck_assert_int_eq(count, plain(&lexicon, word, 9, wanted));
                ck_assert_int_eq(made[0].id, wanted[0]);
            }
        }
    ce_bpe_close(bpe);
    ce_lexicon_free(&lexicon);
}
END_TEST

/* A byte without a token is dropped, or becomes the unknown token. If the file says so, a sequence of such bytes
 * becomes one unknown token. */
START_TEST(unknown_bytes)
{
    ce_lexicon lexicon = { 0 };
    int32_t count;
    make(&lexicon, 1);
    for (int fuse = -1; fuse < 2; fuse++) {
        ce_bpe *bpe = ce_bpe_open(&lexicon);
        lexicon.unknown = fuse < 0 ? -1 : 3;
        lexicon.fuse_unknown = fuse == 1;
        ce_bpe_word(bpe, "xxx", 3, &count);
        ck_assert_int_eq(count, fuse < 0 ? 0 : fuse ? 1 : count);
        if (fuse == 0)
            ck_assert_int_ge(count, 1);
        ce_bpe_close(bpe);
    }
    ce_lexicon_free(&lexicon);
}
END_TEST

SUITE_MAIN("bpe", merges_are_those_of_the_definition, long_words_are_no_trouble, a_full_cache_changes_no_token,
           unknown_bytes)
