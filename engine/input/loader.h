/* loader.h - struct cs_data: one split of the data, distributed over ranks; and the cache of tokenized texts. */
#ifndef CE_INPUT_LOADER_H
#define CE_INPUT_LOADER_H

#include "core/engine.h"
#include "data/data.h"

/* ---- token_cache.c: each host tokenizes a text once, and later runs reuse the token shards ----
 *
 * If a name in cspeed.data is a text (data/texts.h) or a folder of texts, it is tokenized, and its shards are in
 * CACHE/<16 hexadecimal digits>. The digits are a hash of the texts' names, sizes and modification times, of the
 * tokenizer's files, and of the keys of cspeed.data that change the tokens; made_from.txt in that folder lists these
 * facts. When a changed text is tokenized again, the shards of its earlier state are deleted, unless a run still reads
 * them. */

typedef struct {
    /* (count) for each name in cspeed.data, the pattern of its token shards. If the name is that of a text, these are
     * the shards in the cache; otherwise the name itself is the pattern */
    const char **names;
    /* (count) for each name of a text, a descriptor whose lock protects the text's shards from deletion; -1 for other
     * names */
    int *held;
    int count;
} ce_token_cache;

/* Tokenizes the texts that are not in the cache, on the first rank of each host, while the other ranks wait. The call
 * is collective. *cache must stay open while the shards are read. */
cs_status ce_token_cache_open(ce_token_cache *cache, cs_engine *engine, const char *const *given, int count);
void ce_token_cache_close(ce_token_cache *cache);

/* ---- loader.c ---- */

struct cs_data {
    cs_engine *engine;
    ce_windows *windows; /* NULL if the samples are the program's own */
    cs_samples own;
    /* (B, T) arrays, where B is engine->sequences; `starts` is NULL unless documents are packed. The inputs of a model of
     * numbers, and targets that are numbers, are fp32, and the columns are those of the model. */
    int32_t *inputs, *targets, *starts;
    int64_t *samples;  /* (B) number of each sample */
    float *references; /* (B) reference model's log-probabilities for the micro-batch; NULL without cspeed.dpo */
    /* (windows, answers of a pair) log-probabilities by the reference model; NULL without cspeed.dpo */
    float *logps;
    ce_token_cache cache; /* holds the locks that protect the mapped token shards from deletion */
};

/* Tokenizes the texts of the configuration and opens the windows of both splits, which cs_data_open then takes. So a
 * mistake in the data is found before the products are measured and the model is read. Does nothing for a program that
 * only reads a model. Collective. */
cs_status ce_loader_begin(cs_engine *engine);

/* Returns micro-batch number `lane` of the windows in file order. Rows after the last window have no target, unless
 * targets are numbers: then the first *rows rows count. If `lane` is -1, no row has a target. */
cs_batch ce_loader_lane(cs_data *data, int64_t lane, int64_t *rows);

#endif
