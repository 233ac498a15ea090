/* generation.c - cs_generation: samples the tokens of a text after a prompt, with a key-value cache. A text that has
 * filled the positions of the model continues from its last tokens. */
#include "core/engine.h"
#include "base/misuse.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>

struct cs_generation {
    cs_generation_options options;
    cs_context *context;
    int32_t *tokens; /* the prompt, and then the sampled tokens */
    int64_t prompt;  /* number of tokens of the prompt */
    int64_t sampled; /* number of sampled tokens */
    int64_t positions;
    bool slid;
};

static cs_status build(cs_generation *g, cs_engine *engine, const int32_t *prompt, int64_t count)
{
    /* the context never reads the last sampled token */
    int64_t most = cs_context_positions(engine), length = count + g->options.max - (g->options.max > 0);
    g->positions = g->options.positions && (!most || g->options.positions < most) ? g->options.positions : most;
    g->tokens = ce_must_alloc((size_t)(count + g->options.max) * sizeof *g->tokens);
    memcpy(g->tokens, prompt, (size_t)count * sizeof *prompt);
    g->prompt = count;
    return cs_context_open(&g->context, engine, g->positions && g->positions < length ? g->positions : length);
}

cs_status cs_generation_open(cs_generation **generation, cs_engine *engine, const int32_t *prompt, int64_t count,
                             const cs_generation_options *options)
{
    CE_GIVEN(generation, engine, prompt, options);
    *generation = NULL;
    if (count < 1 || options->max < 0)
        return ce_fail(
            CS_MISUSE,
            "cs_generation_open: a prompt of %lld tokens and %lld tokens to generate: both must be at least 1",
            (long long)count, (long long)options->max);
    *generation = ce_must_alloc(sizeof **generation);
    (*generation)->options = *options;
    cs_status status = build(*generation, engine, prompt, count);
    if (status == CS_OK)
        return CS_OK;
    cs_generation_close(*generation);
    *generation = NULL;
    return status;
}

void cs_generation_close(cs_generation *generation)
{
    if (!generation)
        return;
    cs_context_close(generation->context);
    free(generation->tokens);
    free(generation);
}

bool cs_generation_slid(const cs_generation *generation)
{
    CE_GIVEN(generation);
    return generation->slid;
}

static int32_t sample(cs_generation *g, cs_tensor logits)
{
    int32_t token = cs_sample(logits, &g->options.sampling, g->options.text, g->sampled);
    g->tokens[g->prompt + g->sampled++] = token;
    return token;
}

/* Reads the prompt into an empty context. Clears a context that is full, and reads the last tokens of the text, half as
 * many as the context has positions, as if these tokens were a whole text. Leaves *token unchanged if neither is the
 * case: the context then reads the last token together with the contexts of other texts. */
static cs_status read_many(cs_generation *g, int32_t *token)
{
    int64_t count = g->prompt + g->sampled, from = 0;
    cs_tensor logits;
    if (g->sampled == g->options.max)
        return ce_fail(CS_MISUSE, "cs_generations_next: the text is complete, it has %lld tokens",
                       (long long)g->sampled);
    if (g->sampled > 0 && cs_context_count(g->context) != g->positions)
        return CS_OK;
    if (g->sampled > 0) {
        from = count - (g->positions + 1) / 2;
        g->slid = true;
        cs_context_clear(g->context);
    }
    CE_TRY(cs_context_read(g->context, g->tokens + from, count - from, &logits));
    *token = sample(g, logits);
    return CS_OK;
}

/* Computes the next token of the texts whose token is negative. `contexts` and `last` have room for all texts. */
static cs_status step(cs_generation *const *generations, int64_t count, cs_context **contexts, int32_t *last,
                      int32_t *tokens)
{
    int64_t used = 0, row = 0;
    cs_tensor logits;
    for (int64_t i = 0; i < count; i++)
        if (tokens[i] < 0) {
            contexts[used] = generations[i]->context;
            last[used++] = generations[i]->tokens[generations[i]->prompt + generations[i]->sampled - 1];
        }
    if (used > 0)
        CE_TRY(cs_contexts_step(contexts, used, last, &logits));
    for (int64_t i = 0; i < count; i++)
        if (tokens[i] < 0)
            tokens[i] = sample(generations[i], cs_matrix_rows(logits, row++, 1));
    return CS_OK;
}

cs_status cs_generations_next(cs_generation *const *generations, int64_t count, int32_t *tokens)
{
    CE_GIVEN(generations, tokens);
    CE_FREED cs_context **contexts = ce_must_alloc((size_t)count * sizeof *contexts);
    CE_FREED int32_t *last = ce_must_alloc((size_t)count * sizeof *last);
    for (int64_t i = 0; i < count; i++)
        tokens[i] = -1;
    for (int64_t i = 0; i < count; i++)
        CE_TRY(read_many(generations[i], &tokens[i]));
    return step(generations, count, contexts, last, tokens);
}
