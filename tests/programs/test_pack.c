/* test_pack.c - the program pack: its output files, that they are the same in every run, and the inputs that it
 * refuses. */
#include "data/data.h"
#include "data/tokens.h"
#include "shell.h"
#include "suite.h"
#include "text/tokenizer.h"
#include "tokenizers.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define PACK "'" CS_BIN "/pack'"

/* Returns the concatenated tokens of the shards NAME-00000.bin, NAME-00001.bin, ... (or of NAME.bin), as bytes; the
 * caller frees them. *size, *documents and *shards receive the numbers of tokens, of documents and of shards. */
static char *read_tokens(const char *folder, const char *name, size_t *size, int64_t *documents, int *shards)
{
    char *bytes = malloc(1);
    *size = 0, *documents = 0;
    for (*shards = 0;; ++*shards) {
        char path[256];
        ce_tokens tokens;
        snprintf(path, sizeof path, strcmp(name, "valid") ? "%s/%s-%05d.bin" : "%s/%s.bin", folder, name, *shards);
        if (ce_tokens_open(&tokens, path) != CS_OK)
            break;
        ck_assert_int_eq(tokens.token_bytes, 2);
        ck_assert_int_eq(tokens.vocab_size, 256);
        bytes = realloc(bytes, *size + (size_t)tokens.count + 1);
        ck_assert_ptr_nonnull(bytes);
        /* A shard that begins within a document has the last token of the shard before it first. */
        int64_t again = tokens.documents == 0 || tokens.starts[0] > 0;
        ck_assert(!again || (*size > 0 && (char)ce_tokens_at(&tokens, 0) == bytes[*size - 1]));
        for (int64_t i = again; i < tokens.count; i++)
            bytes[*size + (size_t)(i - again)] = (char)ce_tokens_at(&tokens, i);
        *size += (size_t)(tokens.count - again);
        *documents += tokens.documents;
        ce_tokens_close(&tokens);
        if (strcmp(name, "valid") == 0) {
            *shards = 1;
            break;
        }
    }
    return bytes;
}

/* Writes every character of ASCII but NUL, including newlines, in an order without a pattern. */
static void write_text(const char *path, size_t size)
{
    FILE *file = fopen(path, "wb");
    unsigned state = 1;
    ck_assert_ptr_nonnull(file);
    for (size_t i = 0; i < size; i++) {
        state = state * 1103515245u + 12345u;
        fputc((int)(1 + (state >> 16 & 255) % 127), file);
    }
    ck_assert_int_eq(fclose(file), 0);
}

/* The rows of a file are read whatever the case of its ending; where a name says nothing, rows are not taken as text. The
 * files of a folder that are not read are named. */
START_TEST(rows_are_not_read_as_text)
{
    static const char row[] = "{\"text\": \"abc\"}\n";
    shell_enter();
    ck_assert_int_eq(shell_run("mkdir more"), 0);
    shell_write("more/A.JSONL", row);
    shell_write("more/rows.ndjson", row);
    shell_write("more/README.md", "about");
    shell_write("a.csv", "text,more\nabc,d\n");
    ck_assert_int_eq(shell_run("%s --valid 0 --output out more", PACK), 0);
    char *said = shell_read("out.txt", NULL);
    ck_assert_msg(strstr(said, "packed 3 bytes") || strstr(said, "3 tokens for training"), "%s", said);
    ck_assert_msg(strstr(said, "more: 1 other file is not read: rows.ndjson"), "%s", said);
    free(said);
    shell_ended(65, shell_run("%s --valid 0 --output out2 more/rows.ndjson", PACK), "rename it to .jsonl");
    shell_ended(65, shell_run("%s --valid 0 --output out2 a.csv", PACK), "csv.DictReader");
    ck_assert_int_eq(shell_run("%s --valid 0 --field text --output out2 more/rows.ndjson", PACK), 0);
    shell_leave();
}
END_TEST

START_TEST(a_text_is_split_and_whole)
{
    size_t size, train_size, valid_size;
    int64_t documents;
    int shards;
    shell_enter();
    write_text("text", 100003);
    ck_assert_int_eq(shell_run("%s --output out/of/the/way text", PACK), 0);
    char *text = shell_read("text", &size);
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
    write_text("text", 50000);
    ck_assert_int_eq(shell_run("%s --output a --separator e text && %s --output b --separator e text", PACK, PACK), 0);
    ck_assert_int_eq(shell_run("diff -r a b"), 0);
    ck_assert_int_eq(shell_run("%s --output a --separator e text && diff -r a b", PACK), 0);
    shell_leave();
}
END_TEST

/* Packs 1,000 documents "document NNN of the text\n". Each must be complete in one of the two sets, training or
 * validation, and be followed by an empty line. */
START_TEST(documents_stay_whole)
{
    static char text[40000];
    char all[2000] = { 0 };
    shell_enter();
    for (int i = 0; i < 1000; i++)
        sprintf(text + strlen(text), "document %03d of the text\n%s", i, i == 500 ? "%\n%\n" : i < 999 ? "%\n" : "");
    shell_write("text", text);
    ck_assert_int_eq(shell_run("%s --output out --valid 0.2 --separator %% text", PACK), 0);
    for (int set = 0; set < 2; set++) {
        size_t size;
        int64_t documents;
        int shards;
        char *found = read_tokens("out", set ? "valid" : "train", &size, &documents, &shards);
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

/* A document is divided only if it is longer than a shard. */
START_TEST(shards_end_where_documents_end)
{
    size_t size;
    int64_t documents;
    int shards;
    shell_enter();
    ck_assert_int_eq(
        shell_run("for i in 1 2 3 4 5; do echo '{\"text\": \"twenty bytes of text\"}'; done > five.jsonl && "
                  "%s --output out --shard_tokens 50 --valid 0 five.jsonl",
                  PACK),
        0);
    shell_ended(0, shell_run("%s --output more --seq_len 20 --valid 0 five.jsonl", PACK),
                "the longest document has 20 tokens");
    shell_ended(0, shell_run("%s --output more --seq_len 19 --valid 0 five.jsonl", PACK),
                "5 documents are longer than seq_len, 19 tokens; the first is five.jsonl, line 1");
    char *train = read_tokens("out", "train", &size, &documents, &shards);
    ck_assert_int_eq(shards, 3); /* of two documents, two, and one */
    ck_assert_int_eq(documents, 5);
    free(train);
    shell_leave();
}
END_TEST

/* Places count lines, rows and elements of a list, without those that are left out. The order of rows in several shards,
 * and a document that is divided between shards, have their places too. */
START_TEST(documents_have_places)
{
    static const struct {
        const char *arguments, *file, *places;
    } rows[] = {
        { "--shard_tokens 50 five.jsonl", "out/.train-00001.places", "1 3 five.jsonl\n" },
        { "gaps.jsonl five.jsonl --skip_bad 1 --threads 3", "out/.train-00000.places",
          "1 2 gaps.jsonl\n2 5 gaps.jsonl\n3 1 five.jsonl\n" },
        { "--field text list.json", "out/.train-00000.places", "1 1 list.json\n2 3 list.json\n" },
        { "--separator -- parts.txt", "out/.train-00000.places", "1 1 parts.txt\n2 4 parts.txt\n" },
        { "--shard_tokens 15 five.jsonl", "out/.train-00001.places", "0 1 five.jsonl\n" },
        { "--valid 0.5 five.jsonl", "out/.valid.places", "1 2 five.jsonl\n" },
    };
    shell_enter();
    ck_assert_int_eq(shell_run("for i in 1 2 3 4 5; do echo '{\"text\": \"twenty bytes of text\"}'; done > five.jsonl"),
                     0);
    shell_write("gaps.jsonl", "\n{\"text\": \"one\"}\n{\"none\": 1}\n\n{\"text\": \"two\"}\n");
    shell_write("list.json", "[{\"text\": \"one\"},\n\n{\"text\":\n\"two\"}]\n");
    shell_write("parts.txt", "one\nline\n--\nanother\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_int_eq(shell_run("rm -rf out; %s --output out --valid 0 %s", PACK, rows[i].arguments), 0);
        char *places = shell_read(rows[i].file, NULL);
        ck_assert_msg(strcmp(places, rows[i].places) == 0, "%s: %s", rows[i].arguments, places);
        free(places);
    }
    shell_leave();
}
END_TEST

/* What a killed pack has left is removed by the next one, and two at a time do not write the same shards. */
START_TEST(a_killed_pack_leaves_nothing)
{
    shell_enter();
    ck_assert_int_eq(shell_run("head -c 3000 /dev/zero | tr '\\0' a > text; mkdir out"), 0);
    /* The shards have the names of a pack that was killed in its fourth shard, and before that in its validation. */
    ck_assert_int_eq(shell_run("echo half > out/train-00002.bin.tmp; echo half > out/valid.bin.tmp; echo half > "
                               "out/train-00000.bin.tmp"),
                     0);
    ck_assert_int_eq(shell_run("%s --output out --shard_tokens 2000 --valid 0 text", PACK), 0);
    ck_assert_int_eq(shell_run("ls out | tr '\n' ' ' > list"), 0);
    char *list = shell_read("list", NULL);
    ck_assert_str_eq(list, "train-00000.bin train-00001.bin ");
    free(list);
    int file = open("out/train-00000.bin.tmp", O_RDWR | O_CREAT, 0666);
    ck_assert(file >= 0 && flock(file, LOCK_EX) == 0);
    shell_ended(1, shell_run("%s --output out --valid 0 text", PACK),
                "another process writes out/train-00000.bin: wait until it has ended, or name another folder");
    close(file);
    shell_leave();
}
END_TEST

START_TEST(long_texts_take_several_shards)
{
    size_t size, train_size, valid_size;
    int64_t documents;
    int shards;
    shell_enter();
    write_text("text", 10000);
    ck_assert_int_eq(shell_run("%s --output out --shard_tokens 1000 --seq_len 100 text", PACK), 0);
    char *text = shell_read("text", &size);
    char *train = read_tokens("out", "train", &train_size, &documents, &shards);
    ck_assert_int_eq(shards, 10);
    ck_assert_uint_eq(train_size, 9000);
    ck_assert_int_eq(memcmp(text, train, train_size), 0);
    /* Each token but the first of the document is a target once, also of whole documents. */
    for (int whole = 0; whole < 2; whole++) {
        ce_windows *windows;
        static const char *const names[] = { "out/train-*.bin" };
        ce_data_settings with = { names, 1, .seq_len = 70, .documents = whole, .longer = CE_LONG_SPLIT, .all = true };
        int32_t inputs[70], targets[70], starts[70];
        int64_t scored = 0;
        ck_assert_msg(ce_windows_open(&windows, &with) == CS_OK, "%s", cs_error());
        for (int64_t i = 0; i < ce_windows_count(windows); i++) {
            ce_windows_read_plain(windows, i, (ce_window){ inputs, targets, starts });
            for (int t = 0; t < 70; t++)
                scored += targets[t] >= 0;
        }
        ck_assert_int_eq(scored, 8999);
        ck_assert_int_eq(ce_windows_counts(windows)->lost, 0);
        ce_windows_close(windows);
    }
    free(train);

    /* Packing a shorter text removes the shards of the longer one, and packing without validation removes valid.bin. */
    ck_assert_int_eq(shell_run("head -c 2500 text >short && %s --output out --shard_tokens 1000 --valid 0 short", PACK),
                     0);
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

/* Each of the two documents is longer than a tenth of all bytes. Therefore validation does not get whole documents, but
 * the end of each document. */
START_TEST(ends_of_few_documents_are_held_out)
{
    size_t size;
    int64_t documents;
    int shards;
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

/* Texts and lines of JSON together, each longer than a tenth of all bytes: one line becomes validation data, at
 * whatever place the pseudo-random order puts the texts. */
START_TEST(a_line_is_held_out_beside_longer_texts)
{
    size_t size;
    int64_t documents;
    int shards;
    shell_enter();
    ck_assert_int_eq(shell_run("for i in 1 2; do printf '{\"text\": \"%%03000d\"}\\n' 7; done >lines.jsonl; "
                               "for i in 1 2 3 4 5 6; do head -c 4000 /dev/zero | tr '\\0' a >$i; done"),
                     0);
    for (int texts = 1; texts <= 6; texts++) {
        ck_assert_int_eq(shell_run("rm -rf out && %s --output out lines.jsonl $(seq %d)", PACK, texts), 0);
        free(read_tokens("out", "valid", &size, &documents, &shards));
        ck_assert_msg(documents == 1 && size >= 3000 && size < 4000, "%d texts: %zu tokens", texts, size);
    }
    shell_leave();
}
END_TEST

/* With --seq_len 64 a sequence has 65 bytes. Training and validation each need one sequence, so 130 bytes are
 * enough. */
START_TEST(the_shortest_text_is_enough)
{
    size_t size;
    int64_t documents;
    int shards;
    shell_enter();
    write_text("text", 130);
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

/* Many threads and one thread give the same shards; a long text that is split gives the same tokens as without
 * splitting. */
START_TEST(threads_change_nothing)
{
    static const char line[] =
        "the quick brown fox didn't jump 12345 times over\n  the lazy dog\n\n\xe5\xad\x97\xe8\xaf\x8d, \xff!\nand ";
    shell_enter();
    tokenizers_write("llama3", "tokenizer.json");
    FILE *file = fopen("long", "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < 40000; i++)
        fprintf(file, "%s%d", line, i);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(shell_run("%s --tokenizer tokenizer.json --threads 3 --valid 0 --output a long", PACK), 0);
    char *said = shell_read("out.txt", NULL);
    ck_assert_msg(strstr(said, "40000 broken characters were not UTF-8 and became U+FFFD") != NULL, "%s", said);
    free(said);
    ck_assert_int_eq(shell_run("%s --tokenizer tokenizer.json --threads 1 --valid 0 --output b long && diff -r a b",
                               PACK),
                     0);

    /* If the tokenizer's pattern has a construct that pack does not know, long texts are not split. */
    ck_assert_int_eq(shell_run(
                         "sed 's/(?i:/(?i:(?#)/' tokenizer.json >other.json && ! cmp -s tokenizer.json other.json"),
                     0);
    ck_assert_int_eq(shell_run("%s --tokenizer other.json --threads 2 --valid 0 --output c long && diff -r a c", PACK),
                     0);
    shell_leave();
}
END_TEST

static void check_text(const char *folder, const char *name, const char *wanted)
{
    ce_tokens tokens;
    char path[64], text[4096];
    size_t length = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ck_assert_msg(ce_tokens_open(&tokens, path) == CS_OK, "%s", cs_error());
    for (int64_t i = 0; i < tokens.count; i++) {
        bool learnt = ce_tokens_is_learnt(&tokens, i), before = i == 0 || ce_tokens_is_learnt(&tokens, i - 1);
        if (tokens.learnt && learnt != (before && i > 0))
            text[length++] = learnt ? '{' : '}';
        text[length++] = (char)ce_tokens_at(&tokens, i);
    }
    text[length] = 0;
    ck_assert_str_eq(text, wanted);
    ce_tokens_close(&tokens);
}

START_TEST(lines_of_json_are_documents)
{
    shell_enter();
    shell_write("a.jsonl", "{\"text\": \"one\\n\"}\n\n{\"id\": 3, \"text\": \"\\u5b57\"}\n{\"text\": \"\"}");
    ck_assert_int_eq(shell_run("%s --valid 0 --output out a.jsonl", PACK), 0);
    check_text("out", "train-00000.bin", "one\n\xe5\xad\x97");
    shell_write("b", "{\"body\": \"two\"}\n{\"body\": \"three\"}\n");
    ck_assert_int_eq(shell_run("%s --valid 0 --field body --output out b", PACK), 0);
    check_text("out", "train-00000.bin", "twothree");
    ck_assert_int_eq(shell_run("%s --valid 0.5 --field body --output out b", PACK), 0);
    check_text("out", "train-00000.bin", "three");
    check_text("out", "valid.bin", "two");
    shell_leave();
}
END_TEST

/* The reported bad lines and the output files are the same for any number of threads. */
START_TEST(bad_lines_are_named_and_left_out)
{
    static const char *const bad[] = { "{\"text\": \"a\\u0000b\"}", "{\"text\": \"a\\ud800\"}",
                                       "{\"text\": \"a\", \"text\": \"b\"}", "{\"text\": 5}", "{\"text\": \"cut" };
    enum { BAD = sizeof bad / sizeof *bad, LINES = 60000 };
    shell_enter();
    FILE *lines = fopen("a.jsonl", "w"), *good = fopen("good.jsonl", "w");
    ck_assert(lines && good);
    for (int i = 0; i < LINES; i++) {
        if (i % (LINES / BAD) == 77)
            fprintf(lines, "%s\n", bad[i / (LINES / BAD)]);
        fprintf(lines, "{\"text\": \"a line of its own, which is number %d\\n\"}\n", i);
        fprintf(good, "{\"text\": \"a line of its own, which is number %d\\n\"}\n", i);
    }
    ck_assert(fclose(lines) == 0 && fclose(good) == 0);
    ck_assert_int_eq(shell_run("%s --valid 0 --output good good.jsonl", PACK), 0);
    for (int threads = 1; threads < 4; threads += 2) {
        ck_assert_int_eq(shell_run("%s --valid 0 --skip_bad %d --threads %d --output out a.jsonl", PACK, BAD, threads),
                         0);
        char *said = shell_read("out.txt", NULL);
        for (int i = 0; i < BAD; i++) {
            char words[64];
            snprintf(words, sizeof words, "left out: a.jsonl, line %d: ", i * (LINES / BAD) + 78 + i);
            ck_assert_msg(strstr(said, words) != NULL, "not said: %s\n%s", words, said);
        }
        ck_assert_msg(strstr(said, "5 bad lines were left out") && strstr(said, " in 60000 documents"), "%s", said);
        free(said);
        ck_assert_int_eq(shell_run("diff -r -x '*.places' good out && rm -r out"), 0);
        ck_assert_int_eq(shell_run("%s --valid 0 --skip_bad 4 --threads %d --output out a.jsonl", PACK, threads), 65);
        said = shell_read("out.txt", NULL);
        ck_assert_msg(strstr(said, "pack: a.jsonl, line 48082: ") || strstr(said, "cspeed: a.jsonl, line 48082: "),
                      "%s", said);
        ck_assert_msg(strstr(said, "\"skip_bad\", the number of such lines that may be left out, is 4"), "%s", said);
        free(said);
        ck_assert_int_ne(shell_run("ls -d out"), 0);
    }
    shell_leave();
}
END_TEST

/* In the expected text, braces enclose each target. A target is an answer together with the text that ends the
 * answer. */
START_TEST(only_answers_of_conversations_are_targets)
{
    static const char chat[] =
        "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": \"user\", "
        "\"content\": \" Hi?\"}, {\"role\": \"assistant\", \"content\": \"Yes.\"}]}\n"
        "{\"conversations\": [{\"from\": \"human\", \"value\": \"A\"}, {\"from\": \"gpt\", \"value\": \"B\"}]}\n";
    shell_enter();
    shell_write("chat.jsonl", chat);
    ck_assert_int_eq(shell_run("%s --valid 0 --template plain --output out chat.jsonl", PACK), 0);
    check_text("out", "train-00000.bin",
               "System: Be brief.\n\nUser: Hi?\n\nAssistant:{ Yes.\n\n}User: A\n\nAssistant:{ B\n\n");
    char *said = shell_read("out.txt", NULL);
    ck_assert_msg(strstr(said, "11 of these 70 tokens are answers") != NULL, "%s", said);
    free(said);
    shell_leave();
}
END_TEST

/* Compares what pack writes for each chat shape with the text of that shape's template. The vocabulary is bytes and the
 * special tokens of all shapes. */
/* Packs the rows of a.jsonl with the template "plain". */
static void pack_rows(const char *rows, const char *arguments, int code, const char *words)
{
    shell_write("a.jsonl", rows);
    int got = shell_run("%s --template plain --valid 0 %s --output out a.jsonl", PACK, arguments);
    char *said = shell_read("out.txt", NULL);
    ck_assert_msg(got == code && strstr(said, words), "exit code %d, and not said: %s\n%s", got, words, said);
    free(said);
    shell_run("rm -rf out");
}

START_TEST(rows_without_effect_are_counted)
{
#define SAYS(role, more) "{\"role\": \"" role "\", \"content\": \"x\"" more "}"
#define GOOD "{\"id\": 1, \"weight\": 1, \"messages\": [" SAYS("user", "") ", " SAYS("assistant", "") "]}\n"
#define ASKED "{\"messages\": [" SAYS("user", "") "]}\n"
#define UNLEARNT "{\"messages\": [" SAYS("user", "") ", " SAYS("assistant", ", \"learn\": false") "]}\n"
#define REFUSED "{\"messages\": [" SAYS("user", "") ", " SAYS("assistant", ", \"mask\": 1") "]}\n"
    shell_enter();
    pack_rows(GOOD ASKED UNLEARNT, "", 0,
              "2 conversations have no answer to train on and are left out; the first is a.jsonl, line 2: a "
              "conversation without an answer");
    pack_rows(GOOD ASKED UNLEARNT, "", 0, " in 1 document of 1 file");
    pack_rows(ASKED UNLEARNT, "", 65,
              "a.jsonl: nothing is left to train on; left out: 2 lines, the first is a.jsonl, line 1: a conversation "
              "without an answer, so no token of it counts in the loss; the roles here are \"user\"");
    pack_rows(GOOD "{\"messages\": [], \"prompt\": [" SAYS("user", "") "], \"completion\": [" SAYS("user", "") "]}\n",
              "--skip_bad 1", 0, "left out: a.jsonl, line 2: the list \"messages\"");
    pack_rows(GOOD GOOD ASKED, "", 0,
              "columns not read: \"id\" (2 rows); read: \"weight\" (2 rows), \"messages\" (2 rows)");
    pack_rows(REFUSED GOOD "{}\n", "--skip_bad 2", 0,
              "2 bad lines were left out (--skip_bad), 1 of them for what is not supported");
    pack_rows(REFUSED GOOD, "", 78, "a.jsonl, line 1: not supported: message 2 (assistant) has \"mask\"");
    pack_rows(
        "{\"text\": \"a\\u0000b\"}\n", "", 65,
        "a.jsonl, line 1: each line, or element of the list, must be one JSON object; in its own lines and columns: "
        "line 1, column 19: a NUL character (\\u0000), which no text may contain: remove it, or write \\ufffd in its "
        "place");
    pack_rows("{\"id\": -12345678901234567890123, \"t\": \"\\\"9999999999999999999\", \"input_ids\": [1, 2, "
              "9223372036854775807]}\n",
              "", 65, "\"input_ids\" has the token 9223372036854775807");
    pack_rows("{\"id\": 9223372036854775808, \"input_ids\": [1, 2]}\n{\"id\": 1e22, \"input_ids\": [1, 2]}\n", "", 0,
              "warning: 1 row has an integer of more than 64 bits, which is read as a floating-point number");
    pack_rows("{\"input_ids\": [1, 2, 3], \"attention_mask\": [true, true, false], \"assistant_masks\": [false, true, "
              "true]}\n",
              "", 0, "1 of these 2 tokens are answers");
    shell_leave();
}
END_TEST

START_TEST(templates_are_written)
{
    static const struct {
        const char *name, *text;
    } cases[] = {
        { "chatml", "<|im_start|>user\nA<|im_end|>\n<|im_start|>assistant\n[B<|im_end|>]\n" },
        { "llama3",
          "<s><|start_header_id|>user<|end_header_id|>\n\nA<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n["
          "B<|eot_id|>]" },
        { "llama2", "<s>[INST] A [/INST][ B </s>]" },
        { "mistral", "<s>[INST]A[/INST][B</s>]" },
    };
    static const char *const words[] = {
        "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<s>", "</s>"
    };
    shell_enter();
    tokenizers_write("gpt2", "tokenizer.json");
    json_t *file = json_load_file("tokenizer.json", 0, NULL);
    for (int i = 0; i < 7; i++)
        json_array_append_new(json_object_get(file, "added_tokens"),
                              json_pack("{s:i, s:s, s:b}", "id", 5000 + i, "content", words[i], "special", 1));
    ck_assert_int_eq(json_dump_file(file, "tokenizer.json", 0), 0);
    json_decref(file);
    shell_write(
        "chat.jsonl",
        "{\"messages\": [{\"role\": \"user\", \"content\": \"A\"}, {\"role\": \"assistant\", \"content\": \"B\"}]}");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char text[300] = "";
        bool known = c < 2; /* chatml and llama3 are recognised by their templates */
        tokenizers_configure("tokenizer_config.json", "<s>", "</s>", known ? cases[c].name : "chatml");
        ck_assert_int_eq(shell_run("%s --valid 0 --tokenizer . --template %s --output out chat.jsonl", PACK,
                                   cases[c].name),
                         0);
        if (known)
            ck_assert_int_eq(
                shell_run("%s --valid 0 --tokenizer . --template auto --output auto chat.jsonl && diff -r out auto",
                          PACK),
                0);
        ce_tokenizer *tokenizer;
        ce_tokens tokens;
        ck_assert_int_eq(ce_tokenizer_open(&tokenizer, "."), CS_OK);
        ck_assert_int_eq(ce_tokens_open(&tokens, "out/train-00000.bin"), CS_OK);
        for (int64_t i = 0; i < tokens.count; i++) {
            size_t size;
            const char *piece = ce_tokenizer_piece(tokenizer, (int32_t)ce_tokens_at(&tokens, i), &size);
            bool now = ce_tokens_is_learnt(&tokens, i), before = i > 0 && ce_tokens_is_learnt(&tokens, i - 1);
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%.*s",
                     now == before ? ""
                     : now         ? "["
                                   : "]",
                     (int)size, piece);
            if (i + 1 == tokens.count && now)
                strcat(text, "]");
        }
        ck_assert_str_eq(text, cases[c].text);
        ce_tokens_close(&tokens);
        ce_tokenizer_close(tokenizer);
    }
    shell_leave();
}
END_TEST

START_TEST(faults_are_one_sentence)
{
    static const struct {
        const char *arguments;
        int code;
        const char *word;
    } faults[] = {
        { "nowhere.txt", 66, "nowhere.txt" },
        { "text/below", 66, "text/below" },
        { "empty", 65, "empty: empty" },
        { "folder", 66, "folder: no text, .jsonl or .txt" },
        { "/dev/null", 65, "not a regular file" },
        { "--seq_len 256 text", 65, "text: too short: 100 bytes, and one sequence needs 257" },
        { "--seq_len 64 text", 65, "one sequence of 65" },
        { "text nowhere.txt", 66, "nowhere.txt" },
        { "--output text/below text", 1, "text/below" },
        { "--vocab words text", 64, "--vocab words" },
        { "--valid 1 text", 64, "not \"1\"" },
        { "--valid nan text", 64, "not \"nan\"" },
        { "--seq_len 0 text", 64, "not \"0\"" },
        { "--shard_tokens 10 --seq_len 10 text", 64, "11 tokens" },
        { "--colour text", 64, "unknown flag --colour" },
        { "--valid 0 --field text text", 65,
          "text, line 1: each line, or element of the list, must be one JSON object; in its own lines and columns: " },
        { "bad.jsonl", 65, "bad.jsonl, line 2: there is no key \"text\"" },
        { "--valid 0 --field other --skip_bad 2 bad.jsonl", 65, "bad.jsonl: nothing is left to train on" },
        { "--skip_bad some bad.jsonl", 64, "not \"some\"" },
        { "--template plain bad.jsonl", 65, "bad.jsonl, line 2: there is no key \"text\"" },
        { "--template jinja bad.jsonl", 78, "possible are \"chatml\", \"chatml-bos\"" },
        { "--template auto bad.jsonl", 78, "no chat_template" },
        { "--template chatml bad.jsonl", 78, "<|im_start|>, for which this tokenizer has no token" },
        { "--tokenizer nowhere text", 66, "nowhere" },
        { "--tokenizer text text", 65, "text: line 1" },
        { "--end '<|end|>' text", 78, "no such token" },
        { "", 64, "no TEXT" },
    };
    shell_enter();
    write_text("text", 100);
    shell_write("empty", "");
    shell_write("bad.jsonl", "{\"text\": \"a\"}\n{\"words\": \"b\"}\n");
    ck_assert_int_eq(shell_run("mkdir folder"), 0);
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++) {
        int code = shell_run("%s %s%s", PACK, strstr(faults[f].arguments, "--output") ? "" : "--output out ",
                             faults[f].arguments);
        char *said = shell_read("out.txt", NULL);
        ck_assert_msg(code == faults[f].code && strstr(said, faults[f].word), "pack %s: code %d, and it said: %s",
                      faults[f].arguments, code, said);
        free(said);
    }
    ck_assert_int_ne(shell_run("ls -d out"), 0); /* a refused input leaves neither shards nor folders */
    ck_assert_int_eq(shell_run("%s --output deep/er/out --valid 0 --seq_len 12 --skip_bad 1 bad.jsonl", PACK), 65);
    ck_assert_int_ne(shell_run("ls -d deep"), 0);
    ck_assert_int_eq(shell_run("mkdir deep && touch deep/mine"), 0);
    ck_assert_int_ne(shell_run("%s --output deep/er/out/ bad.jsonl", PACK), 0);
    ck_assert_int_eq(shell_run("ls deep | grep -qx mine && ! test -e deep/er"), 0);
    shell_leave();
}
END_TEST

SUITE_MAIN("pack", a_text_is_split_and_whole, rows_are_not_read_as_text, the_same_text_gives_the_same_files,
           documents_stay_whole, shards_end_where_documents_end, long_texts_take_several_shards, documents_have_places,
           a_killed_pack_leaves_nothing, ends_of_few_documents_are_held_out, a_line_is_held_out_beside_longer_texts,
           the_shortest_text_is_enough, threads_change_nothing, lines_of_json_are_documents,
           bad_lines_are_named_and_left_out, only_answers_of_conversations_are_targets, rows_without_effect_are_counted,
           templates_are_written, faults_are_one_sentence)
