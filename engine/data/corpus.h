/* corpus.h - maps text files, divides them into documents, and holds out a part for validation.
 *
 * The documents of a file are the elements of a JSON list, the lines of JSON lines, the rows of a table, or the texts
 * between separator lines. Any other file is one document. A compressed file or a table is decoded first
 * (formats/plain.h). The held-out part consists of whole documents. They are drawn pseudo-randomly, but each run draws
 * the same ones. If there are too few documents to draw from, the held-out part is the end of each document. */
#ifndef CE_DATA_CORPUS_H
#define CE_DATA_CORPUS_H

#include "formats/plain.h"

typedef struct {
    const char *bytes;
    int64_t length, train_length; /* The bytes after the first train_length bytes are held out. */
    int64_t line;                 /* line of the text, or row of the table, at which the document begins, from 1 */
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

#endif
