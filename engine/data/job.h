/* job.h - makes the tokens of one job on one thread. A job is several documents, or a part of a long document. */
#ifndef CE_DATA_JOB_H
#define CE_DATA_JOB_H

#include "data/corpus.h"
#include "data/shape.h"
#include "chat/chat.h"
#include "data/pair.h"
#include "text/encoder.h"

/* Settings that all threads share and do not change. */
typedef struct {
    const ce_corpus *corpus;
    const ce_tokenizer *tokenizer;
    ce_chat *chat; /* template of conversations, or NULL if documents are not conversations */
    ce_chat_turns turns;
    /* True if the JSON lines are pairs of answers; `chat` then formats answers that are conversations. */
    bool pairs;
    const char *field;
    const ce_shape_columns *columns; /* other names that the keys of JSON rows may have */
    int32_t end;                     /* token that follows each document; -1 means that none follows */
    bool newline;                    /* True if a newline follows each document in place of the separator line. */
    bool held_out;
    int64_t skip_bad; /* number of faulty JSON lines that may be skipped */
} ce_job_plan;

/* The working memory of one thread. */
typedef struct {
    ce_encoder *encoder;
    ce_text line;
    ce_chat_lines chat; /* text of a conversation, or of a prompt and its completion */
    ce_pair pair;
    /* The number of invalid characters that this thread repaired in JSON lines. The encoder counts the invalid
     * characters of other texts. */
    int64_t repaired;
} ce_job_workspace;

/* Where a document begins: its first token in `ids`, and its number in the corpus. */
typedef struct {
    int64_t token, document;
} ce_job_start;

typedef struct {
    int64_t first, count; /* range of documents; if `count` is 1, the job may be a part of that document */
    int64_t from, to;     /* byte range of the part within the document */
    int32_t *ids;         /* ids of the tokens, token_count elements */
    bool *learnt;
    int64_t token_count, capacity;
    ce_job_start *starts; /* start_count elements */
    int64_t start_count, start_capacity;
    int64_t document;                /* number of the document that is being made */
    char **skipped;                  /* a message for each line that was skipped, skip_count elements */
    int64_t skip_count, unsupported; /* `unsupported` of them ask for something that is not supported */
    int64_t bare;                    /* number of conversations without an answer to learn, which are left out */
    char *bare_sentence;             /* the message for the first of them */
    int64_t repeated;                /* number of pairs that repeat their prompt at the beginning of both answers */
    int64_t wide;                    /* number of rows with an integer of more than 64 bits */
    ce_column_counts columns;
    cs_status status;
    char *sentence; /* error message, if `status` is not CS_OK */
} ce_job_work;

/* Returns the part of a document that is tokenized: its held-out part if plan->held_out is true, otherwise its training
 * part. */
ce_document ce_job_part(const ce_job_plan *plan, int64_t document);

void ce_job_make(ce_job_work *work, const ce_job_plan *plan, ce_job_workspace *workspace);
void ce_job_free(ce_job_work *work);

#endif
