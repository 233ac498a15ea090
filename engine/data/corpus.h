/* corpus.h - maps text files, divides them into documents, and holds out a part for validation.
 *
 * The documents of a file are the elements of a JSON list, the lines of JSON lines, the rows of a table, or the texts
 * between separator lines. Any other file is one document. A compressed file or a table is decoded first
 * (formats/plain.h). The held-out part consists of whole documents. They are drawn pseudo-randomly, but each run draws
 * the same ones. If there are too few documents to draw from, the held-out part is the end of each document. */
#ifndef CS_DATA_CORPUS_H
#define CS_DATA_CORPUS_H

#include "formats/plain.h"

typedef struct {
    const char *bytes;
    int64_t length, train_length; /* The bytes after the first train_length bytes are held out. */
    int32_t text;                 /* index of the document's text in `texts` */
    bool is_json;                 /* True if the document is a line of JSON, which must not be cut. */
} ce_document;

typedef struct {
    struct {
        const char *path, *bytes;
        size_t size;
    } * texts;
    int32_t text_count;
    ce_document *documents;
    int64_t document_count, document_capacity, bytes;
} ce_corpus;

/* The files to map. A line equal to `separator` ends a document; NULL means that there are no separators. If `json` is
 * true, all files are JSON; otherwise the name of a file decides (ce_plain_is_json). */
typedef struct {
    char *const *paths;
    int count;
    const char *separator;
    bool json;
    ce_plain_how how; /* where decoded text is stored, and which columns of a table are read */
} ce_corpus_files;
cs_status ce_corpus_open(ce_corpus *corpus, const ce_corpus_files *files);
void ce_corpus_close(ce_corpus *corpus);

/* Holds out the fraction `fraction` of the bytes, but at least `min` bytes. Returns CS_BAD_FILE if fewer than `min`
 * bytes would remain for training. */
cs_status ce_corpus_split(ce_corpus *corpus, double fraction, int64_t min);

/* The position in a text up to which ce_corpus_place has counted newlines. The caller zeroes the cursor before the
 * first call. If ce_corpus_place is called for the documents in ascending order, no text is read more than once. */
typedef struct {
    const char *bytes; /* the position; NULL before the first call */
    int64_t lines;     /* the number of newlines before the position */
} ce_corpus_cursor;

/* Writes the place where a document begins, such as "chats.jsonl, line 7" or "chats.parquet, row 7". Lines and rows
 * count from 1. */
enum { CS_CORPUS_PLACE = 4200 };
const char *ce_corpus_place(const ce_corpus *corpus, const ce_document *document, ce_corpus_cursor *cursor,
                            char text[CS_CORPUS_PLACE]);

#endif
