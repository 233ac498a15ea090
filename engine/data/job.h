/* job.h - a run of documents, or a part of a long one, made into tokens by one thread. */
#ifndef CS_DATA_JOB_H
#define CS_DATA_JOB_H

#include "data/corpus.h"
#include "text/chat.h"
#include "text/encoder.h"

/* What every thread reads. */
typedef struct {
    const cs_corpus *corpus;
    const cs_tokenizer *tokenizer;
    const cs_chat_shape *shape; /* NULL: no conversations */
    const char *field;
    int32_t end;  /* token behind each document; -1: none */
    bool newline; /* and a newline, in the place of a separator */
    bool held_out;
    int64_t skip_bad; /* lines of JSON that may be left out because something is wrong with them */
} cs_job_plan;

/* What one thread has. */
typedef struct {
    cs_encoder *encoder;
    cs_text line;
    cs_chat_lines chat;
    int64_t repaired; /* in lines of JSON, by this thread; the encoder counts the others */
} cs_job_bench;

typedef struct {
    int64_t first, count; /* documents; a part of one if count is 1 */
    int64_t from, to;     /* of that one's bytes */
    int32_t *ids;         /* (token_count) */
    bool *learnt;
    int64_t token_count, room;
    int64_t *starts; /* (start_count) where documents begin */
    int64_t start_count, start_room;
    char **skipped; /* (skip_count) what is wrong with each line that was left out */
    int64_t skip_count;
    cs_status status;
    char *sentence; /* of a failure */
} cs_job_work;

/* The bytes of a document that are of the plan's split. */
cs_document cs_job_part(const cs_job_plan *plan, int64_t document);

void cs_job_make(cs_job_work *work, const cs_job_plan *plan, cs_job_bench *bench);
void cs_job_free(cs_job_work *work);

#endif
