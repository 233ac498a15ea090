/* trace.c - cspeed.trace: writes a file in Chrome's trace format that shows what all ranks did in some steps. Perfetto
 * displays such files.
 *
 * The recorder (base/trace.h) is switched on for these steps. It records spans: the begin and the end of each
 * operation. After the last of these steps rank 0 collects the spans of all ranks and writes the file. Times are those
 * of the host. On a GPU, therefore, a span is the time in which the host launched the operations, unless
 * wall_clock_breakdown makes each phase wait. */
#include "reporting/reporting.h"
#include "base/log.h"
#include "base/must.h"
#include "base/plural.h"
#include "base/say.h"
#include "base/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PER_UNIT = 28, PER_MICRO = 64, MAX_SPANS = 4 << 20 };

struct ce_trace_file {
    int64_t first, last; /* first and the last step to record, counted from 1 */
    double origin;       /* moment, on this host's clock, that has the time 0 in the file */
    bool begun, done;
};

static const char *const lanes[] = { "step", "compute", "communication", "copy" };

/* Returns the number of spans for which to reserve memory. For each micro-batch this is PER_MICRO spans, and PER_UNIT
 * spans for each unit of the model. The sum over all recorded micro-batches is limited to MAX_SPANS. */
static int64_t spans_needed(const cs_engine *engine)
{
    int64_t micros = engine->settings->trace.steps * engine->settings->accumulation;
    int64_t spans = micros * (PER_MICRO + PER_UNIT * (int64_t)engine->model->count);
    return spans < MAX_SPANS ? spans : MAX_SPANS;
}

/* Returns the moment, on this host's clock, that has the time 0 in the file. All ranks use the same moment of rank 0.
 * Clocks of hosts begin at different times, so the moment is converted by means of the time of day. */
static double common_origin(cs_engine *engine)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t day = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
    double here = ce_clock_seconds();
    return here + 1e-9 * (double)(cs_agree(engine, day) - day);
}

cs_status ce_trace_file_open(cs_engine *engine)
{
    const ce_settings *settings = engine->settings;
    if (!settings->trace.file)
        return CS_OK;
    ce_trace_file *trace = engine->reporting->trace = ce_must_alloc(sizeof *trace);
    if (!ce_trace_open(spans_needed(engine)))
        return ce_fail(CS_NO_MEMORY, "out of memory for %" PRId64 " spans of cspeed.trace", spans_needed(engine));
    trace->first = settings->trace.first_step;
    trace->last = trace->first + settings->trace.steps - 1;
    trace->origin = common_origin(engine);
    return CS_OK;
}

void ce_trace_file_close(cs_engine *engine)
{
    if (!engine->reporting->trace)
        return;
    if (!engine->reporting->trace->done)
        ce_log(CE_LOG_WARNING,
               "cspeed.trace: nothing was written, because the training ended at step %" PRId64
               " and the steps to record are %" PRId64 " to %" PRId64,
               engine->metrics.step, engine->reporting->trace->first, engine->reporting->trace->last);
    ce_trace_close();
    free(engine->reporting->trace);
}

void ce_trace_file_begin_step(cs_engine *engine)
{
    ce_trace_file *trace = engine->reporting->trace;
    int64_t step = engine->metrics.step + 1; /* number of the step that begins now */
    if (!trace || trace->begun || step < trace->first || step > trace->last)
        return;
    trace->begun = true;
    ce_trace_switch(true);
}

/* ---- the file ---- */

/* Writes a text as a JSON string. Names of units come from models and may have any character. */
static void put_text(FILE *out, const char *text)
{
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text < ' ')
            fprintf(out, "\\u%04x", (unsigned)*text);
        else
            fputc(*text, out);
}

static void put_span(FILE *out, const cs_engine *engine, const ce_trace_span *span)
{
    fprintf(out, ",\n{\"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"cat\": \"%s\", \"name\": \"", engine->world.rank,
            (int)span->lane, lanes[span->lane]);
    put_text(out, span->what);
    if (*span->unit) {
        fputc(' ', out);
        put_text(out, span->unit);
    }
    fprintf(out, "\", \"ts\": %.3f, \"dur\": %.3f, \"args\": {\"unit\": \"",
            1e6 * (span->began - engine->reporting->trace->origin), 1e6 * (span->ended - span->began));
    put_text(out, span->unit);
    fputs("\"}}", out);
}

/* Returns the events of this rank as text; the caller frees this text. A comma stands before each event, except before
 * the first event of rank 0. */
static char *own_events(const cs_engine *engine)
{
    char *text = NULL;
    size_t length;
    int64_t count, dropped;
    const ce_trace_span *spans = ce_trace_spans(&count, &dropped);
    FILE *out = open_memstream(&text, &length);
    CE_ASSERT(out);
    fprintf(out, "%s{\"ph\": \"M\", \"pid\": %d, \"name\": \"process_name\", \"args\": {\"name\": \"rank %d\"}}",
            engine->world.rank ? ",\n" : "", engine->world.rank, engine->world.rank);
    for (size_t lane = 0; lane < sizeof lanes / sizeof *lanes; lane++)
        fprintf(out,
                ",\n{\"ph\": \"M\", \"pid\": %d, \"tid\": %zu, \"name\": \"thread_name\", "
                "\"args\": {\"name\": \"%s\"}}",
                engine->world.rank, lane, lanes[lane]);
    for (int64_t i = 0; i < count; i++)
        put_span(out, engine, &spans[i]);
    if (dropped)
        ce_log(CE_LOG_WARNING, "cspeed.trace: %" PRId64 " spans did not fit; record fewer steps", dropped);
    CE_ASSERT(fclose(out) == 0);
    return text;
}

static char *path_of(const ce_settings *settings)
{
    bool whole = *settings->trace.file == '/' || !settings->output;
    return ce_must_print("%s%s%s", whole ? "" : settings->output, whole ? "" : "/", settings->trace.file);
}

static void write_file(const cs_engine *engine, const char *events)
{
    CE_FREED char *path = path_of(engine->settings);
    FILE *file = fopen(path, "we");
    bool written = file && fprintf(file, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n%s\n]}\n", events) > 0;
    if (file && fclose(file) != 0)
        written = false;
    if (written)
        ce_say("wrote %s: steps %" PRId64 " to %" PRId64
               " of %d rank%s; https://ui.perfetto.dev and chrome://tracing show it",
               path, engine->reporting->trace->first, engine->reporting->trace->last, engine->world.size,
               ce_plural(engine->world.size));
    else
        ce_log(CE_LOG_WARNING, "cspeed.trace: %s: %s; the training goes on without it", path, strerror(errno));
}

void ce_trace_file_end_step(cs_engine *engine)
{
    ce_trace_file *trace = engine->reporting->trace;
    /* The next step begins here and not in cs_forward, because the program reads the batch of a step before
     * cs_forward. */
    ce_trace_file_begin_step(engine);
    if (!trace || !trace->begun || trace->done || engine->metrics.step < trace->last)
        return;
    /* ce_walk_settle waits until operations on other threads have recorded the ends of their spans. */
    ce_walk_settle(engine);
    ce_trace_switch(false);
    trace->done = true;
    CE_FREED char *own = own_events(engine);
    CE_FREED char *all = cs_gather(engine, own);
    if (all)
        write_file(engine, all);
}
