/* pack.c - converts text to token shards: DIR/train-00000.bin ... and DIR/valid.bin.
 *
 * The validation split consists of whole documents, drawn at random with a fixed seed. If there are too few documents
 * to draw from, it is the end of each document. The same texts and options give the same files, byte for byte. */
#include "base/status.h"
#include "cspeed/cspeed.h"
#include "data/packing.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: pack [options] TEXT...\n"
    "  --output DIR       where train-00000.bin ... and valid.bin go          (data)\n"
    "  --tokenizer PATH   folder with tokenizer.json, or vocab.json and merges.txt; byte-level BPE\n"
    "  --vocab byte       instead of a tokenizer: 256 byte values, as they are (byte)\n"
    "  --field NAME       the texts are JSON, a document a line, its text under NAME (of names in .jsonl: text)\n"
    "  --template NAME    the lines of JSON are conversations (messages of role and content), written as the template\n"
    "                     auto (the tokenizer's, where it is known), chatml, chatml-bos, qwen2, qwen2.5, smollm2,\n"
    "                     llama3, llama3.1, llama2, mistral, mistral-v7, zephyr or plain; only answers are learnt\n"
    "  --skip_bad N       name and leave out up to N lines of JSON with which something is wrong  (0)\n"
    "  --end TOKEN        behind each document                                (the tokenizer's end of text)\n"
    "  --valid FRACTION   of the bytes, held out for validation; 0: none      (0.1)\n"
    "  --separator LINE   a line that is LINE and nothing else ends a document; with bytes an empty line takes its\n"
    "                     place (each TEXT is one document)\n"
    "  --seq_len N        refuse texts too short for one sequence of N + 1 tokens\n"
    "  --shard_tokens N   begin another train shard after N tokens            (100000000)\n"
    "  --threads N        that make tokens                                    (one a core)\n";

static cs_status read_number(double *number, const char *name, const char *word, double min, double max)
{
    char *end;
    errno = 0;
    *number = strtod(word, &end);
    if (end == word || *end || errno || !(*number >= min && *number <= max))
        return cs_fail(CS_BAD_CONFIG, "--%s: a number from %g to %g, not '%s'", name, min, max, word);
    return CS_OK;
}

static cs_status read_whole(int64_t *number, const char *name, const char *word, double max)
{
    double value;
    CS_TRY(read_number(&value, name, word, 1, max));
    *number = (int64_t)value;
    return CS_OK;
}

static const struct option known[] = {
    { "output", required_argument, NULL, 'o' },
    { "valid", required_argument, NULL, 'v' },
    { "separator", required_argument, NULL, 'p' },
    { "seq_len", required_argument, NULL, 'n' },
    { "shard_tokens", required_argument, NULL, 's' },
    { "vocab", required_argument, NULL, 'b' },
    { "tokenizer", required_argument, NULL, 'k' },
    { "field", required_argument, NULL, 'f' },
    { "template", required_argument, NULL, 'c' },
    { "skip_bad", required_argument, NULL, 'i' },
    { "end", required_argument, NULL, 'e' },
    { "threads", required_argument, NULL, 't' },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

/* Reports the argument at which getopt_long stopped: the argument before the next one, or one letter. */
static cs_status refuse(int letter, char **next)
{
    enum { KNOWN = sizeof known / sizeof *known };
    const char *names[KNOWN] = { NULL };
    char *flag;
    for (int i = 0; known[i].name; i++)
        names[i] = known[i].name;
    if (letter == ':')
        return cs_fail(CS_BAD_CONFIG, "%s needs a value", next[-1]);
    if (strncmp(next[-1], "--", 2) != 0)
        return cs_fail(CS_BAD_CONFIG, "unknown flag -%c; --help lists those of pack", optopt);
    if (!(flag = strndup(next[-1], strcspn(next[-1], "="))))
        return cs_fail(CS_NO_MEMORY, "out of memory for %s", next[-1]);
    const char *meant = cs_nearest(flag + 2, names);
    cs_status status = meant ? cs_fail(CS_BAD_CONFIG, "unknown flag %s; did you mean --%s?", flag, meant)
                             : cs_fail(CS_BAD_CONFIG, "unknown flag %s; --help lists those of pack", flag);
    free(flag);
    return status;
}

static cs_status read_option(cs_packing_settings *settings, int letter, const char *word)
{
    const char **const words[] = {
        ['o'] = &settings->output, ['p'] = &settings->separator, ['k'] = &settings->tokenizer,
        ['f'] = &settings->field,  ['c'] = &settings->chat,      ['e'] = &settings->end
    };
    int64_t threads = 0;
    double skipped = 0;
    switch (letter) {
    case 'i':
        CS_TRY(read_number(&skipped, "skip_bad", word, 0, 1e12));
        settings->skip_bad = (int64_t)skipped;
        return CS_OK;
    case 'v':
        return read_number(&settings->valid, "valid", word, 0, 0.99);
    case 'n':
        return read_whole(&settings->seq_len, "seq_len", word, 1e9);
    case 's':
        return read_whole(&settings->shard_tokens, "shard_tokens", word, 1e12);
    case 't':
        CS_TRY(read_whole(&threads, "threads", word, 256));
        settings->threads = (int)threads;
        return CS_OK;
    case 'b':
        if (strcmp(word, "byte") != 0)
            return cs_fail(CS_BAD_CONFIG, "--vocab: byte is the only vocabulary without a --tokenizer, not '%s'", word);
        return CS_OK;
    default:
        *words[letter] = word;
        return CS_OK;
    }
}

static cs_status read_options(cs_packing_settings *settings, int argc, char **argv)
{
    *settings = (cs_packing_settings){ .output = "data", .valid = 0.1, .shard_tokens = 100000000 };
    opterr = 0; /* getopt_long prints nothing; this program prints its own messages */
    for (int letter; (letter = getopt_long(argc, argv, ":h", known, NULL)) != -1;) {
        if (letter == '?' || letter == ':')
            return refuse(letter, argv + optind);
        if (letter == 'h') {
            fputs(usage, stdout);
            exit(0);
        }
        CS_TRY(read_option(settings, letter, optarg));
    }
    if (settings->shard_tokens <= settings->seq_len)
        return cs_fail(CS_BAD_CONFIG,
                       "--shard_tokens %" PRId64 ": a shard must hold one sequence of %" PRId64 " tokens",
                       settings->shard_tokens, settings->seq_len + 1);
    if (optind == argc)
        return cs_fail(CS_BAD_CONFIG, "no text is named\n%s", usage);
    settings->paths = argv + optind;
    settings->path_count = argc - optind;
    return CS_OK;
}

static const char *plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

static void tell(const cs_packing_settings *settings, const cs_packing_counts *counts)
{
    int64_t tokens = counts->train_tokens + counts->valid_tokens;
    printf("packed %" PRId64 " bytes in %" PRId64 " document%s of %d file%s into %s: %" PRId64
           " tokens to train on in %" PRId64 " shard%s, %" PRId64 " to validate with; %.1f MB/s\n",
           counts->bytes, counts->documents, plural(counts->documents), settings->path_count,
           plural(settings->path_count), settings->output, counts->train_tokens, counts->train_shards,
           plural(counts->train_shards), counts->valid_tokens, 1e-6 * (double)counts->bytes / counts->seconds);
    if (counts->learnt < tokens)
        printf("%" PRId64 " of these %" PRId64 " tokens are answers, and learnt; the others are only read\n",
               counts->learnt, tokens);
    if (counts->skipped > 0)
        printf("%" PRId64 " bad line%s left out (--skip_bad)\n", counts->skipped,
               counts->skipped == 1 ? " was" : "s were");
    if (counts->repaired > 0)
        printf("%" PRId64 " broken character%s not UTF-8 and became U+FFFD\n", counts->repaired,
               counts->repaired == 1 ? " was" : "s were");
}

int main(int argc, char **argv)
{
    cs_packing_settings settings;
    cs_packing_counts counts;
    if (read_options(&settings, argc, argv) != CS_OK) {
        fprintf(stderr, "pack: %s\n", cs_error());
        return 64;
    }
    CS_MUST(cs_packing_run(&settings, &counts));
    tell(&settings, &counts);
    return 0;
}
