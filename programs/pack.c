/* pack.c - converts text to token shards: DIR/train-00000.bin ... and DIR/valid.bin.
 *
 * The validation split consists of whole documents, drawn at random with a fixed seed. If the documents are so few or
 * so long that whole documents cannot form a split of the wanted size, the validation split consists of the end of each
 * document; documents that are lines of JSON are never cut. The same texts and options give the same files, byte for
 * byte. */
#include "base/asked.h"
#include "base/plural.h"
#include "base/status.h"
#include "cspeed/cspeed.h"
#include "cspeed/options.h"
#include "data/packing.h"
#include "data/texts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Reads an assignment KEY=NAME. */
static int read_column(void *field, const char *word, const char *value)
{
    const char *equals = strchr(value, '=');
    char key[64];
    if (!equals || !equals[1]) {
        ce_fail(CS_BAD_CONFIG, "%s: KEY=NAME is needed, such as messages=dialog, not \"%s\"", word, value);
        return CS_OPTIONS_WRONG;
    }
    snprintf(key, sizeof key, "%.*s", (int)(equals - value), value);
    return ce_shape_column(field, key, equals + 1) == CS_OK ? 0 : CS_OPTIONS_WRONG;
}

static const cs_option table[] = {
    { CS_OPTION(RAW, "output", ce_packing_settings, output, "DIR",
                "folder for the files that are written: train-00000.bin and so on, and valid.bin. Default: data") },
    { CS_OPTION(RAW, "tokenizer", ce_packing_settings, tokenizer, "PATH",
                "a folder with tokenizer.json, with vocab.json and merges.txt, or with tokenizer.model, or one of "
                "these files; only BPE is supported. Default: each byte is a token") },
    { .names = "vocab",
      .kind = CS_OPTION_REFUSED,
      .value = "byte",
      .text = "without --tokenizer, the tokens are always the 256 values of a byte" },
    { CS_OPTION(
        RAW, "field", ce_packing_settings, field, "NAME",
        "member of a JSON line, or column of a table, that has the text of a document. Every TEXT is then read as "
        "JSON lines or a table. Default: text, in files whose names say that they are such") },
    { CS_OPTION(TAKE, "column", ce_packing_settings, columns, "KEY=NAME",
                "read the column NAME where a row would have the key KEY (messages, prompt, completion, instruction, "
                "output, input_ids and others); may be repeated"),
      .take = read_column },
    { CS_OPTION(
        RAW, "template", ce_packing_settings, chat, "NAME",
        "chat template with which conversations (rows with messages, prompt and completion, or instruction) are "
        "written: auto (that of the tokenizer, if it is known), chatml, chatml-bos, qwen2, qwen2.5, smollm2, llama3, "
        "llama3.1, llama2, mistral, mistral-v7, zephyr, plain, or a file NAME.jinja. The loss counts only the tokens "
        "of answers") },
    { CS_OPTION(CHOICE, "turns", ce_packing_settings, turns, "auto|all|last",
                "samples of a conversation. auto: one, or one for each answer if the template writes a message "
                "differently when others follow it; all: one for each answer; last: one, for the last answer. "
                "Default: auto") },
    { CS_OPTION(WHOLE, "skip_bad", ce_packing_settings, skip_bad, "N",
                "leave out up to N invalid JSON lines, and report each; one more ends the command. Default: 0"),
      .max = 1e12 },
    { CS_OPTION(RAW, "end", ce_packing_settings, end, "TOKEN",
                "token that is written after each document. Default: the tokenizer's end-of-text token") },
    { CS_OPTION(NUMBER, "valid", ce_packing_settings, valid, "FRACTION",
                "fraction of the bytes that is written to valid.bin for validation; 0: none. Default: 0.1"),
      .max = 0.99 },
    { CS_OPTION(RAW, "separator", ce_packing_settings, separator, "LINE",
                "a line that is equal to LINE ends a document; without --tokenizer an empty line is written in its "
                "place. Default: each TEXT is one document") },
    { CS_OPTION(WHOLE, "seq_len", ce_packing_settings, seq_len, "N",
                "length in tokens of the sequences with which you will train: texts that are too short for one "
                "sequence of N + 1 tokens are refused, and documents longer than N are counted"),
      .min = 1, .max = 1e9 },
    { CS_OPTION(WHOLE, "shard_tokens", ce_packing_settings, shard_tokens, "N",
                "greatest number of tokens of a train shard; a shard ends before a document that would exceed it. "
                "Default: 100000000"),
      .min = 1, .max = 1e12 },
    { CS_OPTION(WHOLE, "threads", ce_packing_settings, threads, "N",
                "number of threads that tokenize. Default: one for each core"),
      .min = 1, .max = 256 },
    { .names = "help h", .kind = CS_OPTION_HELP, .text = "print this text" },
};

/* Sets the list of text files; a folder in `names` stands for the files in it. */
static cs_status list_texts(ce_packing_settings *settings, char *const *names, glob_t *paths)
{
    for (; *names; names++)
        CE_TRY(ce_texts_list(paths, *names));
    settings->paths = paths->gl_pathv;
    settings->path_count = (int)paths->gl_pathc;
    return CS_OK;
}

static cs_status read_options(ce_packing_settings *settings, char ***names, char **argv)
{
    static const cs_options_form form = {
        .usage = "usage: cspeed pack [OPTIONS] TEXT...\n\n"
                 "  TEXT\n"
                 "        a file of JSON lines (.jsonl, .json) or a table (.parquet, .arrow);\n"
                 "        every other file is text, for example .txt; text and JSON may be\n"
                 "        compressed (.gz, .zst). Or a folder of such files\n",
        .what = "flag",
        .hint = "--help lists those of pack",
        CS_OPTIONS_TABLE(table),
        .max = -1,
    };
    *settings = (ce_packing_settings){ .output = "data", .valid = 0.1, .shard_tokens = 100000000 };
    *names = cs_options_main(&form, settings, argv);
    if (settings->shard_tokens <= settings->seq_len)
        return ce_fail(CS_BAD_CONFIG,
                       "--shard_tokens %" PRId64 ": a shard must hold one sequence of %" PRId64 " tokens",
                       settings->shard_tokens, settings->seq_len + 1);
    if (!**names)
        return ce_fail(CS_BAD_CONFIG, "no TEXT is given; see --help");
    return CS_OK;
}

static void tell(const ce_packing_settings *settings, const ce_packing_counts *counts)
{
    int64_t tokens = counts->train_tokens + counts->valid_tokens;
    printf("packed %" PRId64 " bytes in %" PRId64 " document%s of %d file%s into %s: %" PRId64 " tokens for training "
           "in %" PRId64 " shard%s, %" PRId64 " for validation; %.1f MB/s\n",
           counts->bytes, counts->documents, ce_plural(counts->documents), settings->path_count,
           ce_plural(settings->path_count), settings->output, counts->train_tokens, counts->train_shards,
           ce_plural(counts->train_shards), counts->valid_tokens, 1e-6 * (double)counts->bytes / counts->seconds);
    if (counts->documents > 1)
        printf("the longest document has %" PRId64 " tokens\n", counts->longest);
    if (counts->longer > 0)
        printf("%" PRId64 " document%s longer than seq_len, %" PRId64 " tokens; the first is %s\n", counts->longer,
               counts->longer == 1 ? " is" : "s are", settings->seq_len, counts->first_longer);
    if (counts->learnt < tokens)
        printf("%" PRId64 " of these %" PRId64 " tokens are answers and count in the loss; the others are only read\n",
               counts->learnt, tokens);
    if (counts->skipped > 0)
        printf("%" PRId64 " bad line%s left out (--skip_bad), %" PRId64 " of them for what is not supported\n",
               counts->skipped, counts->skipped == 1 ? " was" : "s were", counts->unsupported);
    if (counts->repaired > 0)
        printf("%" PRId64 " broken character%s not UTF-8 and became U+FFFD\n", counts->repaired,
               counts->repaired == 1 ? " was" : "s were");
}

int main(int argc, char **argv)
{
    ce_packing_settings settings;
    ce_packing_counts counts;
    glob_t paths = { 0 };
    char **names;
    (void)argc;
    ce_asked_ignore_saves();
    if (read_options(&settings, &names, argv) != CS_OK) {
        fprintf(stderr, "pack: %s\n", cs_error());
        return CS_OPTIONS_WRONG;
    }
    CS_MUST(list_texts(&settings, names, &paths));
    CS_MUST(ce_packing_run(&settings, &counts));
    tell(&settings, &counts);
    globfree(&paths);
    return 0;
}
