/* test_pack.c - the program pack: what it writes, that it writes the same again, and what it refuses. */
#include "data/tokens.h"
#include "shell.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PACK "'" CS_BIN "/pack'"

/* The bytes of shards NAME-00000.bin, NAME-00001.bin, ... (or of NAME.bin) one after another. */
static char *read_tokens(const char *folder, const char *name, size_t *size, int64_t *documents, int *shards)
{
    char *bytes = malloc(1);
    *size = 0, *documents = 0;
    for (*shards = 0;; ++*shards) {
        char      path[256];
        cs_tokens tokens;
        snprintf(path, sizeof path, strcmp(name, "valid") ? "%s/%s-%05d.bin" : "%s/%s.bin", folder, name, *shards);
        if (cs_tokens_open(&tokens, path) != CS_OK)
            break;
        ck_assert_int_eq(tokens.token_bytes, 2);
        ck_assert_int_eq(tokens.vocab_size, 256);
        bytes = realloc(bytes, *size + (size_t)tokens.count + 1);
        ck_assert_ptr_nonnull(bytes);
        for (int64_t i = 0; i < tokens.count; i++)
            bytes[*size + (size_t)i] = (char)cs_tokens_at(&tokens, i);
        *size += (size_t)tokens.count;
        *documents += tokens.documents;
        cs_tokens_close(&tokens);
        if (strcmp(name, "valid") == 0) {
            *shards = 1;
            break;
        }
    }
    return bytes;
}

/* Every byte value, newlines and NULs included, in an order without a pattern. */
static void write_binary(const char *path, size_t size)
{
    FILE    *file  = fopen(path, "wb");
    unsigned state = 1;
    ck_assert_ptr_nonnull(file);
    for (size_t i = 0; i < size; i++) {
        state = state * 1103515245u + 12345u;
        fputc((int)(state >> 16 & 255), file);
    }
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(a_text_is_split_and_whole)
{
    size_t  size, train_size, valid_size;
    int64_t documents;
    int     shards;
    shell_enter();
    write_binary("text", 100003);
    ck_assert_int_eq(shell_run("%s --output out/of/the/way text", PACK), 0);
    char *text  = shell_read("text", &size);
    char *train = read_tokens("out/of/the/way", "train", &train_size, &documents, &shards);
    ck_assert_int_eq(documents, 1);
    ck_assert_int_eq(shards, 1);
    char *valid = read_tokens("out/of/the/way", "valid", &valid_size, &documents, &shards);
    ck_assert_int_eq(documents, 1);
    ck_assert_uint_eq(valid_size, 10000);
    ck_assert_uint_eq(train_size + valid_size, size);
    ck_assert_int_eq(memcmp(text, train, train_size), 0);
    ck_assert_int_eq(memcmp(text + train_size, valid, valid_size), 0);
    free(text);
    free(train);
    free(valid);
    shell_leave();
}
END_TEST

START_TEST(the_same_text_gives_the_same_files)
{
    shell_enter();
    write_binary("text", 50000);
    ck_assert_int_eq(shell_run("%s --output a --separator e text && %s --output b --separator e text", PACK, PACK), 0);
    ck_assert_int_eq(shell_run("diff -r a b"), 0);
    ck_assert_int_eq(shell_run("%s --output a --separator e text && diff -r a b", PACK), 0);
    shell_leave();
}
END_TEST

/* 1,000 documents "document NNN of the text\n": each is in one of the two sets, whole, and an empty line follows it. */
START_TEST(documents_stay_whole)
{
    static char text[40000];
    char        all[2000] = { 0 };
    shell_enter();
    for (int i = 0; i < 1000; i++)
        sprintf(text + strlen(text), "document %03d of the text\n%s", i, i == 500 ? "%\n%\n" : i < 999 ? "%\n" : "");
    shell_write("text", text);
    ck_assert_int_eq(shell_run("%s --output out --valid 0.2 --separator %% text", PACK), 0);
    for (int set = 0; set < 2; set++) {
        size_t  size;
        int64_t documents;
        int     shards;
        char   *found = read_tokens("out", set ? "valid" : "train", &size, &documents, &shards);
        ck_assert_int_eq(documents, set ? 200 : 800);
        ck_assert_uint_eq(size, (size_t)documents * 26);
        for (size_t at = 0; at < size; at += 26) {
            int number = atoi(found + at + 9);
            ck_assert_int_eq(strncmp(found + at + 12, " of the text\n\n", 14), 0);
            ck_assert_int_eq(all[number]++, 0);
        }
        free(found);
    }
    shell_leave();
}
END_TEST

START_TEST(long_texts_take_several_shards)
{
    size_t  size, train_size, valid_size;
    int64_t documents;
    int     shards;
    shell_enter();
    write_binary("text", 10000);
    ck_assert_int_eq(shell_run("%s --output out --shard_tokens 1000 --seq_len 100 text", PACK), 0);
    char *text  = shell_read("text", &size);
    char *train = read_tokens("out", "train", &train_size, &documents, &shards);
    ck_assert_int_eq(shards, 9);
    ck_assert_uint_eq(train_size, 9000);
    ck_assert_int_eq(memcmp(text, train, train_size), 0);
    free(train);

    /* A shorter text leaves none of the longer one's shards, and one without validation no valid.bin. */
    ck_assert_int_eq(shell_run("head -c 2500 text >short && %s --output out --shard_tokens 1000 --valid 0 short", PACK), 0);
    train = read_tokens("out", "train", &train_size, &documents, &shards);
    ck_assert_int_eq(shards, 3);
    ck_assert_uint_eq(train_size, 2500);
    ck_assert_int_eq(shell_run("test \"$(ls out | wc -l)\" = 3"), 0);
    char *valid = read_tokens("out", "valid", &valid_size, &documents, &shards);
    ck_assert_uint_eq(valid_size, 0);
    free(text);
    free(train);
    free(valid);
    shell_leave();
}
END_TEST

/* Few documents, none of which fits into a tenth: the ends of all are held out. */
START_TEST(ends_of_few_documents_are_held_out)
{
    size_t  size;
    int64_t documents;
    int     shards;
    shell_enter();
    ck_assert_int_eq(shell_run("head -c 1000 /dev/zero | tr '\\0' a >a; head -c 3000 /dev/zero | tr '\\0' b >b"), 0);
    ck_assert_int_eq(shell_run("%s --output out a b", PACK), 0);
    char *valid = read_tokens("out", "valid", &size, &documents, &shards);
    ck_assert_uint_eq(size, 400);
    ck_assert_int_eq(documents, 2);
    for (size_t i = 0; i < size; i++)
        ck_assert_int_eq(valid[i], i < 100 ? 'a' : 'b');
    free(valid);
    shell_leave();
}
END_TEST

/* One sequence is 65 bytes, and training and validation need one each. */
START_TEST(the_shortest_text_is_enough)
{
    size_t  size;
    int64_t documents;
    int     shards;
    shell_enter();
    write_binary("text", 130);
    ck_assert_int_eq(shell_run("%s --output out --seq_len 64 text", PACK), 0);
    free(read_tokens("out", "train", &size, &documents, &shards));
    ck_assert_uint_eq(size, 65);
    free(read_tokens("out", "valid", &size, &documents, &shards));
    ck_assert_uint_eq(size, 65);
    ck_assert_int_eq(shell_run("%s --output out --seq_len 65 text", PACK), 65);
    ck_assert_int_eq(shell_run("%s --output out --seq_len 129 --valid 0 text", PACK), 0);
    ck_assert_int_eq(shell_run("%s --output out --seq_len 130 --valid 0 text", PACK), 65);
    shell_leave();
}
END_TEST

START_TEST(faults_are_one_sentence)
{
    static const struct {
        const char *arguments;
        int         code;
        const char *word;
    } faults[] = {
        { "nowhere.txt", 66, "nowhere.txt" },
        { "text/below", 66, "text/below" },
        { "empty", 65, "empty: empty" },
        { "folder", 65, "folder: a directory" },
        { "/dev/null", 65, "not a regular file" },
        { "--seq_len 256 text", 65, "text: too short: 100 bytes, and one sequence takes 257" },
        { "--seq_len 64 text", 65, "one sequence of 65" },
        { "text nowhere.txt", 66, "nowhere.txt" },
        { "--output text/below text", 1, "text/below" },
        { "--vocab words text", 64, "'words'" },
        { "--valid 1 text", 64, "'1'" },
        { "--valid nan text", 64, "'nan'" },
        { "--seq_len 0 text", 64, "'0'" },
        { "--shard_tokens 10 --seq_len 10 text", 64, "11 tokens" },
        { "--colour text", 64, "usage" },
        { "", 64, "no text" },
    };
    shell_enter();
    write_binary("text", 100);
    shell_write("empty", "");
    ck_assert_int_eq(shell_run("mkdir folder"), 0);
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++) {
        int   code = shell_run("%s %s%s", PACK, strstr(faults[f].arguments, "--output") ? "" : "--output out ", faults[f].arguments);
        char *said = shell_read("out.txt", NULL);
        ck_assert_msg(code == faults[f].code && strstr(said, faults[f].word), "pack %s: code %d, and it said: %s",
                      faults[f].arguments, code, said);
        free(said);
    }
    ck_assert_int_eq(shell_run("test ! -e out"), 0); /* what is refused leaves nothing */
    shell_leave();
}
END_TEST

SUITE_MAIN("pack", a_text_is_split_and_whole, the_same_text_gives_the_same_files, documents_stay_whole,
           long_texts_take_several_shards, ends_of_few_documents_are_held_out, the_shortest_text_is_enough,
           faults_are_one_sentence)
