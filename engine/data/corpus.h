/* corpus.h - maps text files, divides them into documents, and holds out a part for validation.
 *
 * A file is one document, or several with a separator line between them, or a document on each line (JSON lines, rows
 * of a table), or a list of documents (JSON). A compressed file or a table is decoded first (formats/plain.h). The
 * held-out part consists of whole documents, drawn pseudo-randomly but always the same ones; if there are too few
 * documents to draw from, it consists of the end of each document. */
#ifndef CS_DATA_CORPUS_H
#define CS_DATA_CORPUS_H

#include "formats/plain.h"

typedef struct {
    const char *bytes;
    int64_t length, train_length; /* the bytes after the first train_length bytes are held out */
    int32_t text;                 /* index into `texts` */
    bool is_json;                 /* a line of JSON, which must not be cut */
} ce_document;

typedef struct {
    struct {
        const char *path, *bytes;
        size_t size;
    } * texts;
    int32_t text_count;
    ce_document *documents;
    int64_t document_count, document_room, bytes;
} ce_corpus;

/* The files to map. `separator`: a line equal to this ends a document; NULL: none. If `json` is true, all files are
 * JSON; otherwise the name of a file decides (ce_plain_is_json). */
typedef struct {
    char *const *paths;
    int count;
    const char *separator;
    bool json;
    ce_plain_how how; /* where decoded text is kept, and which columns of a table are read */
} ce_corpus_files;
cs_status ce_corpus_open(ce_corpus *corpus, const ce_corpus_files *files);
void ce_corpus_close(ce_corpus *corpus);

/* Holds out this fraction of the bytes, but at least `min` bytes. CS_BAD_FILE: fewer than `min` bytes would remain for
 * training. */
cs_status ce_corpus_split(ce_corpus *corpus, double fraction, int64_t min);

/* The newlines in front of `bytes`, which is in a text or NULL. With it, the places of many documents are found by
 * reading each text once, if they are asked for in order. It begins as zeros. */
typedef struct {
    const char *bytes;
    int64_t lines;
} ce_corpus_cursor;

/* Writes where the document begins, as "chats.jsonl, line 7" or "chats.parquet, row 7"; lines and rows count from 1. */
enum { CS_CORPUS_PLACE = 4200 };
const char *ce_corpus_place(const ce_corpus *corpus, const ce_document *document, ce_corpus_cursor *cursor,
                            char text[CS_CORPUS_PLACE]);

#endif
