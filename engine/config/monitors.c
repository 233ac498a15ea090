/* monitors.c - the key tables of logging, profiling, CSV and TensorBoard. */
#include "config/resolve.h"
#include "config/rows.h"

#define NO_CLIENT "cspeed has no client for this service; csv_monitor and tensorboard write the same metrics"
#define OF_CLIENT "it is an option of this service, which is not supported"
#define CALLER "it prints the calling Python function, and cspeed has none"

static const ce_key timers[] = { SECTION("throughput", "samples per second") };
static const ce_key throughput[] = {
    SUPPORTED("enabled", BOOL, throughput, "true", 0, 0, "auto",
              "print a line with RunningAvgSamplesPerSec every steps_per_print updates, from the third update on"),
    INERT("synchronized", "true", "a step is always timed from one update to the next"),
};

static const ce_key flops_profiler[] = {
    SUPPORTED("enabled", BOOL, profiler.enabled, "false", 0, 0, NULL,
              "true: print the time of each layer in one forward pass of rank 0; also sets wall_clock_breakdown"),
    SUPPORTED("profile_step", INT, profiler.profile_step, "1", 0, MAX_EXACT, NULL,
              "number of the update to profile, from 0"),
    SUPPORTED("module_depth", INT, profiler.module_depth, "-1", -1, MAX_EXACT, NULL,
              "deepest level of the summary: 0: the model; 1: its layers; -1: all levels"),
    SUPPORTED("top_modules", INT, profiler.top_modules, "1", 1, MAX_EXACT, NULL,
              "number of kinds of layers that are printed for each level of the summary"),
    SUPPORTED("detailed", BOOL, profiler.detailed, "true", 0, 0, NULL, "true: print every layer after the summary"),
    SUPPORTED("output_file", STRING, profiler.output_file, "null", 0, 0, NULL,
              "file for the profile; null: standard output"),
    SUPPORTED("recompute_fwd_factor", NUMBER, profiler.recompute_factor, "0.0", 0, INFINITY, NULL,
              "backward is counted as 2 + this number of forward passes; 1.0 with activation checkpointing"),
};

/* The rows of csv_monitor and of tensorboard. */
#define WRITER(field, does)                                                                                            \
    SUPPORTED("enabled", BOOL, field.enabled, "false", 0, 0, "auto", "true: " does),                                   \
        SUPPORTED("output_path", STRING, field.output_path, "", 0, 0, NULL,                                            \
                  "output folder; empty: the working directory"),                                                      \
        SUPPORTED("job_name", STRING, field.job_name, "DeepSpeedJobName", 0, 0, NULL,                                  \
                  "name of the run: the folder in output_path that is written")

static const ce_key csv_monitor[] = { WRITER(csv, "write a CSV file for each metric") };
static const ce_key tensorboard[] = { WRITER(tensorboard, "write event files, which TensorBoard displays") };

static const ce_key wandb[] = {
    REFUSED_UNLESS("enabled", "false", "0", NO_CLIENT),
    INERT_LIKE("group", "\"\"", OF_CLIENT),
    INERT_LIKE("team", "\"\"", OF_CLIENT),
    INERT_LIKE("project", "\"\"", OF_CLIENT),
};

static const ce_key comet[] = {
    REFUSED_UNLESS("enabled", "false", "0", NO_CLIENT),
    INERT("samples_log_interval", "100", OF_CLIENT),
    INERT_LIKE("project", "\"\"", OF_CLIENT),
    INERT_LIKE("workspace", "\"\"", OF_CLIENT),
    INERT_LIKE("api_key", "\"\"", OF_CLIENT),
    INERT_LIKE("experiment_name", "\"\"", OF_CLIENT),
    INERT_LIKE("experiment_key", "\"\"", OF_CLIENT),
    INERT_LIKE("online", "true", OF_CLIENT),
    INERT_LIKE("mode", "\"\"", OF_CLIENT),
};

static const ce_key comms_logger[] = {
    SUPPORTED(
        "enabled", BOOL, comms_logger.enabled, "false", 0, 0, "auto",
        "record the time of each collective and print a table at the end; on a GPU the host waits for each collective"),
    SUPPORTED("verbose", BOOL, comms_logger.verbose, "false", 0, 0, "auto",
              "true: rank 0 prints a line for each collective"),
    SUPPORTED("prof_all", BOOL, prof_all, "true", 0, 0, "auto",
              "true: record all collectives; false: only those of prof_ops"),
    INERT("debug", "false", CALLER),
    SUPPORTED("prof_ops", JSON, prof_ops, "[]", 0, 0, NULL, "names of the operations to record if prof_all is false"),
};

const ce_section ce_monitors_sections[] = {
    { "timers", CE_KEYS(timers) },
    { "timers.throughput", CE_KEYS(throughput) },
    { "flops_profiler", CE_KEYS(flops_profiler) },
    { "csv_monitor", CE_KEYS(csv_monitor) },
    { "tensorboard", CE_KEYS(tensorboard) },
    { "wandb", CE_KEYS(wandb) },
    { "comet", CE_KEYS(comet) },
    { "comms_logger", CE_KEYS(comms_logger) },
};

static uint32_t named_operations(cs_config *config)
{
    uint32_t operations = 0;
    const json_t *list = config->settings.prof_ops;
    if (list && !json_is_array(list))
        ce_json_fault(config->doc, "comms_logger.prof_ops", "a list of names is needed, as [\"all_reduce\"]");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        int operation = name ? ce_comms_logger_find(name) : 0;
        operations |= 1u << operation;
        if (!operation)
            ce_json_fault(config->doc, "comms_logger.prof_ops",
                          "all_reduce, reduce_scatter_tensor, all_gather_into_tensor, broadcast, barrier, send and "
                          "recv are known, not \"%s\"",
                          name ? name : "a value that is not a string");
    }
    return operations;
}

void ce_monitors_resolve(cs_config *config)
{
    ce_settings *s = &config->settings;
    if (s->profiler.enabled && !s->wall_clock_breakdown)
        ce_json_mark(config->doc, "wall_clock_breakdown", "derived: flops_profiler.enabled");
    s->wall_clock_breakdown |= s->profiler.enabled;
    if (s->steps_per_print == INT64_MAX) /* from the value Infinity: no step is printed */
        s->steps_per_print = 0;
    if (ce_json_is_set(config->doc, "comms_logger") && !ce_resolve_is_given(config, "comms_logger.enabled")) {
        s->comms_logger.enabled = true; /* The presence of the section enables the logger, as in DeepSpeed. */
        ce_json_mark(config->doc, "comms_logger.enabled", "derived: the section is present");
    }
    s->comms_logger.operations = named_operations(config);
    if (s->prof_all)
        s->comms_logger.operations = UINT32_MAX;
}
