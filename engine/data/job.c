/* job.c - tokenizes one unit of work on one thread: several documents, or a part of a long document. */
#include "data/job.h"
#include "base/must.h"

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
    if (work->room - work->token_count >= more)
        return;
    work->room = 2 * work->room + more;
    work->ids = realloc(work->ids, (size_t)work->room * sizeof *work->ids);
    work->learnt = realloc(work->learnt, (size_t)work->room * sizeof *work->learnt);
    CS_ASSERT(work->ids);
    CS_ASSERT(work->learnt);
}

static void begin(ce_job_work *work)
{
    if (work->start_count == work->start_room) {
        work->start_room = 2 * work->start_room + 64;
        work->starts = realloc(work->starts, (size_t)work->start_room * sizeof *work->starts);
        CS_ASSERT(work->starts);
    }
    work->starts[work->start_count++] = work->token_count;
}

static void put(ce_job_work *work, int32_t id)
{
    make_room(work, 1);
    work->ids[work->token_count] = id;
    work->learnt[work->token_count++] = true;
}

static void put_all(ce_job_work *work, const ce_encoded *encoded)
{
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

static void make_text(ce_job_work *work, const ce_job_plan *plan, ce_job_workspace *workspace,
                      const ce_document *document, ce_chat_span span)
{
    int where = (span.from == 0 ? CS_ENCODER_BEGINS : 0) | (span.to == document->length ? CS_ENCODER_ENDS : 0);
    if (where & CS_ENCODER_BEGINS)
        begin(work);
    put_all(work,
            ce_encoder_part(workspace->encoder, document->bytes + span.from, (size_t)(span.to - span.from), where));
    if (where & CS_ENCODER_ENDS)
        end(work, plan);
}

/* Appends the tokens of a conversation; the targets are the tokens that begin within an answer. */
static void make_chat(ce_job_work *work, const ce_encoded *encoded, const ce_chat_lines *chat)
{
    int64_t first = work->token_count, answer = 0;
    begin(work);
    put_all(work, encoded);
    for (int64_t i = 0; i < encoded->count; i++) {
        while (answer < chat->count && encoded->starts[i] >= chat->answers[answer].to)
            answer++;
        work->learnt[first + i] = answer < chat->count && encoded->starts[i] >= chat->answers[answer].from;
    }
}

/* ---- pairs of answers ---- */

/* Appends one answer with its prompt before it. Returns the number of its first tokens that are `prompt`'s too. */
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

/* Appends both answers. The answers begin where their tokens first differ from the prompt's. */
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
    work->token_count = first; /* a line that is skipped leaves nothing */
    work->start_count -= CS_PAIR_ANSWERS;
    return ce_fail(CS_BAD_FILE, "the %s has no token", what);
}

static cs_status make_pair(ce_job_work *work, const ce_job_plan *plan, ce_job_workspace *workspace, const json_t *root)
{
    CS_TRY(ce_pair_read(&workspace->pair, plan->chat, ce_tokenizer_end_text(plan->tokenizer), root));
    const ce_encoded *encoded = encode(workspace, &workspace->pair.prompt);
    int64_t count = encoded->count;
    int32_t *prompt = malloc((size_t)count * sizeof *prompt + 1);
    CS_ASSERT(prompt);
    for (int64_t i = 0; i < count; i++)
        prompt[i] = encoded->ids[i];
    cs_status status = put_pair(work, workspace, prompt, count);
    free(prompt);
    return status;
}

static cs_status make_json(ce_job_work *work, const ce_job_plan *plan, ce_job_workspace *workspace, const json_t *root)
{
    const json_t *text = json_object_get(root, plan->field);
    if (!json_is_object(root))
        return ce_fail(CS_BAD_FILE, "not a JSON object");
    if (plan->pairs)
        return make_pair(work, plan, workspace, root);
    if (json_object_get(root, "chosen") && json_object_get(root, "rejected"))
        return ce_fail(CS_BAD_FILE, "a pair of answers, chosen and rejected: with cspeed.dpo.beta `train` learns from "
                                    "pairs, and `eval --reference FOLDER` measures on them");
    if (plan->chat) {
        CS_TRY(ce_chat_write(plan->chat, root, &workspace->chat));
        make_chat(work, ce_encoder_text(workspace->encoder, workspace->chat.text.bytes, workspace->chat.text.size),
                  &workspace->chat);
        return CS_OK;
    }
    if (!json_is_string(text))
        return ce_fail(CS_BAD_FILE,
                       "%s \"%s\" (\"field\" names the key of a document's text, \"template\" makes text of "
                       "conversations)",
                       text ? "no text under" : "there is no key", plan->field);
    begin(work);
    put_all(work, ce_encoder_document(workspace->encoder, json_string_value(text), json_string_length(text)));
    end(work, plan);
    return CS_OK;
}

static cs_status make_line(ce_job_work *work, const ce_job_plan *plan, ce_job_workspace *workspace,
                           const ce_document *document)
{
    workspace->line.size = 0;
    workspace->repaired += ce_unicode_repair(&workspace->line, document->bytes, (size_t)document->length);
    json_t *root = ce_json_document(workspace->line.bytes, workspace->line.size);
    cs_status status = root ? make_json(work, plan, workspace, root)
                            : ce_fail(CS_BAD_FILE, "each line has to be one JSON object: %s", cs_error());
    json_decref(root);
    if (status == CS_OK)
        return CS_OK;
    return ce_fail(status, "%s, line %" PRId64 ": %s", plan->corpus->texts[document->text].path,
                   ce_corpus_line(plan->corpus, document), cs_error());
}

/* Records why a faulty line is skipped; none of its tokens has been kept. */
static void skip(ce_job_work *work)
{
    char *sentence = strdup(cs_error());
    work->skipped = realloc(work->skipped, (size_t)(work->skip_count + 1) * sizeof *work->skipped);
    CS_ASSERT(work->skipped);
    CS_ASSERT(sentence);
    work->skipped[work->skip_count++] = sentence;
}

void ce_job_make(ce_job_work *work, const ce_job_plan *plan, ce_job_workspace *workspace)
{
    for (int64_t i = 0; i < work->count && work->status == CS_OK; i++) {
        ce_document document = ce_job_part(plan, work->first + i);
        if (document.length == 0)
            continue;
        if (document.is_json)
            work->status = make_line(work, plan, workspace, &document);
        else
            make_text(work, plan, workspace, &document,
                      work->count == 1 ? (ce_chat_span){ work->from, work->to } : (ce_chat_span){ 0, document.length });
        if (work->status == CS_BAD_FILE && work->skip_count < plan->skip_bad) {
            skip(work);
            work->status = CS_OK;
        }
    }
    if (work->status != CS_OK)
        work->sentence = strdup(cs_error());
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
    *work = (ce_job_work){ 0 };
}
