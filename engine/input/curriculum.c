/* curriculum.c - curriculum learning by sequence length: each step's samples are truncated to the schedule's length.
 *
 * As in DeepSpeed, only the first tokens of a sample are trained on. The order of the samples does not depend on the
 * length, and the length depends only on the step, so resuming needs no saved state. */
#include "input/input.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>

struct ce_curriculum {
    int32_t *inputs, *targets, *starts; /* The shape is (B, length of this step). */
};

cs_status ce_curriculum_open(cs_engine *engine)
{
    if (engine->settings->curriculum.kind == CE_DIFFICULTY_NONE)
        return CS_OK;
    if (engine->model->inputs)
        return ce_fail(CS_BAD_CONFIG, "curriculum_learning: the samples of this model are not sequences of tokens");
    size_t count = (size_t)(engine->settings->micro_batch * engine->length);
    engine->curriculum = ce_must_alloc(sizeof *engine->curriculum);
    engine->curriculum->inputs = ce_must_alloc(count * sizeof(int32_t));
    engine->curriculum->targets = ce_must_alloc(count * sizeof(int32_t));
    engine->curriculum->starts = ce_must_alloc(count * sizeof(int32_t));
    return CS_OK;
}

void ce_curriculum_close(cs_engine *engine)
{
    if (!engine->curriculum)
        return;
    free(engine->curriculum->inputs);
    free(engine->curriculum->targets);
    free(engine->curriculum->starts);
    free(engine->curriculum);
}

bool ce_curriculum_may_be(const cs_engine *engine, int64_t length)
{
    return engine->settings->curriculum.kind != CE_DIFFICULTY_NONE &&
           ce_difficulty_may_be(&engine->settings->curriculum, length);
}

static cs_tensor prefix(cs_tensor whole, int32_t *into, int64_t length)
{
    if (!whole.data)
        return whole;
    const int32_t *from = whole.data;
    for (int64_t b = 0; b < whole.shape[0]; b++)
        memcpy(into + b * length, from + b * whole.shape[1], (size_t)length * sizeof *into);
    return cs_matrix(into, CS_I32, whole.shape[0], length);
}

/* The prefixes are valid until the next micro-batch. */
static void shorten(cs_engine *engine, cs_batch *batch)
{
    if (!engine->curriculum)
        return;
    int64_t length = ce_difficulty_at(&engine->settings->curriculum, engine->metrics.step + 1);
    batch->inputs = prefix(batch->inputs, engine->curriculum->inputs, length);
    batch->targets = prefix(batch->targets, engine->curriculum->targets, length);
    batch->starts = prefix(batch->starts, engine->curriculum->starts, length);
}

const ce_observer ce_curriculum_observer = { .batch = shorten };
