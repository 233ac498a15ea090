/* context.c - cs_context: incremental inference with a key-value cache, so that each token is computed once. The
 * weights are read once for all contexts that are continued together. */
#include "query/query.h"
#include "base/misuse.h"
#include "base/must.h"

#include <stdlib.h>

struct cs_context {
    cs_engine *engine;
    ce_cache *cache;
    int64_t length, count; /* `length` is the maximum number of positions, `count` the number of tokens read so far. */
};

int64_t cs_context_positions(const cs_engine *engine)
{
    CE_GIVEN(engine);
    return engine->facts.context ? engine->facts.context : engine->facts.positions;
}

static cs_status build(cs_context *context, cs_engine *engine, int64_t length)
{
    int64_t max = cs_context_positions(engine);
    if (engine->model->inputs)
        return ce_fail(CS_UNSUPPORTED, "not supported: cs_context_open, because this model reads floats, not tokens");
    if (length < 0 || (max && length > max))
        return ce_fail(CS_BAD_CONFIG, "cs_context_open: %lld positions were asked for, but the model has %lld",
                       (long long)length, (long long)max);
    context->engine = engine;
    context->length = length ? length : max;
    if (context->length == 0)
        return ce_fail(CS_BAD_CONFIG, "cs_context_open: this model has no greatest length; give a length");
    return ce_cache_open(&context->cache, engine->device, context->length);
}

cs_status cs_context_open(cs_context **context, cs_engine *engine, int64_t length)
{
    CE_GIVEN(context, engine);
    *context = ce_must_alloc(sizeof **context);
    cs_status status = build(*context, engine, length);
    if (status != CS_OK) {
        cs_context_close(*context);
        *context = NULL;
    }
    return status;
}

void cs_context_close(cs_context *context)
{
    if (!context)
        return;
    ce_cache_close(context->cache);
    free(context);
}

/* Checks all tokens before the first of them is read. */
static cs_status check(const cs_context *context, const char *verb, const int32_t *tokens, int64_t count)
{
    int64_t vocabulary = context->engine->facts.vocabulary;
    if (count < 1 || count > context->length - context->count)
        return ce_fail(CS_BAD_CONFIG, "%s: %lld tokens were given; possible are 1 to %lld", verb, (long long)count,
                       (long long)(context->length - context->count));
    for (int64_t i = 0; i < count; i++)
        if (tokens[i] < 0 || (vocabulary && tokens[i] >= vocabulary))
            return ce_fail(CS_BAD_CONFIG, "%s: token %lld is %d, and the tokens of the model are 0 to %lld", verb,
                           (long long)i, (int)tokens[i], (long long)(vocabulary - 1));
    return CS_OK;
}

/* Runs one pass. Row b of `tokens` continues sequence b. */
static cs_status run(cs_engine *engine, const char *verb, cs_tensor tokens, const ce_sequence *sequences,
                     cs_tensor *logits)
{
    ce_forward_input input = { .mode = CE_PASS_EVALUATION, .inputs = tokens, .predict = true, .sequences = sequences };
    return ce_predict_output(engine, verb, &input, logits);
}

cs_status cs_context_read(cs_context *context, const int32_t *tokens, int64_t count, cs_tensor *logits)
{
    CE_GIVEN(context, tokens, logits);
    CE_TRY(check(context, "cs_context_read", tokens, count));
    for (int64_t from = 0, rows; from < count; from += rows) {
        int64_t max = context->engine->length;
        rows = count - from < max ? count - from : max;
        cs_tensor piece = cs_matrix((void *)(uintptr_t)(tokens + from), CS_I32, 1, rows);
        ce_sequence sequence = { context->cache, context->count };
        CE_TRY(run(context->engine, "cs_context_read", piece, &sequence, logits));
        context->count += rows;
    }
    return CS_OK;
}

cs_status cs_contexts_step(cs_context *const *contexts, int64_t count, const int32_t *tokens, cs_tensor *logits)
{
    CE_GIVEN(contexts, tokens, logits);
    static const char verb[] = "cs_contexts_step";
    int64_t max = count > 0 ? contexts[0]->engine->settings->micro_batch * contexts[0]->engine->length : 0;
    if (count < 1 || count > max)
        return ce_fail(CS_BAD_CONFIG, "%s: %lld contexts were given; possible are 1 to %lld, the micro-batch size",
                       verb, (long long)count, (long long)max);
    for (int64_t i = 0; i < count; i++)
        CE_TRY(check(contexts[i], verb, tokens + i, 1));
    CE_FREED ce_sequence *sequences = ce_must_alloc((size_t)count * sizeof *sequences);
    for (int64_t i = 0; i < count; i++)
        sequences[i] = (ce_sequence){ contexts[i]->cache, contexts[i]->count };
    cs_status status =
        run(contexts[0]->engine, verb, cs_matrix((void *)(uintptr_t)tokens, CS_I32, count, 1), sequences, logits);
    for (int64_t i = 0; status == CS_OK && i < count; i++)
        contexts[i]->count++;
    return status;
}

int64_t cs_context_count(const cs_context *context)
{
    CE_GIVEN(context);
    return context->count;
}

void cs_context_clear(cs_context *context)
{
    CE_GIVEN(context);
    context->count = 0;
}
