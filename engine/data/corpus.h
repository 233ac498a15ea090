/* corpus.h - texts as documents, and which of them are held out for validation.
 *
 * A text is one document, or several with a line between them that says so, or one a line (JSONL). What is held out is
 * whole documents, drawn at random but the same ones each time; where there are too few documents to draw from, the end
 * of each. */
#ifndef CS_DATA_CORPUS_H
#define CS_DATA_CORPUS_H

#include "base/status.h"

typedef struct {
    const char *bytes;
    int64_t length, train_length; /* what follows the first train_length bytes is held out */
    int32_t text;                 /* which */
    bool is_json;                 /* a line of JSON, which is not cut */
} cs_document;

typedef struct {
    struct {
        const char *path, *bytes;
        size_t size;
    } * texts;
    int32_t text_count;
    cs_document *documents;
    int64_t document_count, document_room, bytes;
} cs_corpus;

/* Maps the texts. `separator`: a line that is this and nothing else ends a document; NULL: none. Texts named .jsonl,
 * and all of them where `json`, are lines of JSON. */
typedef struct {
    char *const *paths;
    int count;
    const char *separator;
    bool json;
} cs_corpus_files;
cs_status cs_corpus_open(cs_corpus *corpus, const cs_corpus_files *files);
void cs_corpus_close(cs_corpus *corpus);

/* Holds out this fraction of the bytes, and at least `least` bytes; as many have to be left. */
cs_status cs_corpus_split(cs_corpus *corpus, double fraction, int64_t min);

/* The number of the document's first line, from 1. */
int64_t cs_corpus_line(const cs_corpus *corpus, const cs_document *document);

#endif
