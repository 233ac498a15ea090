/* loader.c - cs_data: the data loader. The windows of a rank depend only on the number of samples trained on so far. */
#include "input/loader.h"
#include "base/misuse.h"
#include "input/input.h"
#include "base/must.h"
#include "base/log.h"
#include "base/trace.h"
#include "comm/collective_status.h"

#include <stdlib.h>
#include <string.h>

/* Sets the number of steps from "epochs", as soon as the size of the data is known. */
static void count_steps(cs_engine *engine, const cs_data *data)
{
    ce_settings *settings = &engine->config->settings;
    int64_t windows = cs_data_windows(data);
    engine->windows = windows;
    engine->mark = data->windows ? ce_windows_mark(data->windows) : 0;
    if (settings->epochs == 0)
        return;
    settings->steps = ce_divide_up(settings->epochs * windows, settings->train_batch_size);
    cs_set_total_steps(engine, settings->steps);
}

/* Makes those checks whose result is the same on every rank. */
static cs_status check(const cs_engine *engine, const char *split)
{
    bool train = strcmp(split, "train") == 0;
    if (!train && strcmp(split, "valid") != 0)
        return ce_fail(CS_BAD_CONFIG, "cs_data_open: split is \"train\" or \"valid\", not \"%s\"", split);
    if (engine->model->inputs)
        return ce_fail(CS_BAD_CONFIG, "cs_data_open: this model reads floats, and token shards contain none");
    if ((train ? engine->settings->train_count : engine->settings->valid_count) == 0)
        return ce_fail(CS_BAD_CONFIG,
                       "cspeed.data.%s names no file: give texts, or token shards that `cspeed pack` made", split);
    return CS_OK;
}

static cs_status open_windows(cs_data *data, bool train)
{
    const ce_settings *settings = data->engine->settings;
    ce_data_settings wanted = {
        .patterns = data->cache.names,
        .pattern_count = data->cache.count,
        .seq_len = data->engine->length,
        .shuffle = train && settings->shuffle,
        .seed = (uint64_t)settings->seed,
        .vocab_size = data->engine->facts.vocabulary,
        .weights = train && settings->weighted ? settings->weights : NULL,
        .documents = settings->packing == CE_PACK_DOCUMENTS,
        .longer = settings->longer,
        .all = !train,
        .pairs = ce_preference_is_on(data->engine),
    };
    return ce_windows_open(&data->windows, &wanted);
}

/* Return the number of inputs and of targets of a sequence. */
static int64_t inputs_of(const cs_data *data)
{
    const cs_model *model = data->engine->model;
    return model->inputs ? model->inputs : data->engine->length;
}

static int64_t targets_of(const cs_data *data)
{
    const cs_model *model = data->engine->model;
    return model->inputs ? model->targets : data->engine->length;
}

static bool has_classes(const cs_data *data)
{
    const cs_model *model = data->engine->model;
    return !model->inputs || model->target_dtype == CS_I32;
}

static void open_batch(cs_data *data)
{
    size_t sequences = (size_t)data->engine->sequences;
    size_t rows = sequences * (size_t)data->engine->length;
    bool documents = data->windows && data->engine->settings->packing == CE_PACK_DOCUMENTS;
    bool pairs = ce_preference_is_on(data->engine);
    data->inputs = ce_must_alloc(sequences * (size_t)inputs_of(data) * sizeof *data->inputs);
    data->targets = ce_must_alloc(sequences * (size_t)targets_of(data) * sizeof *data->targets);
    data->samples = ce_must_alloc(sequences * sizeof *data->samples);
    data->references = pairs ? ce_must_alloc(sequences * sizeof *data->references) : NULL;
    data->starts = documents ? ce_must_alloc(rows * sizeof *data->starts) : NULL;
}

/* Returns the first rank whose number differs from that of rank 0; 0 if there is none. Collective. */
static int first_other(cs_engine *engine, uint64_t number)
{
    int count = cs_comm_size(engine->comm), other = 1;
    int64_t mine = (int64_t)number;
    CE_FREED int64_t *all = ce_must_alloc((size_t)count * sizeof *all);
    cs_comm_all_gather(engine->comm, all, &mine, 1, CS_I64);
    while (other < count && all[other] == all[0])
        other++;
    return other < count ? other : 0;
}

/* Checks that all ranks have the same tokens, because hosts may store, or may have tokenized, different files. */
static cs_status compare_ranks(const cs_data *data, const char *split)
{
    int other = first_other(data->engine, ce_windows_mark(data->windows));
    if (!other)
        return CS_OK;
    return ce_fail(CS_DISAGREE,
                   "cspeed.data.%s: the tokens are not the same on all ranks: those of rank %d differ from those of "
                   "rank 0; copy the same texts, tokenizer and shards to every host, or use a folder that all hosts "
                   "share",
                   split, other);
}

/* Tokenizes the texts of a split, and opens its windows. */
static cs_status open_tokens(cs_data **data, cs_engine *engine, const char *split)
{
    const ce_settings *settings = engine->settings;
    bool train = strcmp(split, "train") == 0;
    ce_token_cache cache = { 0 };
    CE_TRY(ce_token_cache_open(&cache, engine, train ? settings->train : settings->valid,
                               train ? settings->train_count : settings->valid_count));
    *data = ce_must_alloc(sizeof **data);
    (*data)->engine = engine;
    (*data)->cache = cache;
    /* A file may be missing on one rank only; all ranks then return the same error. */
    CE_TRY(ce_collective_status(engine->comm, open_windows(*data, train)));
    return compare_ranks(*data, split);
}

static cs_status complete(cs_data *data, bool train)
{
    cs_engine *engine = data->engine;
    open_batch(data);
    if (train)
        count_steps(engine, data);
    ce_summary_print(data, train);
    return ce_preference_is_on(engine) ? ce_reference_open(&data->logps, data) : CS_OK;
}

cs_status ce_loader_begin(cs_engine *engine)
{
    const ce_settings *settings = engine->settings;
    if (engine->config->reads || engine->model->inputs)
        return CS_OK;
    if (settings->train_count > 0)
        CE_TRY(open_tokens(&engine->begun[0], engine, "train"));
    return settings->valid_count > 0 ? open_tokens(&engine->begun[1], engine, "valid") : CS_OK;
}

cs_status cs_data_open(cs_data **data, cs_engine *engine, const char *split)
{
    CE_GIVEN(data, engine, split);
    *data = NULL;
    CE_TRY(check(engine, split));
    bool train = strcmp(split, "train") == 0;
    cs_data **begun = &engine->begun[train ? 0 : 1];
    ce_walk_settle(engine);
    *data = *begun;
    *begun = NULL;
    cs_status status = *data ? CS_OK : open_tokens(data, engine, split);
    if (status == CS_OK)
        status = complete(*data, train);
    if (status != CS_OK) {
        cs_data_close(*data);
        *data = NULL;
    }
    return status;
}

cs_status cs_data_from(cs_data **data, cs_engine *engine, const cs_samples *samples)
{
    CE_GIVEN(data, engine, samples);
    *data = NULL;
    int other = first_other(engine, (uint64_t)samples->count);
    if (other)
        return ce_fail(CS_DISAGREE, "cs_data_from: rank %d has another number of samples than rank 0", other);
    if (samples->count < 1 || !samples->read)
        return ce_fail(CS_MISUSE, "cs_data_from: at least one sample, and a function that reads it, are needed");
    if (ce_preference_is_on(engine))
        return ce_fail(CS_UNSUPPORTED, "not supported: cs_data_from with cspeed.dpo, whose reference model reads the "
                                       "files of cspeed.data");
    *data = ce_must_alloc(sizeof **data);
    (*data)->engine = engine;
    (*data)->own = *samples;
    open_batch(*data);
    if (samples->train)
        count_steps(engine, *data);
    return CS_OK;
}

void cs_data_close(cs_data *data)
{
    if (!data)
        return;
    ce_windows_close(data->windows);
    ce_token_cache_close(&data->cache);
    free(data->inputs);
    free(data->targets);
    free(data->starts);
    free(data->samples);
    free(data->references);
    free(data->logps);
    free(data);
}

int64_t cs_data_windows(const cs_data *data)
{
    CE_GIVEN(data);
    return data->windows ? ce_windows_count(data->windows) : data->own.count;
}

static cs_batch batch_of(cs_data *data, int64_t batch)
{
    cs_dtype inputs = data->engine->model->inputs ? CS_F32 : CS_I32;
    return (cs_batch){ .inputs = cs_matrix(data->inputs, inputs, batch, inputs_of(data)),
                       .targets =
                           cs_matrix(data->targets, has_classes(data) ? CS_I32 : CS_F32, batch, targets_of(data)),
                       .samples = data->samples,
                       .starts = cs_matrix(data->starts, CS_I32, batch, data->engine->length),
                       .references = cs_vector(data->references, CS_F32, batch) };
}

/* Returns the number of sequences of a sample: one, or two for a pair of answers. */
static int64_t width_of(const cs_data *data)
{
    return data->engine->sequences / data->engine->settings->micro_batch;
}

/* Reads window `index` as sample b of the batch. `number` is the sample's position in the order of the training. */
static void read_sample(cs_data *data, int64_t b, int64_t index, int64_t number)
{
    int64_t width = width_of(data), first = b * width;
    int32_t *inputs = data->inputs + first * inputs_of(data), *targets = data->targets + first * targets_of(data);
    if (data->windows)
        ce_windows_read_plain(data->windows, index,
                              (ce_window){ inputs, targets,
                                           data->starts ? data->starts + first * data->engine->length : NULL });
    else
        data->own.read(data->own.argument, index, inputs, targets);
    for (int64_t i = 0; i < width; i++) {
        data->samples[b * width + i] = number;
        if (data->logps)
            data->references[b * width + i] = data->logps[index * width + i];
    }
}

/* Returns the number of the window or sample at a position of the training. */
static int64_t index_at(const cs_data *data, int64_t position)
{
    int64_t count = cs_data_windows(data), epoch = position / count, index = position % count;
    if (data->windows)
        return ce_windows_index(data->windows, position);
    return data->own.shuffle ? ce_windows_permute((uint64_t)data->engine->settings->seed, epoch, count, index) : index;
}

cs_batch cs_data_next(cs_data *data)
{
    CE_GIVEN(data);
    double traced = ce_trace_begin();
    for (int64_t b = 0; b < data->engine->settings->micro_batch; b++) {
        int64_t number = ce_forward_sample(data->engine, b);
        read_sample(data, b, index_at(data, number), number);
    }
    ce_trace_end(CE_TRACE_COPY, "read batch", "", traced);
    return batch_of(data, data->engine->sequences);
}

cs_batch ce_loader_lane(cs_data *data, int64_t lane, int64_t *rows)
{
    int64_t batch = data->engine->settings->micro_batch, targets = width_of(data) * targets_of(data);
    *rows = 0;
    for (int64_t b = 0; b < batch; b++) {
        int64_t index = lane * batch + b;
        bool real = lane >= 0 && index < cs_data_windows(data);
        read_sample(data, b, real ? index : 0, index);
        *rows += real;
        for (int64_t t = 0; t < targets && !real && has_classes(data); t++)
            data->targets[b * targets + t] = -1;
    }
    return batch_of(data, data->engine->sequences);
}
