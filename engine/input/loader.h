/* loader.h - a split of the data, dealt to ranks. */
#ifndef CS_LOADER_H
#define CS_LOADER_H

#include "input/token_cache.h"
#include "data/data.h"

struct cs_data {
    cs_engine *engine;
    cs_windows *windows;
    int32_t *inputs, *targets, *starts; /* (B, T); starts NULL: documents are not kept apart */
    int64_t *samples;
    cs_texts texts; /* whose shards the windows map */
};

/* Micro-batch `lane` of the windows in file order; lanes and rows past the end are masked out. */
cs_batch cs_loader_lane(cs_data *data, int64_t lane);

#endif
