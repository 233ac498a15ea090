/* agreement.c - comparison of all ranks' version, model and configuration before training starts.
 *
 * Without this comparison a difference could stay unnoticed for a long time: at stage 0 the ranks' replicas would drift
 * apart without any message. The resolved values of the configuration are compared key by key, so comments, order and
 * spelling in the file do not matter. Ranks first exchange digests, and the values only if the digests differ. */
#include "setup/setup.h"
#include "base/log.h"
#include "security/mac.h"
#include "base/must.h"
#include "base/plural.h"
#include "comm/collective_status.h"
#include "config/listing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMED = 8, VALUE_BYTES = 80, SENTENCE_BYTES = 4096 };

/* Keys that may differ between ranks: the device, and names of files and folders, because hosts may keep the same
 * things in different places. The contents are compared elsewhere: a model's config.json by add_model, data by its
 * tokens in cs_data_open, a checkpoint by its checksums. If `together` is true, the ranks use the named file or folder
 * collectively, so the key must be set on all ranks or on none. */
static const struct {
    const char *path;
    bool together;
} of_a_rank[] = {
    { "cspeed.seed", false }, /* all ranks take rank 0's seed (share_seed) */
    { "cspeed.device", false },
    { "cspeed.threads", false },
    { "cspeed.model", false },
    { "cspeed.dpo.reference", true },
    { "cspeed.data.train", false },
    { "cspeed.data.valid", true },
    { "cspeed.data.tokenizer", false },
    { "cspeed.data.cache", false },
    { "cspeed.output", false },
    { "cspeed.load", true },
    { "cspeed.metrics", false },
    { "cspeed.export", true },
    { "cspeed.lora.adapter", true },
    { "cspeed.trace.file", true },
    { "csv_monitor.output_path", false },
    { "tensorboard.output_path", false },
    { "flops_profiler.output_file", false },
};
enum { OF_A_RANK = sizeof of_a_rank / sizeof *of_a_rank };

/* ---- the facts of one rank ---- */

static void add(void *to, const ce_listing *item)
{
    for (int i = 0; i < OF_A_RANK; i++)
        if (strcmp(of_a_rank[i].path, item->path) == 0) {
            if (of_a_rank[i].together)
                json_object_set_new(to, item->path, json_is_null(item->value) ? json_null() : json_string("a name"));
            return;
        }
    if (!item->idle) /* `idle` is the reason why a value has no effect on this training */
        json_object_set(to, item->path, item->value);
}

/* The parameters of a model of the program's own, by name: another name, shape or place makes another model. */
static void add_parameters(json_t *facts, const cs_model *model)
{
    int number = 0;
    for (int i = 0; i < model->total; i++)
        for (int at = 0; at < model->units[i]->entry_count; at++) {
            const ce_unit_entry *entry = model->units[i]->entries[at];
            const cs_param *param = &entry->param;
            CE_FREED char *key = ce_must_print("parameter %s", entry->full_name);
            json_object_set_new(facts, key,
                                json_sprintf("number %d, %lld x %lld, first values %d %.9g, %s", number++,
                                             (long long)entry->cut.whole[0], (long long)entry->cut.whole[1],
                                             (int)param->init.how, (double)param->init.std,
                                             param->frozen  ? "frozen"
                                             : param->decay ? "with decay"
                                                            : "without decay"));
        }
}

static void add_model(json_t *facts, const cs_engine *engine)
{
    const char *key;
    json_t *value;
    char path[320];
    json_object_set_new(facts, "parameters of the model", json_integer(engine->model->parameters));
    if (!engine->model_json)
        add_parameters(facts, engine->model);
    json_object_foreach (engine->model_json, key, value) {
        snprintf(path, sizeof path, "cspeed.model.%s", key);
        json_object_set(facts, path, value);
    }
}

json_t *ce_agreement_facts(cs_engine *engine)
{
    json_t *facts = json_object();
    CE_ASSERT(facts);
    json_object_set_new(facts, "cspeed's version", json_string(CS_VERSION));
    json_object_set_new(facts, "ranks of a sharding group", json_integer(engine->config->settings.shard_size));
    ce_listing_each(engine->config, add, facts);
    add_model(facts, engine);
    return facts;
}

/* ---- comparison ---- */

/* On rank 0: the keys whose values on another rank are different from those on rank 0. */
typedef struct {
    json_t *rank0, *named;
    char sentence[SENTENCE_BYTES];
} difference;

static void name_key(difference *found, const char *key, const json_t *other, int rank)
{
    char values[2][VALUE_BYTES];
    const json_t *expected = json_object_get(found->rank0, key);
    if (json_equal(expected, other) || json_object_get(found->named, key))
        return;
    json_object_set_new(found->named, key, json_true());
    size_t used = strlen(found->sentence);
    if (json_object_size(found->named) <= NAMED)
        snprintf(found->sentence + used, sizeof found->sentence - used, "%s%s: %s on rank 0, %s on rank %d",
                 used ? "; " : "", key, ce_json_show(expected, values[0], VALUE_BYTES),
                 ce_json_show(other, values[1], VALUE_BYTES), rank);
}

static void name_keys(difference *found, const json_t *other, int rank)
{
    const char *key;
    json_t *value;
    json_object_foreach (found->rank0, key, value)
        name_key(found, key, json_object_get(other, key), rank);
    json_object_foreach ((json_t *)(uintptr_t)other, key, value)
        name_key(found, key, value, rank);
}

static cs_status refuse(const difference *found)
{
    char more[32] = "";
    size_t count = json_object_size(found->named);
    if (count > NAMED)
        snprintf(more, sizeof more, "; and %zu more", count - NAMED);
    return ce_fail(CS_DISAGREE,
                   "ranks were started with different settings, and would train different models: %s%s. "
                   "Start all of them with the same program, configuration and flags; only cspeed.device, "
                   "cspeed.threads and names of files and folders may differ",
                   found->sentence, more);
}

/* `texts` holds the JSON texts of all ranks, one after another. A text that is equal to rank 0's text is left empty. */
static cs_status compare_texts(const char *texts, const int64_t *sizes, int count)
{
    difference found = { .rank0 = json_loadb(texts, (size_t)sizes[0], 0, NULL), .named = json_object() };
    CE_ASSERT(found.rank0);
    CE_ASSERT(found.named);
    for (int rank = 1; rank < count; rank++) {
        texts += sizes[rank - 1];
        json_t *other = sizes[rank] > 0 ? json_loadb(texts, (size_t)sizes[rank], 0, NULL) : NULL;
        if (other)
            name_keys(&found, other, rank);
        json_decref(other);
    }
    cs_status status = refuse(&found);
    json_decref(found.rank0);
    json_decref(found.named);
    return status;
}

/* Called if the digests of the ranks differ: rank 0 finds the keys that differ, and all ranks fail with rank 0's
 * message. */
static cs_status exchange(cs_comm *comm, const char *text, bool differs)
{
    int count = cs_comm_size(comm);
    bool sends = differs || cs_comm_rank(comm) == 0;
    CE_FREED int64_t *sizes = ce_must_alloc((size_t)count * sizeof *sizes);
    CE_FREED char *texts = ce_collective_gather(comm, sizes, text, sends ? strlen(text) : 0);
    cs_status status = texts ? compare_texts(texts, sizes, count) : CS_OK;
    return ce_collective_status(comm, status);
}

cs_status ce_agreement_compare(cs_comm *comm, const json_t *facts)
{
    static const unsigned char key[CE_MAC_BYTES];
    unsigned char mine[CE_MAC_BYTES];
    int count = cs_comm_size(comm), others = 0;
    CE_FREED char *text = json_dumps(facts, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    unsigned char *all = ce_must_alloc((size_t)count * CE_MAC_BYTES);
    CE_ASSERT(text);
    ce_mac_once(mine, key, &(struct iovec){ text, strlen(text) }, 1);
    cs_comm_all_gather(comm, all, mine, CE_MAC_BYTES, CS_U8);
    for (int rank = 1; rank < count; rank++)
        others += memcmp(all, all + rank * CE_MAC_BYTES, CE_MAC_BYTES) != 0;
    cs_status status = others > 0 ? exchange(comm, text, memcmp(all, mine, CE_MAC_BYTES) != 0) : CS_OK;
    free(all);
    return status;
}

/* All ranks take rank 0's seed, as PyTorch's data parallelism takes rank 0's initial parameters. The seeds of the
 * configurations may differ, because programs may derive them from the rank. */
static void share_seed(cs_engine *engine)
{
    ce_settings *settings = &engine->config->settings;
    int count = engine->world.size, others = 0, first = 0;
    CE_FREED int64_t *seeds = ce_must_alloc((size_t)count * sizeof *seeds);
    cs_comm_all_gather(engine->comm, seeds, &settings->seed, 1, CS_I64);
    for (int rank = count - 1; rank > 0; rank--)
        if (seeds[rank] != seeds[0]) {
            others++;
            first = rank;
        }
    if (others > 0)
        ce_log(CE_LOG_WARNING,
               "cspeed.seed: %lld on rank 0 and %lld on rank %d (%d rank%s with another seed than rank "
               "0): all ranks take rank 0's",
               (long long)seeds[0], (long long)seeds[first], first, others, ce_plural(others));
    settings->seed = seeds[0];
}

cs_status ce_agreement_check(cs_engine *engine)
{
    if (engine->world.size == 1)
        return CS_OK;
    json_auto_t *facts = ce_agreement_facts(engine);
    cs_status status = ce_agreement_compare(engine->comm, facts);
    if (status == CS_OK)
        share_seed(engine);
    return status;
}
