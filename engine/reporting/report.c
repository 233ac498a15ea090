/* report.c - the metrics of a step: DeepSpeed's log lines, monitor events, and the times in cs_metrics. */
#include "reporting/reporting.h"
#include "base/say.h"
#include "base/must.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINE = 4096, FIRST_TIMED = 3 }; /* The first two steps are warm-up and are not timed. */

cs_phase_seconds cs_phases(const cs_engine *engine)
{
    return engine->last_seconds;
}

cs_memory cs_memory_of(const cs_engine *engine)
{
    cs_memory memory = engine->memory;
    memory.workspace = ce_device_workspace(engine->device);
    return memory;
}

/* The groups of the mesh, whose collectives comms_logger records beside those of all ranks. Sets the comm of a group that
 * does not exist, or has this rank alone, to NULL. */
enum { GROUPS = 4 };
static void list_groups(const cs_engine *engine, cs_comm *groups[GROUPS])
{
    cs_comm *const all[GROUPS] = { engine->group, engine->across, engine->tp.comm, engine->copies.comm };
    for (int i = 0; i < GROUPS; i++)
        groups[i] = all[i] && cs_comm_size(all[i]) > 1 ? all[i] : NULL;
}

void cs_log_summary(cs_engine *engine)
{
    static const char *const titles[GROUPS] = {
        "inside the group of rank 0 (dp_shard):", "between the groups (dp_replicate):",
        "inside the tensor-parallel group of rank 0 (tp):", "between the copies of key heads of rank 0 (tp):"
    };
    cs_comm *groups[GROUPS];
    list_groups(engine, groups);
    ce_walk_settle(engine);
    ce_comm_log_summary(engine->comm);
    for (int i = 0; i < GROUPS && engine->settings->comms_logger.enabled; i++)
        if (groups[i]) {
            ce_say("%s", titles[i]);
            ce_comm_log_summary(groups[i]);
        }
}

/* ---- lines ---- */

/* Writes the momentum of one parameter group. If the group has neither betas nor SGD's momentum, writes 0.0, as
 * DeepSpeed does. */
static int put_momentum(char *text, size_t capacity, const cs_engine *engine, const ce_optim_settings *group)
{
    double betas[2] = { group->betas[0], group->betas[1] };
    int64_t update = engine->scheduled > 0 ? engine->scheduled - 1 : 0; /* number of the last completed update */
    if (!ce_optim_has_betas(group))
        return snprintf(text, capacity, "%s", ce_say_number(group->kind == CE_OPTIM_SGD ? group->momentum : 0).text);
    if (!engine->rate)
        ce_schedule_momentum(&engine->settings->schedule, update, &betas[0], &betas[1]);
    return snprintf(text, capacity, "[%s, %s]", ce_say_number(betas[0]).text, ce_say_number(betas[1]).text);
}

static void print_progress(const cs_engine *engine, double rate)
{
    const ce_groups *groups = &engine->settings->groups;
    char rates[LINE] = "", momenta[LINE] = "";
    int rates_used = 0, momenta_used = 0;
    for (int i = 0; i < groups->count; i++) {
        const char *comma = i ? ", " : "";
        rates_used += snprintf(rates + rates_used, sizeof rates - (size_t)rates_used, "%s%s", comma,
                               ce_say_number(rate * groups->group[i].ratio).text);
        momenta_used += snprintf(momenta + momenta_used, sizeof momenta - (size_t)momenta_used, "%s", comma);
        momenta_used += put_momentum(momenta + momenta_used, sizeof momenta - (size_t)momenta_used, engine,
                                     &groups->group[i].settings);
    }
    CE_SAY_LOGGED("step=%lld, skipped=%lld, lr=[%s], mom=[%s]", (long long)engine->metrics.step,
                  (long long)engine->metrics.skipped, rates, momenta);
}

static void print_throughput(const cs_engine *engine, double seconds)
{
    double batch = (double)engine->settings->train_batch_size, gb = ce_memory_report_held(engine) / (1 << 30);
    ce_number held = ce_say_number(round(100 * gb) / 100);
    CE_SAY_LOGGED("epoch=%lld/micro_step=%lld/global_step=%lld, RunningAvgSamplesPerSec=%s, CurrSamplesPerSec=%s, "
                  "MemAllocated=%sGB, MaxMemAllocated=%sGB",
                  (long long)engine->metrics.epoch, (long long)engine->reporting->timed_micros,
                  (long long)engine->reporting->timed_steps,
                  ce_say_number(batch * (double)(engine->reporting->timed_steps + 1 - FIRST_TIMED) /
                                engine->reporting->timed_seconds)
                      .text,
                  ce_say_number(batch / (seconds + 1e-6)).text, held.text, held.text);
}

static cs_phase_seconds subtract(const cs_phase_seconds *a, const cs_phase_seconds *b)
{
    return (cs_phase_seconds){ .forward = a->forward - b->forward,
                               .backward = a->backward - b->backward,
                               .step = a->step - b->step,
                               .reduce = a->reduce - b->reduce };
}

/* Prints the times of the phases. `suffix` is "" for the times of a whole step, and "_microstep" for the times of a
 * micro-batch. */
static void print_times(const cs_phase_seconds *t, const char *suffix)
{
    ce_say("time (ms) | fwd%s: %.2f | bwd%s: %.2f | bwd_inner%s: %.2f | bwd_allreduce%s: %.2f | step%s: %.2f", suffix,
           1e3 * t->forward, suffix, 1e3 * t->backward, suffix, 1e3 * (t->backward - t->reduce), suffix,
           1e3 * t->reduce, suffix, 1e3 * t->step);
}

static void print_optimizer_times(const cs_engine *engine)
{
    const cs_phase_seconds *t = &engine->seconds;
    if (engine->settings->stage == 1 || engine->settings->stage == 2)
        ce_say("time (ms) | optimizer_allgather: %.2f | optimizer_gradients: %.2f | optimizer_step: %.2f",
               1e3 * t->publish, 1e3 * t->gradients, 1e3 * t->update);
    else if (engine->settings->stage == 3)
        ce_say("time (ms) | optimizer_step: %.2f", 1e3 * t->update);
}

/* ---- files ---- */

/* Writes a number to the monitors, at the position that DeepSpeed gives its numbers: the number of samples so far. */
static void write_event(const cs_engine *engine, const char *name, double value)
{
    char tag[128];
    snprintf(tag, sizeof tag, "Train/Samples/%s", name);
    ce_monitor_write(engine->reporting->monitor, tag, value, engine->metrics.samples);
}

/* Writes the means of preference training, with TRL's names behind `before`. */
static void write_preference(const cs_engine *engine, const char *before, const cs_preference *p)
{
    const struct {
        const char *name;
        double value;
    } means[] = { { "rewards/chosen", p->chosen_reward }, { "rewards/rejected", p->rejected_reward },
                  { "rewards/accuracies", p->accuracy },  { "rewards/margins", p->margin },
                  { "logps/chosen", p->chosen_logp },     { "logps/rejected", p->rejected_logp } };
    char name[64];
    for (size_t i = 0; ce_preference_is_on(engine) && i < sizeof means / sizeof *means; i++) {
        snprintf(name, sizeof name, "%s%s", before, means[i].name);
        write_event(engine, name, means[i].value);
    }
}

static void write_expert_load(cs_engine *engine)
{
    cs_expert_load load = cs_expert_load_of(engine);
    if (load.layers == 0)
        return;
    write_event(engine, "experts/imbalance", load.imbalance);
    write_event(engine, "experts/imbalance_max", load.worst);
    write_event(engine, "experts/unused", (double)load.unused);
}

/* Writes DeepSpeed's numbers with DeepSpeed's names, and the others with their names in metrics.jsonl. */
static void write_events(cs_engine *engine)
{
    const cs_metrics *metrics = &engine->metrics;
    const cs_phase_seconds *t = &engine->seconds;
    bool times = engine->settings->wall_clock_breakdown;
    const struct {
        const char *name;
        double value;
        bool wanted;
    } events[] = {
        { "train_loss", metrics->loss, true },
        { "lr", metrics->learning_rate, true },
        { "loss_scale", metrics->loss_scale, engine->settings->precision.scaled },
        { "elapsed_time_ms_forward", 1e3 * t->forward, times },
        { "elapsed_time_ms_backward", 1e3 * t->backward, times },
        { "elapsed_time_ms_backward_inner", 1e3 * (t->backward - t->reduce), times },
        { "elapsed_time_ms_backward_allreduce", 1e3 * t->reduce, times },
        { "elapsed_time_ms_step", 1e3 * t->step, times },
        { "epoch", metrics->epoch, true },
        { "grad_norm", metrics->grad_norm, true },
        { "skipped", (double)metrics->skipped, true },
        { "tokens", (double)metrics->tokens, true },
        { "tokens_per_s", metrics->tokens_per_second, true },
        { "step_ms", 1e3 * metrics->step_seconds, true },
        { "peak_share", metrics->peak_share, true },
    };
    if (!engine->reporting->monitor)
        return;
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i].wanted)
            write_event(engine, events[i].name, events[i].value);
    write_preference(engine, "", &metrics->preference);
    write_expert_load(engine);
    ce_monitor_flush(engine->reporting->monitor);
}

void cs_write_scores(cs_engine *engine, const cs_scores *scores)
{
    ce_step_settle(engine);
    if (!engine->reporting->monitor)
        return;
    write_event(engine, "valid_loss", scores->loss);
    write_preference(engine, "valid_", &scores->preference);
    ce_monitor_flush(engine->reporting->monitor);
}

/* ---- the engine's calls ---- */

cs_status ce_report_open(cs_engine *engine)
{
    const ce_settings *settings = engine->settings;
    cs_comm *groups[GROUPS];
    list_groups(engine, groups);
    engine->reporting = ce_must_alloc(sizeof *engine->reporting);
    ce_comm_record(engine->comm, &settings->comms_logger);
    for (int i = 0; i < GROUPS; i++)
        if (groups[i])
            ce_comm_record(groups[i], &settings->comms_logger);
    CE_TRY(ce_trace_file_open(engine));
    if (engine->world.rank != 0)
        return CS_OK;
    ce_monitor_open(&engine->reporting->monitor, &settings->csv, &settings->tensorboard);
    ce_profile_open(engine);
    ce_dump_engine(engine);
    if (settings->steps_per_print > 0)
        print_progress(engine, ce_schedule_rate(&settings->schedule, 0));
    return CS_OK;
}

void ce_report_close(cs_engine *engine)
{
    if (!engine->reporting)
        return;
    ce_finite_close(engine);
    ce_trace_file_close(engine);
    ce_profile_close(engine);
    ce_monitor_close(engine->reporting->monitor);
    free(engine->reporting);
}

/* Reports a micro-batch. */
static void report_micro(cs_engine *engine)
{
    cs_phase_seconds since = subtract(&engine->seconds, &engine->reporting->micro_before);
    engine->reporting->micro_before = engine->seconds;
    engine->reporting->timed_micros++;
    if (engine->settings->wall_clock_breakdown)
        print_times(&since, "_microstep");
    if (engine->micro > 0)
        ce_memory_report_print(engine, "Engine after step");
}

static bool print_is_due(const cs_engine *engine)
{
    int64_t every = engine->settings->steps_per_print;
    return every > 0 && engine->metrics.step % every == 0;
}

static void print_lines(cs_engine *engine)
{
    const ce_settings *settings = engine->settings;
    double seconds = engine->seconds.forward + engine->seconds.backward + engine->seconds.step;
    bool due = print_is_due(engine);
    engine->reporting->timed_steps++;
    if (engine->reporting->timed_steps >= FIRST_TIMED)
        engine->reporting->timed_seconds += seconds;
    if (due)
        print_progress(engine, engine->metrics.learning_rate);
    if (settings->wall_clock_breakdown)
        print_optimizer_times(engine);
    report_micro(engine);
    if (settings->wall_clock_breakdown)
        print_times(&engine->seconds, "");
    if (due && settings->throughput && engine->reporting->timed_steps >= FIRST_TIMED)
        print_throughput(engine, seconds);
    ce_memory_report_print(engine, "Engine after step");
    engine->reporting->micro_before = (cs_phase_seconds){ 0 };
}

/* Reports a step. The time of a step begins at the end of the previous step, so it includes the program's own work. If
 * anything is printed or written, this function waits for the step's numbers. */
static void report_step(cs_engine *engine)
{
    cs_metrics *metrics = &engine->metrics;
    double now = ce_clock_seconds(), flops = ce_device_flops(engine->device);
    double rows = (double)(cs_rows(engine->loss_rows) * engine->settings->accumulation * ce_mesh_lanes(&engine->mesh));
    cs_dtype products = engine->zero.precision.products;
    /* At its first call, ce_device_roof measures the device's greatest rate. */
    ce_device_roof(engine->device, products);
    metrics->step_seconds = now - engine->started;
    double reached = (flops - engine->flops_before) / metrics->step_seconds;
    double roof = ce_device_raise_roof(engine->device, products, reached);
    metrics->tokens_per_second = rows / metrics->step_seconds;
    metrics->peak_share = roof > 0 ? reached / roof : 0;
    metrics->epoch = engine->windows ? (double)metrics->samples / (double)engine->windows : 0;
    engine->started = ce_clock_seconds();
    engine->flops_before = flops;
    if (engine->reporting->monitor || print_is_due(engine) || engine->settings->wall_clock_breakdown)
        ce_step_settle(engine);
    write_events(engine);
    print_lines(engine);
    ce_profile_print(engine);
}

/* ---- the points of a step ---- */

static void begin_phase(cs_engine *engine, ce_phase phase)
{
    static const char *const moments[] = { [CE_FORWARD] = "Engine before forward",
                                           [CE_BACKWARD] = "Engine before backward",
                                           [CE_STEP] = "Engine before step",
                                           [CE_EVALUATE] = NULL };
    if (moments[phase])
        ce_memory_report_print(engine, moments[phase]);
    if (phase == CE_FORWARD && engine->micro == 0)
        ce_trace_file_begin_step(engine);
    if (phase == CE_FORWARD)
        ce_profile_start(engine);
}

static void end_phase(cs_engine *engine, ce_phase phase)
{
    if (phase == CE_FORWARD)
        ce_profile_stop(engine);
    if (phase == CE_FORWARD || phase == CE_BACKWARD)
        ce_memory_report_print(engine, phase == CE_FORWARD ? "Engine after forward" : "Engine after backward");
    if (phase != CE_STEP)
        return;
    if (engine->micro > 0) {
        report_micro(engine);
        return;
    }
    report_step(engine);
    ce_trace_file_end_step(engine);
}

const ce_observer ce_report_observer = {
    .phase_begin = begin_phase, .phase_end = end_phase, .unit_enter = ce_profile_enter, .unit_leave = ce_profile_leave
};
