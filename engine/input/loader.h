/* loader.h - struct cs_data: one split of the data, distributed over ranks. */
#ifndef CS_LOADER_H
#define CS_LOADER_H

#include "input/token_cache.h"
#include "data/data.h"

struct cs_data {
    cs_engine *engine;
    cs_windows *windows;
    int32_t *inputs, *targets, *starts; /* (B, T); starts is NULL unless documents are packed */
    int64_t *samples;
    cs_texts texts; /* keeps the token shards alive that the windows map */
};

/* Micro-batch number `lane` of the windows in file order. Rows past the end have no target; lane -1 has none at all. */
cs_batch cs_loader_lane(cs_data *data, int64_t lane);

#endif
