/* gather.c - cs_gather: collects the ranks' texts on rank 0. */
#include "core/engine.h"
#include "base/must.h"
#include "comm/collective_status.h"

#include <stdlib.h>
#include <string.h>

char *cs_gather(cs_engine *engine, const char *text)
{
    int64_t *sizes = calloc((size_t)engine->world.size, sizeof *sizes);
    if (!sizes)
        ce_fatal(CS_NO_MEMORY, "out of memory for the sizes of texts");
    ce_walk_settle(engine);
    char *all = ce_collective_gather(engine->comm, sizes, text, strlen(text));
    free(sizes);
    return all;
}
