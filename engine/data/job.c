/* job.c - makes the tokens of one job on one thread. A job is several documents, or a part of a long document. */
#include "data/job.h"
#include "base/must.h"
#include "data/places.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

ce_document ce_job_part(const ce_job_plan *plan, int64_t document)
{
    ce_document part = plan->corpus->documents[document];
    if (plan->held_out) {
        part.bytes += part.train_length;
        part.length -= part.train_length;
    } else {
        part.length = part.train_length;
    }
    return part;
}

static void make_room(ce_job_work *work, int64_t more)
{
    if (work->capacity - work->token_count >= more)
        return;
    work->capacity = 2 * work->capacity + more;
    work->ids = ce_must_resize(work->ids, (size_t)work->capacity * sizeof *work->ids);
    work->learnt = ce_must_resize(work->learnt, (size_t)work->capacity * sizeof *work->learnt);
}

static void begin(ce_job_work *work)
{
    CE_MUST_HOLD(work->starts, work->start_capacity, work->start_count + 1);
    work->starts[work->start_count++] = (ce_job_start){ work->token_count, work->document };
}

static void put(ce_job_work *work, int32_t id)
{
    make_room(work, 1);
    work->ids[work->token_count] = id;
    work->learnt[work->token_count++] = true;
}

static void put_all(ce_job_work *work, const ce_encoded *encoded)
{
    if (encoded->count == 0)
        return;
    make_room(work, encoded->count);
    memcpy(work->ids + work->token_count, encoded->ids, (size_t)encoded->count * sizeof *work->ids);
    memset(work->learnt + work->token_count, true, (size_t)encoded->count);
    work->token_count += encoded->count;
}

static void end(ce_job_work *work, const ce_job_plan *plan)
{
    bool there = work->token_count > 0 && work->ids[work->token_count - 1] == plan->end;
    if (plan->end >= 0 && !there)
        put(work, plan->end);
    if (plan->newline)
        put(work, '\n');
}

/* ---- kinds of documents ---- */

/* The label that Hugging Face's library `transformers` gives to a token that the model does not learn. */
enum { IGNORED = -100 };

static void make_text(ce_job_work *work, const ce_job_plan *plan, ce_job_workspace *workspace,
                      const ce_document *document, ce_chat_span span)
{
    int where = (span.from == 0 ? CE_ENCODER_BEGINS : 0) | (span.to == document->length ? CE_ENCODER_ENDS : 0);
    if (where & CE_ENCODER_BEGINS)
        begin(work);
    put_all(work,
            ce_encoder_part(workspace->encoder, document->bytes + span.from, (size_t)(span.to - span.from), where));
    if (where & CE_ENCODER_ENDS)
        end(work, plan);
}

/* Appends the tokens of a sample, whose text begins at byte `at`. The targets are the tokens that begin within an
 * answer. */
static void make_chat(ce_job_work *work, const ce_encoded *encoded, int64_t at, const ce_chat_spans *answers)
{
    int64_t first = work->token_count, answer = 0;
    begin(work);
    put_all(work, encoded);
    for (int64_t i = 0; i < encoded->count; i++) {
        while (answer < answers->count && at + encoded->starts[i] >= answers->list[answer].to)
            answer++;
        work->learnt[first + i] = answer < answers->count && at + encoded->starts[i] >= answers->list[answer].from;
    }
}

/* Appends a prompt and its completion as one text. The targets are the tokens of the completion and the token that ends
 * the text. */
static void make_pair(ce_job_work *work, const ce_job_plan *plan, ce_job_workspace *workspace, const ce_shape *shape)
{
    ce_chat_lines *lines = &workspace->chat;
    int64_t from = (int64_t)json_string_length(shape->text);
    lines->text.size = 0;
    ce_unicode_append(&lines->text, json_string_value(shape->text), json_string_length(shape->text));
    ce_unicode_append(&lines->text, json_string_value(shape->completion), json_string_length(shape->completion));
    /* The range `completion` ends one position after the text, so that it includes the token that ends the text. */
    ce_chat_span completion = { from, (int64_t)lines->text.size + 1 };
    make_chat(work, ce_encoder_document(workspace->encoder, lines->text.bytes, lines->text.size), 0,
              &(ce_chat_spans){ .list = &completion, .count = 1 });
    end(work, plan);
}

/* Refuses token ids that the tokenizer does not have, and a label that is neither IGNORED nor equal to the token id at
 * the same index. */
static cs_status check_tokens(const ce_job_plan *plan, const ce_shape *shape)
{
    size_t index;
    json_t *token;
    int64_t size = ce_tokenizer_size(plan->tokenizer);
    json_array_foreach (shape->tokens, index, token) {
        json_int_t id = json_integer_value(token);
        const json_t *label = json_array_get(shape->labels, index);
        if (id < 0 || id >= size)
            return ce_fail(CS_BAD_FILE,
                           "\"input_ids\" has the token %lld, but the tokenizer has only %" PRId64 " tokens",
                           (long long)id, size);
        if (label && json_integer_value(label) != IGNORED && json_integer_value(label) != id)
            return ce_fail(CS_BAD_FILE,
                           "\"labels\" has %lld at %zu, where \"input_ids\" has %lld: a label is -100 or the token "
                           "at the same position, because training shifts the targets by one",
                           (long long)json_integer_value(label), index, (long long)id);
    }
    return CS_OK;
}

static bool is_learnt(const ce_shape *shape, size_t index)
{
    for (int i = 0; i < CE_SHAPE_MASKS; i++)
        if (shape->learnt[i] && ce_shape_is_masked(shape->learnt[i], index))
            return false;
    return true;
}

/* Appends a document that is given as token ids ("input_ids"). If check_tokens refuses it, nothing is appended. */
static cs_status make_tokens(ce_job_work *work, const ce_job_plan *plan, const ce_shape *shape)
{
    size_t index;
    json_t *token;
    CE_TRY(check_tokens(plan, shape));
    begin(work);
    json_array_foreach (shape->tokens, index, token) {
        const json_t *label = json_array_get(shape->labels, index);
        if (ce_shape_is_masked(shape->mask, index))
            continue;
        put(work, (int32_t)json_integer_value(token));
        work->learnt[work->token_count - 1] =
            (!label || json_integer_value(label) != IGNORED) && is_learnt(shape, index);
    }
    return CS_OK;
}

/* Appends the samples of a conversation. */
static cs_status make_conversation(ce_job_work *work, const ce_job_plan *plan, ce_job_workspace *workspace,
                                   const ce_shape *shape)
{
    ce_chat_lines *lines = &workspace->chat;
    CE_TRY(ce_chat_write(plan->chat, shape->chat, plan->turns, lines)); /* CS_NOT_FOUND: no answer is learnt */
    for (int64_t i = 0; i < lines->samples.count; i++) {
        ce_chat_span sample = lines->samples.list[i];
        make_chat(work,
                  ce_encoder_text(workspace->encoder, lines->text.bytes + sample.from,
                                  (size_t)(sample.to - sample.from)),
                  sample.from, &lines->answers);
    }
    return CS_OK;
}

static cs_status make_shape(ce_job_work *work, const ce_job_plan *plan, ce_job_workspace *workspace,
                            const ce_shape *shape)
{
    switch (shape->kind) {
    case CE_SHAPE_TEXT:
        begin(work);
        put_all(work, ce_encoder_document(workspace->encoder, json_string_value(shape->text),
                                          json_string_length(shape->text)));
        end(work, plan);
        return CS_OK;
    case CE_SHAPE_PAIR:
        make_pair(work, plan, workspace, shape);
        return CS_OK;
    case CE_SHAPE_TOKENS:
        return make_tokens(work, plan, shape);
    case CE_SHAPE_CHAT:
        return make_conversation(work, plan, workspace, shape);
    }
    return CS_OK;
}

/* ---- pairs of answers ---- */

/* Appends the tokens of one answer. The text of an answer begins with the prompt. Returns how many tokens at the
 * beginning of the answer are equal to the tokens of `prompt`. */
static int64_t put_answer(ce_job_work *work, const ce_encoded *encoded, const int32_t *prompt, int64_t prompt_count)
{
    int64_t same = 0;
    begin(work);
    put_all(work, encoded);
    while (same < encoded->count && same < prompt_count && encoded->ids[same] == prompt[same])
        same++;
    return same;
}

static const ce_encoded *encode(ce_job_workspace *workspace, const ce_text *text)
{
    const char *bytes = text->size > 0 ? text->bytes : "";
    return workspace->pair.rendered ? ce_encoder_text(workspace->encoder, bytes, text->size)
                                    : ce_encoder_document(workspace->encoder, bytes, text->size);
}

/* Appends both answers of a pair. The targets of both begin at the first position where the tokens of either answer
 * differ from those of the prompt. */
static cs_status put_pair(ce_job_work *work, ce_job_workspace *workspace, const int32_t *prompt, int64_t prompt_count)
{
    int64_t first = work->token_count;
    int64_t learnt = put_answer(work, encode(workspace, &workspace->pair.chosen), prompt, prompt_count);
    int64_t second = work->token_count;
    int64_t other = put_answer(work, encode(workspace, &workspace->pair.rejected), prompt, prompt_count);
    learnt = other < learnt ? other : learnt;
    if (learnt > 0 && second - first > learnt && work->token_count - second > learnt) {
        memset(work->learnt + first, false, (size_t)learnt * sizeof *work->learnt);
        memset(work->learnt + second, false, (size_t)learnt * sizeof *work->learnt);
        return CS_OK;
    }
    const char *what = learnt == 0 ? "prompt" : second - first <= learnt ? "chosen answer" : "rejected answer";
    work->token_count = first; /* The tokens of a line that is skipped are removed again. */
    work->start_count -= CE_PAIR_ANSWERS;
    return ce_fail(CS_BAD_FILE, "the %s has no tokenssss", what);
}

static cs_status make_answers(ce_job_work *work, const ce_job_plan *plan, ce_job_workspace *workspace,
                              const json_t *root)
{
    if (!json_is_object(root))
        return ce_fail(CS_BAD_FILE, "not a JSON object");
    CE_TRY(ce_pair_read(&workspace->pair, plan->chat, ce_tokenizer_end_text(plan->tokenizer), root));
    const ce_encoded *encoded = encode(workspace, &workspace->pair.prompt);
    int64_t count = encoded->count;
    CE_FREED int32_t *prompt = ce_must_alloc((size_t)count * sizeof *prompt + 1);
    for (int64_t i = 0; i < count; i++)
        prompt[i] = encoded->ids[i];
    cs_status status = put_pair(work, workspace, prompt, count);
    if (status == CS_OK) {
        work->repeated += workspace->pair.repeated;
        ce_columns_note(&work->columns, root, &workspace->pair.used);
    }
    return status;
}

static cs_status make_json(ce_job_work *work, const ce_job_plan *plan, ce_job_workspace *workspace, const json_t *root)
{
    ce_shape shape;
    if (plan->pairs)
        return make_answers(work, plan, workspace, root);
    cs_status status = ce_shape_read(&shape, root, plan->columns, plan->field, plan->chat != NULL);
    if (status == CS_OK)
        status = make_shape(work, plan, workspace, &shape);
    else if (status == CS_BAD_FILE && json_object_get(root, "chosen") && json_object_get(root, "rejected"))
        status = ce_fail(CS_BAD_FILE, "a pair of answers, chosen and rejected: `train` uses pairs only with "
                                      "cspeed.dpo.beta, and `eval` with --reference FOLDER or --set "
                                      "cspeed.dpo.reference_free=true and cspeed.dpo.beta");
    if (status == CS_OK)
        ce_columns_note(&work->columns, root, &shape.used);
    ce_shape_free(&shape);
    return status;
}

/* Removes keys whose value is null from the values of a row, at any depth. In a table all rows have the keys of all
 * others, with null where a row has none, so the same rows give the same tokens whatever file they are in (as in
 * TRL). */
static void drop_nulls(json_t *row)
{
    const char *key;
    json_t *value;
    json_object_foreach (row, key, value)
        ce_json_drop_nulls(value);
}

static cs_status make_line(ce_job_work *work, const ce_job_plan *plan, ce_job_workspace *workspace,
                           const ce_document *document)
{
    char place[CE_PLACES_TEXT];
    workspace->line.size = 0;
    workspace->repaired += ce_unicode_repair(&workspace->line, document->bytes, (size_t)document->length);
    int64_t wide = 0;
    json_auto_t *root = ce_json_document(workspace->line.bytes, workspace->line.size, &wide);
    work->wide += wide > 0;
    drop_nulls(root);
    cs_status status =
        root ? make_json(work, plan, workspace, root)
             : ce_fail(CS_BAD_FILE,
                       "each line, or element of the list, must be one JSON object; in its own lines and columns: %s",
                       cs_error());
    if (status == CS_OK)
        return CS_OK;
    const char *path = plan->corpus->texts[document->text].path;
    return ce_fail(status, "%s: %s", ce_places_show(place, path, document->line), cs_error());
}

/* Returns CS_OK if a line that cannot be used is left out: a conversation without an answer to learn, or one of the
 * faulty lines that may be skipped. None of the line's tokens are in work->ids. */
static cs_status leave_out(ce_job_work *work, const ce_job_plan *plan, cs_status status)
{
    if (status == CS_NOT_FOUND) {
        work->bare_sentence = work->bare++ ? work->bare_sentence : ce_must_copy(cs_error());
        return CS_OK;
    }
    if ((status != CS_BAD_FILE && status != CS_UNSUPPORTED) || work->skip_count == plan->skip_bad)
        return status;
    work->skipped = ce_must_resize(work->skipped, (size_t)(work->skip_count + 1) * sizeof *work->skipped);
    work->skipped[work->skip_count++] = ce_must_copy(cs_error());
    work->unsupported += status == CS_UNSUPPORTED;
    return CS_OK;
}

void ce_job_make(ce_job_work *work, const ce_job_plan *plan, ce_job_workspace *workspace)
{
    for (int64_t i = 0; i < work->count && work->status == CS_OK; i++) {
        ce_document document = ce_job_part(plan, work->first + i);
        work->document = work->first + i;
        if (document.length == 0)
            continue;
        if (document.is_json)
            work->status = leave_out(work, plan, make_line(work, plan, workspace, &document));
        else
            make_text(work, plan, workspace, &document,
                      work->count == 1 ? (ce_chat_span){ work->from, work->to } : (ce_chat_span){ 0, document.length });
    }
    if (work->status != CS_OK)
        work->sentence = ce_must_copy(cs_error());
}

void ce_job_free(ce_job_work *work)
{
    free(work->ids);
    free(work->learnt);
    free(work->starts);
    free(work->sentence);
    for (int64_t i = 0; i < work->skip_count; i++)
        free(work->skipped[i]);
    free(work->skipped);
    free(work->bare_sentence);
    ce_columns_free(&work->columns);
    *work = (ce_job_work){ 0 };
}
