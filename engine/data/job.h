/* job.h - tokenizes one unit of work on one thread: several documents, or a part of a long document. */
#ifndef CS_DATA_JOB_H
#define CS_DATA_JOB_H

#include "data/corpus.h"
#include "data/shape.h"
#include "chat/chat.h"
#include "data/pair.h"
#include "text/encoder.h"

/* Settings that all threads share, read-only. */
typedef struct {
    const ce_corpus *corpus;
    const ce_tokenizer *tokenizer;
    ce_chat *chat; /* NULL: documents are not conversations */
    bool pairs;    /* lines of JSON are pairs of answers; `chat` writes those that are conversations */
    const char *field;
    const ce_shape_columns *columns; /* other names for the keys of JSON rows */
    int32_t end;                     /* token after each document; -1: none */
    bool newline;                    /* a newline follows each document, in place of the separator line */
    bool held_out;
    int64_t skip_bad; /* number of faulty JSON lines that may be skipped */
} ce_job_plan;

/* Working memory of one thread. */
typedef struct {
    ce_encoder *encoder;
    ce_text line;
    ce_chat_lines chat; /* the text of a conversation, or of a prompt and its completion */
    ce_pair pair;
    /* Invalid characters that this thread repaired in lines of JSON; the encoder counts those of other texts. */
    int64_t repaired;
    ce_corpus_cursor cursor;
} ce_job_workspace;

typedef struct {
    int64_t first, count; /* range of documents; if count is 1, it may be a part of a document */
    int64_t from, to;     /* byte range of that part in the document */
    int32_t *ids;         /* (token_count) */
    bool *learnt;
    int64_t token_count, room;
    int64_t *starts; /* (start_count) positions at which documents begin */
    int64_t start_count, start_room;
    char **skipped; /* (skip_count) message about each line that was skipped */
    int64_t skip_count;
    cs_status status;
    char *sentence; /* message of a failure */
} ce_job_work;

/* Returns the part of a document that belongs to the set that is being written: the training set or the held-out
 * set. */
ce_document ce_job_part(const ce_job_plan *plan, int64_t document);

void ce_job_make(ce_job_work *work, const ce_job_plan *plan, ce_job_workspace *workspace);
void ce_job_free(ce_job_work *work);

#endif
