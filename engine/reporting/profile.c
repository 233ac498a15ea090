/* profile.c - flops_profiler: time and operations of one forward pass, unit by unit, in DeepSpeed's format.
 *
 * The device's operations count their own multiply-adds (device.h), so nothing is estimated from shapes. The profile is
 * that of the last micro-batch of the profiled step. */
#include "base/must.h"
#include "reporting/reporting.h"
#include "base/log.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    double seconds, flops, parameters;
} cost;

struct ce_profile {
    bool active;
    double entered, entered_flops;
    cost *units;
};

void ce_profile_open(cs_engine *engine)
{
    if (!engine->settings->profiler.enabled)
        return;
    engine->reporting->profile = ce_must_alloc(sizeof *engine->reporting->profile);
    engine->reporting->profile->units = ce_must_alloc((size_t)engine->model->count * sizeof(cost));
}

void ce_profile_close(cs_engine *engine)
{
    if (!engine->reporting->profile)
        return;
    free(engine->reporting->profile->units);
    free(engine->reporting->profile);
}

/* ---- measuring ---- */

/* Returns whether this step is profiled, which is the same on all ranks. */
static bool is_due(const cs_engine *engine)
{
    const ce_settings *settings = engine->settings;
    return settings->profiler.enabled && engine->metrics.step == settings->profiler.profile_step;
}

void ce_profile_start(cs_engine *engine)
{
    engine->uncaptured = is_due(engine);
    if (engine->reporting->profile)
        engine->reporting->profile->active = engine->uncaptured;
}

/* Returns the number of floating-point operations of forward since the device was opened. The last unit computes a part
 * of its gradients within forward. The operations for these gradients are not counted here, but their time is a part of
 * forward's time. */
static double forward_flops(const cs_engine *engine)
{
    return ce_device_flops(engine->device) - ce_device_gradient_flops(engine->device);
}

void ce_profile_enter(cs_engine *engine)
{
    ce_profile *profile = engine->reporting->profile;
    if (!profile || !profile->active)
        return;
    ce_stream_sync(ce_device_stream(engine->device, CE_COMPUTE));
    profile->entered_flops = forward_flops(engine);
    profile->entered = ce_clock_seconds();
}

static double length_of(const cs_unit *unit)
{
    double length = 0;
    for (; unit; unit = unit->store)
        length += (double)unit->length * (unit->bytes ? 2 : 1); /* a byte has two codes; absmax are counted too */
    return length;
}

void ce_profile_leave(cs_engine *engine, int i)
{
    ce_profile *profile = engine->reporting->profile;
    if (!profile || !profile->active)
        return;
    ce_stream_sync(ce_device_stream(engine->device, CE_COMPUTE));
    profile->units[i] = (cost){ ce_clock_seconds() - profile->entered, forward_flops(engine) - profile->entered_flops,
                                length_of(engine->model->units[i]) };
}

void ce_profile_stop(cs_engine *engine)
{
    if (engine->reporting->profile)
        engine->reporting->profile->active = false;
}

/* ---- numbers in DeepSpeed's format ---- */

typedef struct {
    char text[40];
} quantity;

static quantity count_of(double value, const char *unit)
{
    static const char *const prefixes[] = { "", "K", "M", "G", "T" };
    quantity shown;
    int prefix = 0;
    for (; value >= 1000 && prefix < 4; prefix++)
        value /= 1000;
    snprintf(shown.text, sizeof shown.text, "%.10g %s%s", round(value * 100) / 100, prefixes[prefix], unit);
    return shown;
}

static quantity time_of(double seconds)
{
    quantity shown;
    if (seconds > 1)
        snprintf(shown.text, sizeof shown.text, "%.10g s", round(seconds * 100) / 100);
    else if (seconds > 1e-3)
        snprintf(shown.text, sizeof shown.text, "%.10g ms", round(seconds * 1e5) / 100);
    else
        snprintf(shown.text, sizeof shown.text, "%.10g us", round(seconds * 1e8) / 100);
    return shown;
}

static double per(double value, double whole)
{
    return whole > 0 ? value / whole : 0;
}

/* ---- the first table ---- */

static void put(FILE *out, const char *label, quantity value)
{
    fprintf(out, "%-70s  %-8s\n", label, value.text);
}

static quantity plain(double value)
{
    quantity shown;
    snprintf(shown.text, sizeof shown.text, "%.10g", round(value * 100) / 100);
    return shown;
}

static void print_head(const cs_engine *engine, FILE *out, cost all)
{
    const ce_settings *settings = engine->settings;
    int lanes = ce_mesh_lanes(&engine->mesh), tp = engine->mesh.size[CE_AXIS_TP];
    const cs_phase_seconds *t = &engine->last_seconds;
    double share = 1.0 / (double)settings->accumulation, forward = t->forward * share, backward = t->backward * share;
    double iteration = forward + backward + t->step, factor = 2 + settings->profiler.recompute_factor;
    char label[96];
    fprintf(out,
            "\n-------------------------- DeepSpeed Flops Profiler --------------------------\n"
            "Profile Summary at step %lld:\n"
            "Notations:\n"
            "data parallel size (dp_size), model parallel size(mp_size),\n"
            "number of parameters (params), number of multiply-accumulate operations(MACs),\n"
            "number of floating-point operations (flops), floating-point operations per second (FLOPS),\n"
            "fwd latency (forward propagation latency), bwd latency (backward propagation latency),\n"
            "step (weights update latency), iter latency (sum of fwd, bwd and step latency)\n\n",
            (long long)settings->profiler.profile_step);
    put(out, "world size: ", plain(engine->world.size));
    put(out, "data parallel size: ", plain(lanes));
    put(out, "model parallel size: ", plain(tp));
    put(out, "batch size per GPU: ", plain((double)settings->micro_batch));
    put(out, "params per GPU: ", count_of(all.parameters, ""));
    put(out, "params of model = params per GPU * mp_size: ", count_of(all.parameters * tp, ""));
    put(out, "fwd MACs per GPU: ", count_of(all.flops / 2, "MACs"));
    put(out, "fwd flops per GPU: ", count_of(all.flops, ""));
    put(out, "fwd flops of model = fwd flops per GPU * mp_size: ", count_of(all.flops * tp, ""));
    put(out, "fwd latency: ", time_of(forward));
    put(out, "fwd FLOPS per GPU = fwd flops per GPU / fwd latency: ", count_of(per(all.flops, forward), "FLOPS"));
    put(out, "bwd latency: ", time_of(backward));
    snprintf(label, sizeof label, "bwd FLOPS per GPU = %g * fwd flops per GPU / bwd latency: ", factor);
    put(out, label, count_of(per(factor * all.flops, backward), "FLOPS"));
    snprintf(label, sizeof label, "fwd+bwd FLOPS per GPU = %g * fwd flops per GPU / (fwd+bwd latency): ", factor + 1);
    put(out, label, count_of(per((factor + 1) * all.flops, forward + backward), "FLOPS"));
    put(out, "step latency: ", time_of(t->step));
    put(out, "iter latency: ", time_of(iteration));
    snprintf(label, sizeof label, "FLOPS per GPU = %g * fwd flops per GPU / iter latency: ", factor + 1);
    put(out, label, count_of(per((factor + 1) * all.flops, iteration), "FLOPS"));
    put(out, "samples/second: ", plain(per((double)(settings->micro_batch * lanes), iteration)));
}

/* ---- the summary: kinds of unit, the most expensive first ---- */

typedef struct {
    const char *name;
    cost cost;
} kind_cost;

typedef enum { PARAMETERS, FLOPS, SECONDS } measure;

static double measured(const kind_cost *kind, measure what)
{
    return what == PARAMETERS ? kind->cost.parameters : what == FLOPS ? kind->cost.flops : kind->cost.seconds;
}

static quantity show(const kind_cost *kind, measure what)
{
    return what == PARAMETERS ? count_of(kind->cost.parameters, "")
           : what == FLOPS    ? count_of(kind->cost.flops / 2, "MACs")
                              : time_of(kind->cost.seconds);
}

/* Moves the `top` most expensive kinds of units to the front and prints them. */
static void print_top(FILE *out, const char *label, kind_cost *kinds, int count, int64_t top, measure what)
{
    fprintf(out, "    %s - {", label);
    for (int i = 0; i < count && i < top; i++) {
        int best = i;
        for (int k = i + 1; k < count; k++)
            if (measured(&kinds[k], what) > measured(&kinds[best], what))
                best = k;
        kind_cost first = kinds[best];
        kinds[best] = kinds[i];
        kinds[i] = first;
        fprintf(out, "%s'%s': '%s'", i ? ", " : "", first.name, show(&first, what).text);
    }
    fprintf(out, "}\n");
}

static void add(cost *sum, const cost *one)
{
    sum->seconds += one->seconds;
    sum->flops += one->flops;
    sum->parameters += one->parameters;
}

static int collect_kinds(const cs_engine *engine, kind_cost *kinds)
{
    int count = 0;
    for (int i = 0; i < engine->model->count; i++) {
        const char *name = engine->model->units[i]->kind->name;
        int at = 0;
        while (at < count && strcmp(kinds[at].name, name) != 0)
            at++;
        if (at == count)
            kinds[count++] = (kind_cost){ .name = name };
        add(&kinds[at].cost, &engine->reporting->profile->units[i]);
    }
    return count;
}

static void print_level(FILE *out, int depth, kind_cost *kinds, int count, int64_t top)
{
    fprintf(out, "depth %d:\n", depth);
    print_top(out, "params     ", kinds, count, top, PARAMETERS);
    print_top(out, "MACs       ", kinds, count, top, FLOPS);
    print_top(out, "fwd latency", kinds, count, top, SECONDS);
}

static void print_summary(const cs_engine *engine, FILE *out, cost all)
{
    int64_t depth = engine->settings->profiler.module_depth, top = engine->settings->profiler.top_modules;
    kind_cost model = { "model", all };
    CE_FREED kind_cost *kinds = ce_must_alloc((size_t)engine->model->count * sizeof *kinds);
    fprintf(out,
            "\n----------------------------- Aggregated Profile per GPU -----------------------------\n"
            "Top %lld modules in terms of params, MACs or fwd latency at different model depths:\n",
            (long long)top);
    print_level(out, 0, &model, 1, top);
    if (kinds && depth != 0)
        print_level(out, 1, kinds, collect_kinds(engine, kinds), top);
}

/* ---- details: every unit and its layers ---- */

static void print_cost(FILE *out, const cost *one, const cost *all)
{
    fprintf(out, "%s, %.2f%% Params, ", count_of(one->parameters, "").text,
            100 * per(one->parameters, all->parameters));
    fprintf(out, "%s, %.2f%% MACs, ", count_of(one->flops / 2, "MACs").text, 100 * per(one->flops, all->flops));
    fprintf(out, "%s, %.2f%% latency, ", time_of(one->seconds).text, 100 * per(one->seconds, all->seconds));
    fprintf(out, "%s, \n", count_of(per(one->flops, one->seconds), "FLOPS").text);
}

static size_t layer_length(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

/* Prints the layers of a unit. A layer is the parameters whose names are equal up to the last dot, such as
 * c_attn.weight and c_attn.bias. */
static void print_layers(FILE *out, const cs_unit *unit, double parameters)
{
    size_t above = strlen(unit->name);
    for (int i = 0; i < unit->entry_count;) {
        const char *name = unit->entries[i]->param.name;
        size_t length = layer_length(name);
        double held = 0;
        for (; i < unit->entry_count && layer_length(unit->entries[i]->param.name) == length &&
               strncmp(unit->entries[i]->param.name, name, length) == 0;
             i++)
            held += (double)unit->entries[i]->count;
        size_t inside = strncmp(name, unit->name, above) == 0 && name[above] == '.' ? above + 1 : 0;
        fprintf(out, "    (%.*s): %s, %.2f%% Params\n", (int)(length - inside), name + inside, count_of(held, "").text,
                100 * per(held, parameters));
    }
}

static void print_details(const cs_engine *engine, FILE *out, cost all)
{
    fprintf(out,
            "\n------------------------------ Detailed Profile per GPU ------------------------------\n"
            "Each module profile is listed after its name in the following order: \n"
            "params, percentage of total params, MACs, percentage of total MACs, fwd latency, percentage of total fwd "
            "latency, fwd FLOPS\n\nmodel(\n  ");
    print_cost(out, &all, &all);
    for (int i = 0; i < engine->model->count; i++) {
        const cs_unit *unit = engine->model->units[i];
        fprintf(out, "  (%s): %s(\n    ", *unit->name ? unit->name : unit->kind->name, unit->kind->name);
        print_cost(out, &engine->reporting->profile->units[i], &all);
        print_layers(out, unit, all.parameters);
        if (unit->store)
            print_layers(out, unit->store, all.parameters);
        fprintf(out, "  )\n");
    }
    fprintf(out, ")\n");
}

void ce_profile_print(cs_engine *engine)
{
    const char *path = engine->settings->profiler.output_file;
    cost all = { 0 };
    if (!engine->reporting->profile || engine->metrics.step != engine->settings->profiler.profile_step + 1)
        return;
    FILE *out = path ? fopen(path, "w") : stdout;
    if (!out) {
        ce_log(CE_LOG_WARNING, "flops_profiler.output_file: cannot write %s: %s; the profile is printed instead", path,
               strerror(errno));
        out = stdout;
    }
    for (int i = 0; i < engine->model->count; i++)
        add(&all, &engine->reporting->profile->units[i]);
    print_head(engine, out, all);
    print_summary(engine, out, all);
    if (engine->settings->profiler.detailed)
        print_details(engine, out, all);
    fprintf(out, "------------------------------------------------------------------------------\n");
    if (out != stdout)
        fclose(out);
    else
        fflush(out);
}
