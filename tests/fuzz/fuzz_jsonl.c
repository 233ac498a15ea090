/* fuzz_jsonl.c - reads any bytes as lines of JSON with rows of any shape (data/shape.h) or pairs of answers: they
 * become tokens or are refused with a message, without a crash. */
#include "base/must.h"
#include "data/job.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const ce_job_work *work)
{
    CE_ASSERT(work->status == CS_OK || *work->sentence);
    for (int64_t i = 0; i < work->token_count; i++)
        CE_ASSERT(work->ids[i] >= 0 && work->ids[i] < 256);
    for (int64_t i = 0; i < work->start_count; i++)
        CE_ASSERT(work->starts[i].token <= work->token_count);
}

/* Reads each line separately, so that a refused line does not hide the next one. */
static void try_line(ce_job_plan *plan, ce_document *document, ce_job_workspace *workspace)
{
    ce_corpus corpus = { .documents = document, .document_count = 1 };
    ce_job_work work = { .count = 1, .to = document->length };
    __typeof__(*corpus.texts) text = { "fuzz.jsonl", document->bytes, (size_t)document->length };
    corpus.texts = &text;
    plan->corpus = &corpus;
    ce_job_make(&work, plan, workspace);
    check(&work);
    ce_job_free(&work);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ce_tokenizer *tokenizer;
    CE_ASSERT(ce_tokenizer_open(&tokenizer, NULL) == CS_OK);
    ce_shape_columns columns = { 0 };
    CE_ASSERT(ce_shape_column(&columns, "prompt", "question") == CS_OK);
    ce_job_plan plan = { .tokenizer = tokenizer, .field = "text", .columns = &columns, .end = -1 };
    ce_job_workspace workspace = { .encoder = ce_encoder_open(tokenizer) };
    for (int form = 0; form < 4; form++) {
        plan.pairs = form % 2;
        if (form == 2)
            CE_ASSERT(ce_chat_open(&plan.chat, "plain", tokenizer) == CS_OK);
        for (size_t from = 0; from < size;) {
            const uint8_t *stop = memchr(data + from, '\n', size - from);
            size_t length = stop ? (size_t)(stop - data) - from : size - from;
            ce_document line = { (const char *)data + from, (int64_t)length, (int64_t)length, 1, 0, true };
            try_line(&plan, &line, &workspace);
            from += length + 1;
        }
    }
    ce_encoder_close(workspace.encoder);
    ce_unicode_free(&workspace.line);
    ce_chat_lines_free(&workspace.chat);
    ce_pair_free(&workspace.pair);
    ce_chat_close(plan.chat);
    ce_tokenizer_close(tokenizer);
    return 0;
}
