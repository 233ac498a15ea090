/* gather.c - cs_gather: collects the ranks' texts on rank 0. */
#include "core/engine.h"
#include "base/misuse.h"
#include "base/must.h"
#include "comm/collective_status.h"

#include <stdlib.h>
#include <string.h>

char *cs_gather(cs_engine *engine, const char *text)
{
    CE_GIVEN(engine, text);
    CE_FREED int64_t *sizes = ce_must_alloc((size_t)engine->world.size * sizeof *sizes);
    ce_walk_settle(engine);
    char *all = ce_collective_gather(engine->comm, sizes, text, strlen(text));
    return all;
}
