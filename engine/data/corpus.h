/* corpus.h - maps text files, divides them into documents, and holds out a part for validation.
 *
 * A file is one document, or several with a separator line between them, or one document on each line (JSONL). The
 * held-out part consists of whole documents, drawn pseudo-randomly but always the same ones; if there are too few
 * documents to draw from, it is the end of each document. */
#ifndef CS_DATA_CORPUS_H
#define CS_DATA_CORPUS_H

#include "base/status.h"

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

/* The files to map. `separator`: a line equal to this ends a document; NULL: none. Files named .jsonl, and all files if
 * `json` is true, have one JSON document on each line. */
typedef struct {
    char *const *paths;
    int count;
    const char *separator;
    bool json;
} ce_corpus_files;
cs_status ce_corpus_open(ce_corpus *corpus, const ce_corpus_files *files);
void ce_corpus_close(ce_corpus *corpus);

/* Holds out this fraction of the bytes, but at least `min` bytes. Fails if less than `min` bytes remain for training.
 */
cs_status ce_corpus_split(ce_corpus *corpus, double fraction, int64_t min);

/* Line number of the document's first line, from 1. */
int64_t ce_corpus_line(const ce_corpus *corpus, const ce_document *document);

#endif
