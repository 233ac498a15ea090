/* courses.c - the key tables of curriculum learning: DeepSpeed's section curriculum_learning, and the part of
 * data_efficiency that means the same. */
#include "config/resolve.h"
#include "config/rows.h"

#include <stdio.h>

#define INDEXED "all samples have one length, so that no index of difficulties is needed"

/* The rows that the two sections curriculum_learning and data_efficiency share. */
#define COURSE(course)                                                                                                           \
    SUPPORTED("min_difficulty", INT, course.min, "null", 1, MAX_EXACT, NULL,                                                     \
              "sequence length in tokens at the start of training"),                                                             \
        SUPPORTED("max_difficulty", INT, course.max, "null", 1, MAX_EXACT, NULL,                                                 \
                  "sequence length in tokens at the end of the curriculum; at most cspeed.data.seq_len"),                        \
        SUPPORTED(                                                                                                               \
            "schedule_type", CHOICE, course.schedule, "\"fixed_linear\"", 0, 0,                                                  \
            "fixed_linear|fixed_root|fixed_discrete|custom",                                                                     \
            "how the sequence length grows: linearly, as a root of the step, or by a list of lengths; custom is not supported"), \
        SECTION("schedule_config", "the keys of the schedule of the sequence length")
#define SCHEDULE(course)                                                                                               \
    SUPPORTED("total_curriculum_step", INT, course.total, "null", 1, MAX_EXACT, NULL,                                  \
              "number of updates after which the length is max_difficulty"),                                           \
        SUPPORTED("difficulty_step", INT, course.stride, "null", 1, MAX_EXACT, NULL,                                   \
                  "lengths are rounded down to multiples of this number of tokens; 8 or more is best for speed"),      \
        SUPPORTED("root_degree", NUMBER, course.degree, "null", 0, MAX_EXACT, NULL,                                    \
                  "for fixed_root: the length grows with the root of this degree of the step; 2: square root"),        \
        SUPPORTED("difficulty", JSON, course.stairs, "null", 0, 0, NULL,                                               \
                  "for fixed_discrete: list of the sequence lengths in tokens"),                                       \
        SUPPORTED("max_step", JSON, course.until, "null", 0, 0, NULL,                                                  \
                  "for fixed_discrete: list of the last update of each length, without the last length")

static const ce_key legacy[] = {
    SUPPORTED(
        "enabled", BOOL, course.enabled, "false", 0, 0, NULL,
        "curriculum learning: train on shorter sequences at first, which makes early steps faster and more stable"),
    REFUSED_UNLESS("curriculum_type", "\"seqlen\"", NULL,
                   "only sequence length is implemented as a measure of difficulty"),
    COURSE(course),
};
static const ce_key legacy_schedule[] = { SCHEDULE(course) };

static const ce_key efficiency[] = {
    SUPPORTED("enabled", BOOL, efficiency, "false", 0, 0, NULL, "true: this section is used; false: it is ignored"),
    INERT("seed", "1234", "cspeed.seed determines the order of samples"),
    SECTION("data_sampling", "curriculum learning by sequence length"),
    SECTION("data_routing", "random layerwise token dropping, which is not supported"),
};
static const ce_key sampling[] = {
    SUPPORTED("enabled", BOOL, sampling, "false", 0, 0, NULL, "true: this section is used; false: it is ignored"),
    INERT("num_epochs", "1000", "cspeed.steps or cspeed.epochs is the length of the training"),
    INERT("num_workers", "0", "samples are read directly from mapped files, without worker processes"),
    INERT("pin_memory", "false", "samples are read directly from mapped files, without worker processes"),
    SECTION("curriculum_learning", "curriculum learning: shorter sequences at first"),
    REFUSED("dynamic_batching", OFF, "a micro-batch always has the same number of samples"),
};
static const ce_key routing[] = {
    INERT("enabled", "false", "the section random_ltd has its own key enabled"),
    REFUSED("random_ltd", OFF, "tokens are never dropped: every layer computes every token"),
};
static const ce_key sampled[] = {
    SUPPORTED(
        "enabled", BOOL, metric.enabled, "false", 0, 0, NULL,
        "curriculum learning: train on shorter sequences at first, which makes early steps faster and more stable"),
    INERT("data_cluster_path", "null", INDEXED),
    SECTION("curriculum_metrics", "the measures of difficulty by name; only seqlen_truncate is supported"),
};
static const ce_key metrics[] = { SECTION("seqlen_truncate", "a sample is shortened to its first tokens") };
static const ce_key seqlen_truncate[] = {
    INERT("index_to_sample_path", "null", INDEXED),
    INERT("index_to_metric_path", "null", INDEXED),
    REFUSED("difficulty_type", "\"value\"",
            "percentiles need an index of the difficulties of all samples, which cspeed does not have"),
    REFUSED("clustering_type", "\"single_cluster\"", "samples are not sorted by difficulty"),
    COURSE(metric),
};
static const ce_key metric_schedule[] = { SCHEDULE(metric) };

#define SAMPLED "data_efficiency.data_sampling.curriculum_learning"
#define METRIC SAMPLED ".curriculum_metrics.seqlen_truncate"

const ce_section ce_courses_sections[] = {
    { "curriculum_learning", CE_KEYS(legacy) },
    { "curriculum_learning.schedule_config", CE_KEYS(legacy_schedule) },
    { "data_efficiency", CE_KEYS(efficiency) },
    { "data_efficiency.data_sampling", CE_KEYS(sampling) },
    { "data_efficiency.data_routing", CE_KEYS(routing) },
    { SAMPLED, CE_KEYS(sampled) },
    { SAMPLED ".curriculum_metrics", CE_KEYS(metrics) },
    { METRIC, CE_KEYS(seqlen_truncate) },
    { METRIC ".schedule_config", CE_KEYS(metric_schedule) },
};

/* ---- the schedule that the sections describe ---- */

enum { LINEAR, ROOT, DISCRETE, CUSTOM };

/* Reads a list of integers of at least 1. If `rising` is true, each must be greater than the one before. Returns the
 * length of the list, or -1 after an error. */
static int read_list(cs_config *config, const char *path, const json_t *list, int64_t *numbers, bool rising)
{
    size_t count = json_array_size(list);
    bool good = json_is_array(list) && count <= CE_DIFFICULTY_STAIRS;
    for (size_t i = 0; i < count && good; i++) {
        const json_t *value = json_array_get(list, i);
        good = json_is_integer(value) && json_integer_value(value) >= 1;
        if (good)
            numbers[i] = json_integer_value(value);
        good = good && (!rising || i == 0 || numbers[i] > numbers[i - 1]);
    }
    if (good)
        return (int)count;
    ce_json_fault(config->doc, path, "a list of at most %d %s whole numbers from 1 on is needed", CE_DIFFICULTY_STAIRS,
                  rising ? "rising" : "");
    return -1;
}

static void read_stairs(cs_config *config, const char *path, const ce_course *course)
{
    ce_difficulty *d = &config->settings.curriculum;
    char lengths[160], steps[160];
    snprintf(lengths, sizeof lengths, "%s.schedule_config.difficulty", path);
    snprintf(steps, sizeof steps, "%s.schedule_config.max_step", path);
    int limits = read_list(config, steps, course->until, d->until, true);
    d->count = read_list(config, lengths, course->stairs, d->stairs, false);
    if (d->count >= 0 && limits >= 0 && d->count != limits + 1)
        ce_json_fault(config->doc, lengths, "one length more than max_step has steps is needed: %d and %d are given",
                      d->count, limits);
    d->kind = CE_DIFFICULTY_STAIRCASE;
    d->max = 0;
    for (int i = 0; i < d->count; i++)
        d->max = d->stairs[i] > d->max ? d->stairs[i] : d->max;
}

static void read_root(cs_config *config, const char *path, const ce_course *course)
{
    bool linear = course->schedule == LINEAR;
    double degree = linear ? 1 : course->degree;
    char place[160];
    snprintf(place, sizeof place, "%s.schedule_config", path);
    if (course->total < 1 || course->stride < 1 || degree <= 0)
        ce_json_fault(config->doc, place, "total_curriculum_step%s difficulty_step%s are needed, above 0",
                      linear ? " and" : ",", linear ? "" : " and root_degree");
    else if (course->min < 1 || course->max < course->min)
        ce_json_fault(
            config->doc, path,
            "min_difficulty and max_difficulty are needed, and min_difficulty must not be above max_difficulty");
    else if (course->stride > course->min)
        ce_json_fault(config->doc, place,
                      "difficulty_step %lld is above min_difficulty %lld: rounded down, samples would have no token",
                      (long long)course->stride, (long long)course->min);
    else if (course->stride % 8)
        ce_json_note(
            config->doc, place,
            "difficulty_step %lld is not a multiple of 8, the length with which vector instructions are fastest",
            (long long)course->stride);
    config->settings.curriculum = (ce_difficulty){ .kind = CE_DIFFICULTY_ROOT,
                                                   .min = course->min,
                                                   .max = course->max,
                                                   .total = course->total,
                                                   .stride = course->stride,
                                                   .degree = degree };
}

void ce_courses_resolve(cs_config *config)
{
    ce_settings *s = &config->settings;
    bool other = s->efficiency && s->sampling && s->metric.enabled;
    const ce_course *course = s->course.enabled ? &s->course : &s->metric;
    const char *path = s->course.enabled ? "curriculum_learning" : METRIC;
    if (!s->course.enabled && !other)
        return;
    if (s->course.enabled && other)
        ce_json_fault(config->doc, "curriculum_learning", "given here and in data_efficiency: choose one");
    else if (course->schedule == CUSTOM)
        ce_json_fault(config->doc, path, "not supported: schedule_type custom, because it names a Python function");
    else if (course->schedule == DISCRETE)
        read_stairs(config, path, course);
    else
        read_root(config, path, course);
    if (s->curriculum.max > s->seq_len)
        ce_json_fault(config->doc, path,
                      "the curriculum ends with samples of %lld tokens, but cspeed.data.seq_len is %lld",
                      (long long)s->curriculum.max, (long long)s->seq_len);
}
