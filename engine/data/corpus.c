/* corpus.c - maps text files, divides them into documents, and holds out a part for validation. */
#include "data/corpus.h"
#include "base/must.h"
#include "json/json.h"
#include "data/data.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* ---- documents of texts ---- */

static cs_status map_text(ce_corpus *corpus, FILE *file, const char *path)
{
    struct stat facts;
    if (fstat(fileno(file), &facts) != 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: cannot read its size", path);
    if (S_ISDIR(facts.st_mode))
        return ce_fail(CS_BAD_FILE, "%s: a directory; name the text files in it", path);
    if (!S_ISREG(facts.st_mode))
        return ce_fail(CS_BAD_FILE, "%s: not a regular file; save the text in one first", path);
    if (facts.st_size == 0)
        return ce_fail(CS_BAD_FILE, "%s: empty; there is nothing to train on", path);
    void *mapping = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, fileno(file), 0);
    if (mapping == MAP_FAILED)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: cannot be mapped into memory", path);
    corpus->texts[corpus->text_count].path = path;
    corpus->texts[corpus->text_count].bytes = mapping;
    corpus->texts[corpus->text_count++].size = (size_t)facts.st_size;
    return CS_OK;
}

static void add_document(ce_corpus *corpus, const char *bytes, int64_t length, int64_t line, bool is_json)
{
    if (length == 0)
        return;
    CE_MUST_HOLD(corpus->documents, corpus->document_capacity, corpus->document_count + 1);
    corpus->documents[corpus->document_count++] =
        (ce_document){ bytes, length, length, line, corpus->text_count - 1, is_json };
    corpus->bytes += length;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_blank(const char *line, const char *stop)
{
    while (line < stop && is_space(*line))
        line++;
    return line == stop;
}

/* Returns the length of the byte order mark that some Windows programs write in front of UTF-8, or 0 if there is
 * none. */
static size_t mark_bytes(const char *start, const char *end)
{
    return end - start >= 3 && memcmp(start, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

/* Adds the documents of a text: in JSON files each line that is not blank, in other files the lines up to a
 * separator. */
static void cut_documents(ce_corpus *corpus, const ce_corpus_files *files, bool is_json)
{
    const char *start = corpus->texts[corpus->text_count - 1].bytes;
    const char *end = start + corpus->texts[corpus->text_count - 1].size;
    size_t width = files->separator ? strlen(files->separator) : 0;
    int64_t number = 1, first = 1; /* the numbers of `line`, and of the line at `start` */
    start += is_json ? mark_bytes(start, end) : 0;
    for (const char *line = start; (files->separator || is_json) && line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line)), *stop = newline ? newline : end;
        const char *next = newline ? newline + 1 : end;
        if (is_json && !is_blank(line, stop))
            add_document(corpus, line, stop - line, number, true);
        number++;
        if (!is_json && (size_t)(stop - line) == width && memcmp(line, files->separator, width) == 0) {
            add_document(corpus, start, line - start, first, false);
            start = next;
            first = number;
        }
        line = next;
    }
    if (!is_json)
        add_document(corpus, start, end - start, first, false);
}

/* Adds each element of a JSON list as a document. An element may have several lines. `at` points to the first character
 * after the bracket that opens the list, in the line `line`. */
static cs_status cut_list(ce_corpus *corpus, const char *at, const char *end, int64_t line)
{
    const char *start = NULL;
    int64_t first = line;
    int depth = 0;
    for (bool quoted = false; at < end; at++) {
        line += *at == '\n';
        if (quoted) {
            bool escapes = *at == '\\' && at + 1 < end;
            quoted = *at != '"';
            at += escapes;
            line += escapes && *at == '\n';
            continue;
        }
        if (depth == 0 && (*at == ',' || *at == ']')) {
            if (start)
                add_document(corpus, start, at - start, first, true);
            start = NULL;
            if (*at == ']')
                break;
            continue;
        }
        first = start ? first : line;
        start = start || is_space(*at) ? start : at;
        quoted = *at == '"';
        depth += (*at == '{' || *at == '[') - (depth > 0 && (*at == '}' || *at == ']'));
    }
    const char *path = corpus->texts[corpus->text_count - 1].path;
    if (at == end)
        return ce_fail(CS_BAD_FILE, "%s: truncated: it is a list of objects, whose end is missing", path);
    return is_blank(at + 1, end)
               ? CS_OK
               : ce_fail(CS_BAD_FILE, "%s: there is more text after the list of objects with which it begins", path);
}

static cs_status cut_json(ce_corpus *corpus, const ce_corpus_files *files)
{
    const char *start = corpus->texts[corpus->text_count - 1].bytes;
    const char *end = start + corpus->texts[corpus->text_count - 1].size;
    const char *first = start + mark_bytes(start, end);
    int64_t line = 1;
    while (first < end && is_space(*first))
        line += *first++ == '\n';
    if (first < end && *first == '[')
        return cut_list(corpus, first + 1, end, line);
    cut_documents(corpus, files, true);
    return CS_OK;
}

/* Refuses a file whose content is rows and whose name does not say whether its rows or its characters are to be learnt. */
static cs_status check_name(const ce_corpus *corpus, const char *path)
{
    const char *bytes = corpus->texts[corpus->text_count - 1].bytes;
    size_t size = corpus->texts[corpus->text_count - 1].size;
    const char *newline = memchr(bytes, '\n', size);
    if (ce_plain_is_text(path))
        return CS_OK;
    if (strcasestr(basename(path), ".csv") || strcasestr(basename(path), ".tsv"))
        return ce_fail(
            CS_BAD_FILE,
            "%s: a table of separated values: convert its rows to JSON lines, python3 -c \"import csv, json, sys; "
            "[print(json.dumps(r)) for r in csv.DictReader(open(sys.argv[1]))]\" '%s' > rows.jsonl; or rename it to "
            ".txt if its characters are the text",
            path, path);
    int64_t wide = 0;
    json_t *row = *bytes == '{' ? ce_json_document(bytes, newline ? (size_t)(newline - bytes) : size, &wide) : NULL;
    json_decref(row);
    return row ? ce_fail(CS_BAD_FILE,
                         "%s: its first line is a JSON object: rename it to .jsonl if each line is a row, or to .txt "
                         "if its characters are the text",
                         path)
               : CS_OK;
}

static cs_status read_text(ce_corpus *corpus, const ce_corpus_files *files, const char *path)
{
    FILE *file;
    CE_TRY(ce_plain_open(&file, path, &files->how));
    cs_status status = map_text(corpus, file, path);
    fclose(file);
    CE_TRY(status);
    if (files->json || ce_plain_is_json(path))
        return cut_json(corpus, files);
    CE_TRY(check_name(corpus, path));
    cut_documents(corpus, files, false);
    return CS_OK;
}

static cs_status build(ce_corpus *corpus, const ce_corpus_files *files)
{
    corpus->texts = ce_must_alloc((size_t)files->count * sizeof *corpus->texts);
    for (int i = 0; i < files->count; i++)
        CE_TRY(read_text(corpus, files, files->paths[i]));
    return CS_OK;
}

cs_status ce_corpus_open(ce_corpus *corpus, const ce_corpus_files *files)
{
    *corpus = (ce_corpus){ 0 };
    cs_status status = build(corpus, files);
    if (status != CS_OK)
        ce_corpus_close(corpus);
    return status;
}

void ce_corpus_close(ce_corpus *corpus)
{
    for (int32_t i = 0; i < corpus->text_count; i++)
        munmap((void *)(uintptr_t)corpus->texts[i].bytes, corpus->texts[i].size);
    free(corpus->texts);
    free(corpus->documents);
    *corpus = (ce_corpus){ 0 };
}

/* ---- the held-out part ---- */

/* Holds out whole documents, drawn pseudo-randomly, that together have at most `wanted` bytes. If all documents are
 * longer, the shortest JSON document is held out nevertheless, unless it is the only document. Returns the number of
 * bytes that are held out. */
static int64_t hold_documents(ce_corpus *corpus, int64_t wanted)
{
    int64_t held = 0, count = corpus->document_count;
    ce_document *longer = NULL;
    for (int64_t i = 0; i < count; i++) {
        ce_document *next = &corpus->documents[ce_windows_permute(0, 0, count, i)];
        if (held + next->length <= wanted) {
            next->train_length = 0;
            held += next->length;
        } else if (next->is_json && (!longer || next->length < longer->length)) {
            longer = next;
        }
    }
    if (held == 0 && longer && count > 1) {
        longer->train_length = 0;
        held = longer->length;
    }
    return held;
}

/* Holds out the end of each document, so that `wanted` bytes are held out in all. */
static void hold_ends(ce_corpus *corpus, int64_t wanted)
{
    __extension__ typedef unsigned __int128 wide;
    int64_t past = 0, held = 0;
    for (int64_t i = 0; i < corpus->document_count; i++) {
        ce_document *next = &corpus->documents[i];
        past += next->length;
        int64_t due = (int64_t)((wide)past * (wide)wanted / (wide)corpus->bytes);
        next->train_length = next->length - (due - held);
        held = due;
    }
}

cs_status ce_corpus_split(ce_corpus *corpus, double fraction, int64_t min)
{
    const char *name = corpus->text_count == 1 ? corpus->texts[0].path : "the texts together";
    int64_t total = corpus->bytes;
    bool lines = false;
    for (int64_t i = 0; i < corpus->document_count; i++)
        lines |= corpus->documents[i].is_json;
    if (total < min)
        return ce_fail(CS_BAD_FILE,
                       "%s: too short: %" PRId64 " bytes, and one sequence needs %" PRId64 " (seq_len + 1)", name,
                       total, min);
    if (fraction == 0)
        return CS_OK;
    if (total < 2 * min || (lines && corpus->document_count < 2))
        return ce_fail(CS_BAD_FILE,
                       "%s: too short: %" PRId64 " bytes, and training and validation need one sequence of %" PRId64 " "
                       "(seq_len + 1) each, and JSON lines at least one line each; --valid 0 makes no validation data",
                       name, total, min);
    int64_t wanted = (int64_t)((double)total * fraction);
    wanted = wanted < min ? min : wanted > total - min ? total - min : wanted;
    int64_t held = hold_documents(corpus, wanted);
    /* Too few bytes are held out, because the documents are too few or too long. */
    if (!lines && (held < min || held < wanted / 2))
        hold_ends(corpus, wanted);
    return CS_OK;
}
