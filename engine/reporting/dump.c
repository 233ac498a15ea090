/* dump.c - dump_state: prints the engine's sizes and the configuration at the start, in DeepSpeed's format. */
#include "reporting/reporting.h"
#include "base/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char dots[] = ".............................";

static void line(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void line(const char *name, const char *format, ...)
{
    char value[256];
    va_list arguments;
    size_t length = strlen(name) < sizeof dots - 1 ? strlen(name) : sizeof dots - 1;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    ce_say("  %s %s %s", name, dots + length, value);
}

static void memory_lines(const cs_engine *engine)
{
    cs_memory memory = cs_memory_of(engine);
    const struct {
        const char *name;
        size_t bytes;
    } parts[] = {
        { "bytes_values", memory.values },
        { "bytes_gradients", memory.gradients },
        { "bytes_masters", memory.masters },
        { "bytes_slots", memory.slots },
        { "bytes_offloaded", memory.offloaded },
        { "bytes_value_rows", memory.value_rows },
        { "bytes_gradient_rows", memory.gradient_rows },
        { "bytes_activations", memory.activations },
        { "bytes_workspace", memory.workspace },
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        line(parts[i].name, "%zu", parts[i].bytes);
}

void ce_dump_engine(const cs_engine *engine)
{
    const ce_settings *settings = engine->settings;
    if (!settings->dump_state)
        return;
    ce_say("DeepSpeedEngine:");
    line("comm_backend", "%s", cs_comm_kind(engine->comm));
    line("device", "%s", ce_device_describe(engine->device));
    line("dtype", "%s", cs_config_get_string(engine->config, "precision"));
    line("global_rank", "%d", engine->world.rank);
    line("global_steps", "%lld", (long long)engine->metrics.step);
    line("local_rank", "%d", engine->world.local_rank);
    line("loss_scale", "%s", ce_say_number(engine->scaler.scale).text);
    memory_lines(engine);
    line("optimizer", "%s", engine->zero.optimizer.name);
    line("parameters", "%lld", (long long)engine->model->parameters);
    line("sequence_length", "%lld", (long long)engine->length);
    line("units", "%d", engine->model->count);
    line("world_size", "%d", engine->world.size);
    line("zero_optimization_stage", "%d", (int)settings->stage);
    ce_say("DeepSpeedEngine configuration:\n  json = %s", engine->config->text);
}
