/* batches.c - the key tables of batch sizes and elasticity. The batch sizes are resolved so that train_batch_size =
 * micro batch x accumulation steps x lanes. */
#include "base/plural.h"
#include "config/resolve.h"
#include "config/rows.h"

#include <stdlib.h>
#include <string.h>

#define MICRO "train_micro_batch_size_per_gpu"
#define STEPS "gradient_accumulation_steps"
#define BATCH "train_batch_size"

enum { USUAL_MICRO = 8, SIZES = 3 };
static const char *const sizes[SIZES] = { BATCH, MICRO, STEPS };

/* ---- train_batch_size = micro batch x accumulation steps x lanes ---- */

/* Returns the product of three positive numbers, or -1 if it overflows. */
static int64_t product(int64_t a, int64_t b, int64_t c)
{
    int64_t all;
    return __builtin_mul_overflow(a, b, &all) || __builtin_mul_overflow(all, c, &all) ? -1 : all;
}

/* Called if neither train_batch_size nor train_micro_batch_size_per_gpu is a number. If one of the two is "auto", sets
 * the micro-batch size that Hugging Face's Trainer takes. Otherwise reports an error and returns false. */
static bool take_usual(cs_config *config)
{
    json_t *root = ce_json_root(config->doc);
    const char *path = ce_keys_is_auto(root, MICRO) ? MICRO : BATCH;
    if (!ce_keys_is_auto(root, path)) {
        ce_json_fault(config->doc, "", MICRO " or " BATCH " is needed");
        return false;
    }
    config->settings.micro_batch = USUAL_MICRO;
    json_object_set_new(root, MICRO, json_integer(USUAL_MICRO));
    ce_json_mark(config->doc, MICRO, "auto: Hugging Face's default");
    ce_json_note(config->doc, path,
                 "\"auto\" became " MICRO " = %d, Hugging Face's default; --set " MICRO "=N sets another value",
                 USUAL_MICRO);
    return true;
}

/* Returns the batch size `missing`, which follows from train_batch_size, the lanes and the batch size `other`, whose
 * value is `size`. Reports an error and returns 0 if there is none. */
static int64_t divide(cs_config *config, const char *other, int64_t size, const char *missing)
{
    int64_t whole = config->settings.train_batch_size, parts = product(size, config->settings.lanes, 1);
    if (parts > 0 && whole % parts == 0)
        return whole / parts;
    ce_json_fault(config->doc, BATCH, BATCH " %lld is not a multiple of %s %lld x %s, so no %s fits", (long long)whole,
                  other, (long long)size, ce_mesh_name_lanes(config).text, missing);
    return 0;
}

static void fault_product(cs_config *config, int64_t all)
{
    const ce_settings *s = &config->settings;
    int64_t each = all / s->lanes;
    char fits[64] = "";
    if (s->train_batch_size % each == 0)
        snprintf(fits, sizeof fits, "; world size %lld fits", (long long)(s->train_batch_size / each * s->tp));
    ce_json_fault(config->doc, BATCH, BATCH " %lld is not " MICRO " %lld x " STEPS " %lld x %s = %lld%s",
                  (long long)s->train_batch_size, (long long)s->micro_batch, (long long)s->accumulation,
                  ce_mesh_name_lanes(config).text, (long long)all, fits);
}

static void check_triangle(cs_config *config)
{
    ce_settings *s = &config->settings;
    int64_t all = product(s->micro_batch, s->accumulation, s->lanes);
    if (all < 0)
        ce_json_fault(config->doc, ce_resolve_is_given(config, MICRO) ? MICRO : STEPS,
                      MICRO " %lld x " STEPS " %lld x %s is too large", (long long)s->micro_batch,
                      (long long)s->accumulation, ce_mesh_name_lanes(config).text);
    else if (s->train_batch_size == 0)
        s->train_batch_size = all;
    else if (s->train_batch_size != all)
        fault_product(config, all);
}

static void resolve_triangle(cs_config *config)
{
    ce_settings *s = &config->settings;
    bool whole = ce_resolve_is_given(config, BATCH), micro = ce_resolve_is_given(config, MICRO),
         steps = ce_resolve_is_given(config, STEPS);
    if ((whole && s->train_batch_size < 1) || (micro && s->micro_batch < 1) || (steps && s->accumulation < 1))
        return; /* The error was reported where the value was read. */
    if (!whole && !micro && !take_usual(config))
        return;
    if (!steps && !(whole && micro))
        s->accumulation = 1;
    if (whole && !micro)
        s->micro_batch = divide(config, STEPS, s->accumulation, MICRO);
    else if (whole && !steps)
        s->accumulation = divide(config, MICRO, s->micro_batch, STEPS);
    if (s->micro_batch > 0 && s->accumulation > 0)
        check_triangle(config);
}

/* ---- elasticity ---- */

static const ce_key keys[] = {
    SUPPORTED("enabled", BOOL, elasticity.enabled, "false", 0, 0, NULL,
              "true: batch sizes are computed from this section and the number of ranks"),
    SUPPORTED("max_train_batch_size", INT, elasticity.max_train_batch_size, "null", 1, MAX_EXACT, NULL,
              "required if enabled: maximum of train_batch_size, in samples"),
    SUPPORTED("micro_batch_sizes", JSON, elasticity.micro_batch_sizes_json, "null", 0, 0, NULL,
              "required if enabled: list of the micro-batch sizes from which one is chosen, as [2, 4, 6]"),
    SUPPORTED("min_gpus", INT, elasticity.min_gpus, "1", 1, CE_ELASTICITY_RANKS, NULL,
              "smallest number of ranks with which the job must be able to run"),
    SUPPORTED("max_gpus", INT, elasticity.max_gpus, "10000", 1, CE_ELASTICITY_RANKS, NULL,
              "largest number of ranks with which the job must be able to run"),
    INERT("min_time", "0", "it is for an external scheduler; DeepSpeed does not use it either"),
    SUPPORTED("version", NUMBER, elasticity.version, "0.2", 0, MAX_EXACT, NULL,
              "version of DeepSpeed's algorithm: 0.1 considers any number of ranks, 0.2 only whole nodes"),
    SUPPORTED("prefer_larger_batch", BOOL, elasticity.prefer_larger_batch, "true", 0, 0, NULL,
              "true: of batch sizes that work with equally many numbers of ranks, take the larger; false: the smaller"),
    SUPPORTED("ignore_non_elastic_batch_info", BOOL, elasticity.ignore_non_elastic_batch_info, "false", 0, 0, NULL,
              "true: batch sizes given elsewhere in the file are overridden; false: they are an error"),
    SUPPORTED("num_gpus_per_node", INT, elasticity.num_gpus_per_node, "1", 1, CE_ELASTICITY_RANKS, NULL,
              "number of ranks on each node, for version 0.2"),
    SUPPORTED("model_parallel_size", INT, elasticity.model_parallel_size, "1", 1, CE_ELASTICITY_RANKS, NULL,
              "ranks of a model-parallel group; in a training it is cspeed.mesh.tp, and another value is an error"),
};

const ce_section ce_batches_sections[] = { { "elasticity", CE_KEYS(keys) } };

static void read_micros(ce_json *doc, ce_elasticity *settings)
{
    static const char path[] = "elasticity.micro_batch_sizes";
    size_t index, count = json_array_size(settings->micro_batch_sizes_json);
    json_t *value;
    settings->micro_count = 0;
    if (count == 0 || count > CE_ELASTICITY_MICROS) {
        ce_json_fault(doc, path, "a list of 1 to %d micro batch sizes is needed", CE_ELASTICITY_MICROS);
        return;
    }
    json_array_foreach (settings->micro_batch_sizes_json, index, value) {
        int64_t size = json_is_integer(value) ? json_integer_value(value) : 0;
        if (size < 1 || size > settings->max_train_batch_size) {
            ce_json_fault(doc, path, "each is a whole number from 1 to max_train_batch_size, %lld",
                          (long long)settings->max_train_batch_size);
            return;
        }
        settings->micro_batch_sizes[settings->micro_count++] = size;
    }
}

static void check_elasticity(ce_json *doc, ce_elasticity *settings)
{
    if (settings->max_train_batch_size < 1)
        ce_json_fault(doc, "elasticity", "\"max_train_batch_size\" is missing");
    else if (!settings->micro_batch_sizes_json)
        ce_json_fault(doc, "elasticity", "\"micro_batch_sizes\" is missing");
    else
        read_micros(doc, settings);
    if (settings->version != 0.1 && settings->version != 0.2)
        ce_json_fault(doc, "elasticity.version", "0.1 or 0.2 is needed, not %g", settings->version);
    if (settings->max_gpus < settings->min_gpus)
        ce_json_fault(doc, "elasticity.max_gpus", "at least min_gpus, %lld, is needed", (long long)settings->min_gpus);
    if (settings->version == 0.2 && settings->num_gpus_per_node % settings->model_parallel_size != 0)
        ce_json_fault(doc, "elasticity.num_gpus_per_node", "%lld is not a multiple of model_parallel_size, %lld",
                      (long long)settings->num_gpus_per_node, (long long)settings->model_parallel_size);
}

/* The ranks of a model-parallel group are those of a lane. */
static void take_tp(cs_config *config, ce_elasticity *elastic)
{
    static const char path[] = "elasticity.model_parallel_size";
    int tp = config->settings.tp;
    if (ce_resolve_is_given(config, path) && elastic->model_parallel_size != tp)
        ce_json_fault(config->doc, path, "it says %lld, and cspeed.mesh.tp is %d: give both the same value",
                      (long long)elastic->model_parallel_size, tp);
    elastic->model_parallel_size = tp;
}

cs_status ce_batches_read_elasticity(cs_config *config, int tp)
{
    ce_settings *s = &config->settings;
    s->tp = tp;
    ce_keys_fill(config->doc, ce_json_find(config->doc, "elasticity"), "elasticity", s, CE_KEYS(keys));
    if (s->elasticity.enabled && s->tp > 1)
        take_tp(config, &s->elasticity);
    if (s->elasticity.enabled)
        check_elasticity(config->doc, &s->elasticity);
    return ce_json_verdict(config->doc);
}

/* A scheduler that has chosen the world size passes its elasticity section in the environment. This function checks
 * that the file has the same values. */
static void compare_with_scheduler(cs_config *config)
{
    static const char *const names[] = { "max_train_batch_size", "micro_batch_sizes", "version" };
    const char *text = getenv("DEEPSPEED_ELASTICITY_CONFIG");
    json_t *theirs = text ? ce_json_strict(text, strlen(text)) : NULL;
    char path[64], shown[2][48];
    if (text && !theirs)
        ce_json_fault(config->doc, "elasticity",
                      "DEEPSPEED_ELASTICITY_CONFIG is in the environment and is not JSON: %s", cs_error());
    for (size_t i = 0; theirs && i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "elasticity.%s", names[i]);
        const json_t *their = json_object_get(theirs, names[i]), *our = ce_json_find(config->doc, path);
        bool same = json_is_number(their) && our ? json_number_value(their) == json_number_value(our)
                                                 : !their || json_equal(their, our);
        if (!same)
            ce_json_fault(config->doc, "elasticity", "%s is %s here and %s in DEEPSPEED_ELASTICITY_CONFIG", names[i],
                          ce_json_show(our, shown[0], sizeof shown[0]), ce_json_show(their, shown[1], sizeof shown[1]));
    }
    json_decref(theirs);
}

static bool may_override(cs_config *config)
{
    bool may = true;
    for (int i = 0; i < SIZES && !config->settings.elasticity.ignore_non_elastic_batch_info; i++)
        if (ce_resolve_is_given(config, sizes[i])) {
            ce_json_fault(config->doc, sizes[i],
                          "elasticity chooses the batch sizes: leave this out, or set "
                          "elasticity.ignore_non_elastic_batch_info");
            may = false;
        }
    return may;
}

static void fault_world(cs_config *config, const ce_elasticity_plan *plan)
{
    char text[240] = "";
    size_t used = 0;
    for (int i = 0; i < plan->count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, " %lld", (long long)plan->worlds[i]);
    ce_json_fault(config->doc, "elasticity", "%d ranks cannot share a batch of %lld evenly; these can:%s",
                  config->world.size, (long long)plan->batch, text);
}

static void resolve_elasticity(cs_config *config)
{
    ce_settings *s = &config->settings;
    ce_elasticity *elastic = &s->elasticity;
    ce_elasticity_plan plan = { 0 };
    take_tp(config, elastic);
    check_elasticity(config->doc, elastic);
    compare_with_scheduler(config);
    if (!may_override(config) || ce_json_verdict(config->doc) != CS_OK)
        return;
    if (ce_elasticity_solve(&plan, elastic, config->world.size) != CS_OK)
        ce_json_fault(config->doc, "elasticity", "%s", cs_error());
    else if (!ce_elasticity_allows(&plan, config->world.size))
        fault_world(config, &plan);
    else {
        s->train_batch_size = plan.batch;
        s->micro_batch = ce_elasticity_micro(elastic, plan.batch, config->world.size);
        s->accumulation = plan.batch / (s->micro_batch * s->lanes);
        for (int i = 0; i < SIZES; i++)
            ce_json_mark(config->doc, sizes[i], "derived: elasticity");
    }
    ce_elasticity_free(&plan);
}

void ce_batches_resolve(cs_config *config)
{
    if (config->settings.elasticity.enabled)
        resolve_elasticity(config);
    else
        resolve_triangle(config);
}
