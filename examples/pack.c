/* pack.c - text to token shards: DIR/train-00000.bin ... and DIR/valid.bin, a token a byte.
 *
 * What is held out for validation is whole documents, drawn at random but the same ones each time; where there are too
 * few documents to draw from, the end of each. The same texts and options give the same files, byte for byte. */
#include "base/status.h"
#include "cspeed.h"
#include "data/data.h"
#include "data/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char usage[] =
    "usage: pack [options] TEXT...\n"
    "  --output DIR       where train-00000.bin ... and valid.bin go          (data)\n"
    "  --valid FRACTION   of the bytes, held out for validation; 0: none      (0.1)\n"
    "  --separator LINE   a line that is LINE and nothing else ends a document; an empty line takes its place\n"
    "                     (each TEXT is one document)\n"
    "  --seq_len N        refuse texts too short for one sequence of N + 1 tokens\n"
    "  --shard_tokens N   begin another train shard after N tokens            (100000000)\n"
    "  --vocab byte       the vocabulary: 256 byte values, as they are        (byte)\n";

typedef struct {
    const char *output, *separator;
    double      valid;
    int64_t     seq_len, shard_tokens;
} pack_options;

typedef struct {
    const char *bytes;
    int64_t     length, train_length; /* what follows the first train_length bytes is held out */
} document;

typedef struct {
    const char *bytes;
    size_t      size;
} text;

typedef struct {
    pack_options options;
    text        *texts;
    int64_t      text_count, bytes;
    document    *documents;
    int64_t      document_count, document_room;
} pack;

/* ---- the command line ------------------------------------------------------------------------- */

static cs_status read_number(double *number, const char *name, const char *word, double least, double most)
{
    char *end;
    errno   = 0;
    *number = strtod(word, &end);
    if (end == word || *end || errno || !(*number >= least && *number <= most))
        return cs_fail(CS_BAD_CONFIG, "--%s: a number from %g to %g, not '%s'", name, least, most, word);
    return CS_OK;
}

static cs_status read_option(pack_options *options, int letter, const char *word)
{
    double number = 0;
    switch (letter) {
    case 'o':
        options->output = word;
        return CS_OK;
    case 'p':
        options->separator = word;
        return CS_OK;
    case 'v':
        return read_number(&options->valid, "valid", word, 0, 0.99);
    case 'n':
        CS_TRY(read_number(&number, "seq_len", word, 1, 1e9));
        options->seq_len = (int64_t)number;
        return CS_OK;
    case 's':
        CS_TRY(read_number(&number, "shard_tokens", word, 1, 1e12));
        options->shard_tokens = (int64_t)number;
        return CS_OK;
    case 'b':
        if (strcmp(word, "byte") != 0)
            return cs_fail(CS_BAD_CONFIG, "--vocab: byte is the only vocabulary here, not '%s'", word);
        return CS_OK;
    default:
        return cs_fail(CS_BAD_CONFIG, "wrong options\n%s", usage);
    }
}

static cs_status read_options(pack_options *options, int argc, char **argv)
{
    static const struct option known[] = {
        { "output", required_argument, NULL, 'o' },  { "valid", required_argument, NULL, 'v' },
        { "separator", required_argument, NULL, 'p' }, { "seq_len", required_argument, NULL, 'n' },
        { "shard_tokens", required_argument, NULL, 's' }, { "vocab", required_argument, NULL, 'b' },
        { "help", no_argument, NULL, 'h' },          { NULL, 0, NULL, 0 },
    };
    *options = (pack_options){ "data", NULL, 0.1, 0, 100000000 };
    for (int letter; (letter = getopt_long(argc, argv, "h", known, NULL)) != -1;) {
        if (letter == 'h') {
            fputs(usage, stdout);
            exit(0);
        }
        CS_TRY(read_option(options, letter, optarg));
    }
    if (options->shard_tokens <= options->seq_len)
        return cs_fail(CS_BAD_CONFIG, "--shard_tokens %" PRId64 ": a shard must hold one sequence of %" PRId64 " tokens",
                       options->shard_tokens, options->seq_len + 1);
    if (optind == argc)
        return cs_fail(CS_BAD_CONFIG, "no text is named\n%s", usage);
    return CS_OK;
}

/* ---- texts to documents ----------------------------------------------------------------------- */

static cs_status map_text(text *to, int file, const char *path)
{
    struct stat facts;
    if (fstat(file, &facts) != 0)
        return cs_fail_errno(CS_IO_ERROR, errno, "%s: cannot read its size", path);
    if (S_ISDIR(facts.st_mode))
        return cs_fail(CS_BAD_FILE, "%s: a directory; name the text files in it", path);
    if (!S_ISREG(facts.st_mode))
        return cs_fail(CS_BAD_FILE, "%s: not a regular file; save the text in one first", path);
    if (facts.st_size == 0)
        return cs_fail(CS_BAD_FILE, "%s: empty; there is nothing to learn from it", path);
    void *mapping = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (mapping == MAP_FAILED)
        return cs_fail_errno(CS_IO_ERROR, errno, "%s: cannot map it", path);
    *to = (text){ mapping, (size_t)facts.st_size };
    return CS_OK;
}

static cs_status add_document(pack *self, const char *bytes, int64_t length)
{
    if (length == 0)
        return CS_OK;
    if (self->document_count == self->document_room) {
        int64_t   room = self->document_room ? 2 * self->document_room : 1024;
        document *more = realloc(self->documents, (size_t)room * sizeof *more);
        if (!more)
            return cs_fail(CS_NO_MEMORY, "no memory to list %" PRId64 " documents", room);
        self->documents     = more;
        self->document_room = room;
    }
    self->documents[self->document_count++] = (document){ bytes, length, length };
    self->bytes += length;
    return CS_OK;
}

static cs_status cut_documents(pack *self, const text *from)
{
    const char *separator = self->options.separator, *end = from->bytes + from->size, *start = from->bytes;
    size_t      width = separator ? strlen(separator) : 0;
    for (const char *line = start; separator && line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line)), *stop = newline ? newline : end;
        const char *next    = newline ? newline + 1 : end;
        if ((size_t)(stop - line) == width && memcmp(line, separator, width) == 0) {
            CS_TRY(add_document(self, start, line - start));
            start = next;
        }
        line = next;
    }
    return add_document(self, start, end - start);
}

static cs_status read_text(pack *self, const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return cs_fail_errno(errno == ENOENT || errno == ENOTDIR ? CS_NOT_FOUND : CS_IO_ERROR, errno,
                             "%s: cannot open this text", path);
    cs_status status = map_text(&self->texts[self->text_count], file, path);
    close(file);
    CS_TRY(status);
    return cut_documents(self, &self->texts[self->text_count++]);
}

/* ---- the split -------------------------------------------------------------------------------- */

/* Whole documents, at random, as long as they fit. Returns the bytes held out. */
static int64_t hold_documents(pack *self, int64_t wanted)
{
    int64_t held = 0;
    for (int64_t i = 0; i < self->document_count; i++) {
        document *next = &self->documents[cs_windows_permute(0, 0, self->document_count, i)];
        if (held + next->length > wanted)
            continue;
        next->train_length = 0;
        held += next->length;
    }
    return held;
}

/* The end of each document, so that the ends are `wanted` bytes together. */
static void hold_ends(pack *self, int64_t wanted)
{
    __extension__ typedef unsigned __int128 wide;
    int64_t past = 0, held = 0;
    for (int64_t i = 0; i < self->document_count; i++) {
        document *next = &self->documents[i];
        past += next->length;
        int64_t due        = (int64_t)((wide)past * (wide)wanted / (wide)self->bytes);
        next->train_length = next->length - (due - held);
        held               = due;
    }
}

static cs_status split(pack *self, const char *name)
{
    int64_t least = self->options.seq_len > 0 ? self->options.seq_len + 1 : 1, total = self->bytes;
    if (total < least)
        return cs_fail(CS_BAD_FILE, "%s: too short: %" PRId64 " bytes, and one sequence takes %" PRId64 " (seq_len + 1)",
                       name, total, least);
    if (self->options.valid == 0)
        return CS_OK;
    if (total < 2 * least)
        return cs_fail(CS_BAD_FILE,
                       "%s: too short: %" PRId64 " bytes, and training and validation take one sequence of %" PRId64
                       " (seq_len + 1) each; --valid 0 does without validation",
                       name, total, least);
    int64_t wanted = (int64_t)((double)total * self->options.valid);
    wanted         = wanted < least ? least : wanted > total - least ? total - least : wanted;
    int64_t held   = hold_documents(self, wanted);
    if (held < least || held < wanted / 2) /* documents too few or too long to draw from */
        hold_ends(self, wanted);
    return CS_OK;
}

/* ---- writing ---------------------------------------------------------------------------------- */

typedef struct {
    const char       *folder, *name; /* name: a format with the shard's number, or without */
    int64_t           limit;         /* tokens a shard */
    cs_tokens_writer *writer;
    int64_t           shards, in_shard, total;
} shard_set;

static void shard_path(char path[4096], const shard_set *set, int64_t number)
{
    int used = snprintf(path, 4096, "%s/%s", set->folder, set->name);
    if (set->limit < INT64_MAX)
        snprintf(path + used, 4096 - (size_t)used, "-%05" PRId64, number);
    strcat(path, ".bin");
}

static cs_status begin_shard(shard_set *set)
{
    char path[4096];
    shard_path(path, set, set->shards++);
    set->in_shard = 0;
    return cs_tokens_create(&set->writer, path, 256);
}

static cs_status end_shard(shard_set *set)
{
    cs_tokens_writer *writer = set->writer;
    set->writer              = NULL;
    return writer ? cs_tokens_finish(writer) : CS_OK;
}

static cs_status put_bytes(shard_set *set, const char *bytes, int64_t length)
{
    enum { CHUNK = 4096 };
    int32_t tokens[CHUNK];
    while (length > 0) {
        if (set->writer && set->in_shard == set->limit)
            CS_TRY(end_shard(set));
        if (!set->writer)
            CS_TRY(begin_shard(set));
        int64_t count = length < CHUNK ? length : CHUNK, left = set->limit - set->in_shard;
        count         = count < left ? count : left;
        for (int64_t i = 0; i < count; i++)
            tokens[i] = (unsigned char)bytes[i];
        CS_TRY(cs_tokens_append(set->writer, tokens, count));
        set->in_shard += count;
        set->total += count;
        bytes += count;
        length -= count;
    }
    return CS_OK;
}

static cs_status put_document(shard_set *set, const pack *self, const char *bytes, int64_t length)
{
    if (length == 0)
        return CS_OK;
    if (set->writer && set->in_shard == set->limit)
        CS_TRY(end_shard(set));
    if (!set->writer)
        CS_TRY(begin_shard(set));
    CS_TRY(cs_tokens_document(set->writer));
    CS_TRY(put_bytes(set, bytes, length));
    return self->options.separator ? put_bytes(set, "\n", 1) : CS_OK;
}

/* All documents' train parts, or all their held out parts; then shards of an earlier, longer text go. */
static cs_status write_set(shard_set *set, const pack *self, bool held_out)
{
    char path[4096];
    for (int64_t i = 0; i < self->document_count; i++) {
        const document *from = &self->documents[i];
        if (held_out)
            CS_TRY(put_document(set, self, from->bytes + from->train_length, from->length - from->train_length));
        else
            CS_TRY(put_document(set, self, from->bytes, from->train_length));
    }
    CS_TRY(end_shard(set));
    for (int64_t stale = set->shards;; stale++) {
        shard_path(path, set, stale);
        if ((set->limit == INT64_MAX && set->shards > 0) || unlink(path) != 0)
            return CS_OK;
    }
}

static cs_status make_folder(const char *path)
{
    char part[4096 - 64]; /* leaves room for a shard's name */
    if (strlen(path) >= sizeof part || !*path)
        return cs_fail(CS_BAD_CONFIG, "--output: a folder's name of 1 to %zu bytes", sizeof part - 1);
    for (const char *end = path; *end;) {
        end = strchrnul(end + 1, '/');
        snprintf(part, sizeof part, "%.*s", (int)(end - path), path);
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return cs_fail_errno(CS_IO_ERROR, errno, "%s: cannot make this folder", part);
    }
    return CS_OK;
}

/* ---- the program ------------------------------------------------------------------------------ */

static cs_status run(pack *self, shard_set *train, shard_set *valid, int texts, char **path)
{
    self->texts = calloc((size_t)texts, sizeof *self->texts);
    if (!self->texts)
        return cs_fail(CS_NO_MEMORY, "no memory to list %d texts", texts);
    for (int i = 0; i < texts; i++)
        CS_TRY(read_text(self, path[i]));
    CS_TRY(split(self, texts == 1 ? path[0] : "the texts together"));
    CS_TRY(make_folder(self->options.output));
    *train = (shard_set){ self->options.output, "train", self->options.shard_tokens, NULL, 0, 0, 0 };
    *valid = (shard_set){ self->options.output, "valid", INT64_MAX, NULL, 0, 0, 0 };
    CS_TRY(write_set(train, self, false));
    CS_TRY(write_set(valid, self, true));
    printf("packed %" PRId64 " bytes in %" PRId64 " document%s of %d file%s into %s: %" PRId64 " tokens to train on in %" PRId64
           " shard%s, %" PRId64 " to validate with\n",
           self->bytes, self->document_count, self->document_count == 1 ? "" : "s", texts, texts == 1 ? "" : "s",
           self->options.output, train->total, train->shards, train->shards == 1 ? "" : "s", valid->total);
    return CS_OK;
}

int main(int argc, char **argv)
{
    pack      self  = { 0 };
    shard_set train = { 0 }, valid = { 0 };
    if (read_options(&self.options, argc, argv) != CS_OK) {
        fprintf(stderr, "pack: %s\n", cs_error());
        return 64;
    }
    cs_status status = run(&self, &train, &valid, argc - optind, argv + optind);
    cs_tokens_abandon(train.writer);
    cs_tokens_abandon(valid.writer);
    for (int64_t i = 0; i < self.text_count; i++)
        munmap((void *)(uintptr_t)self.texts[i].bytes, self.texts[i].size);
    free(self.texts);
    free(self.documents);
    CS_MUST(status);
    return 0;
}
