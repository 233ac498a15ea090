/* rank_position.c - the position of a rank (step, unit and collective), from its progress records. */
#include "front/rank_position.h"

#include "ground/codes.h"
#include "ground/ranges.h"

#include "base/beat.h"
#include "base/faults.h"
#include "base/must.h"
#include "base/plural.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Records that a rank sends while it is being ended have no meaning. For such a rank, the last earlier record is
 * returned, if there is one. */
const cl_link_beat *cl_rank_position_beat(const cl_worker *worker)
{
    bool before = worker->state != CL_WORKER_ENDED || (worker->end.stopped && worker->beat_at);
    return before ? &worker->beat : &worker->end.beat;
}

bool cl_rank_position_is_known(const cl_worker *worker)
{
    return (worker->state == CL_WORKER_ENDED || worker->beat_at) && cl_rank_position_beat(worker)->age >= 0;
}

static void add(char text[CL_RANK_POSITION_BYTES], const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(char text[CL_RANK_POSITION_BYTES], const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, CL_RANK_POSITION_BYTES - used, format, arguments);
    va_end(arguments);
}

bool cl_rank_position_waits(const cl_worker *worker, char text[CL_RANK_POSITION_BYTES])
{
    *text = '\0';
    for (int axis = CE_BEAT_AXES - 1; axis >= 0 && cl_rank_position_is_known(worker); axis--) {
        int index = cl_rank_position_beat(worker)->collectives[axis];
        if (index > CE_BEAT_NONE && index < CE_BEAT_COUNT)
            add(text, "%s%s%s%s%s", *text ? " and " : "", ce_beat_names[index], axis ? " (" : "", ce_beat_axes[axis],
                axis ? ")" : "");
    }
    return *text;
}

void cl_rank_position_work(const cl_worker *worker, char text[CL_RANK_POSITION_BYTES])
{
    const cl_link_beat *beat = cl_rank_position_beat(worker);
    char name[CE_BEAT_NAME];
    *text = '\0';
    if (!cl_rank_position_is_known(worker))
        return;
    snprintf(name, sizeof name, "%.*s", CE_BEAT_NAME - 1, beat->name);
    ce_faults_make_printable(name, "");
    if (beat->phase > CE_BEAT_NO_PHASE && beat->phase < CE_BEAT_PHASES)
        add(text, "%s", ce_beat_phases[beat->phase]);
    if (beat->unit > 0)
        add(text, "%sunit %d (%s)", *text ? " of " : "", beat->unit - 1, name);
    if (beat->micro > 0)
        add(text, ", micro-batch %d", beat->micro);
}

void cl_rank_position_print(const cl_worker *worker, char text[CL_RANK_POSITION_BYTES])
{
    char work[CL_RANK_POSITION_BYTES], collectives[CL_RANK_POSITION_BYTES];
    bool waits = cl_rank_position_waits(worker, collectives);
    cl_rank_position_work(worker, work);
    *text = '\0';
    if (cl_rank_position_is_known(worker))
        add(text, "step %ld%s%s%s%s", cl_rank_position_beat(worker)->step, *work ? ", " : "", work,
            waits ? ", waiting in " : "", collectives);
    else
        add(text, "not known");
}

int64_t cl_rank_position_age(const cl_worker *worker, int64_t now)
{
    const cl_link_beat *beat = cl_rank_position_beat(worker);
    return cl_rank_position_is_known(worker)
               ? beat->age + now - (beat == &worker->beat ? worker->beat_at : worker->ended)
               : -1;
}

/* Writes the position of a rank as text. Ranks with the same text share one row of the table. If `now` is not 0, the
 * text of a rank that has ended contains its exit code. */
static void describe(const cl_worker *worker, int64_t now, char text[CL_RANK_POSITION_BYTES])
{
    cl_rank_position_print(worker, text);
    if (now && worker->state == CL_WORKER_ENDED)
        add(text, "; ended with %d", cl_codes_of_status(worker->end.status));
}

void cl_rank_position_table(const cl_front *front, const char *lead, const char *indent, int without, int64_t now,
                            FILE *out)
{
    int count = front->worker_count;
    CE_FREED bool *told = calloc((size_t)count + 1, sizeof *told), *same = calloc((size_t)count + 1, sizeof *same);
    char text[CL_RANK_POSITION_BYTES], other[CL_RANK_POSITION_BYTES], list[CL_RANGES_BYTES];
    for (int rank = 0; told && same && rank < count; rank++) {
        if (rank == without || told[rank])
            continue;
        int members = 0;
        int64_t oldest = -1;
        describe(&front->workers[rank], now, text);
        for (int i = 0; i < count; i++) {
            describe(&front->workers[i], now, other);
            same[i] = i != without && strcmp(text, other) == 0;
            told[i] |= same[i];
            members += same[i];
            int64_t age = same[i] ? cl_rank_position_age(&front->workers[i], now) : -1;
            oldest = age > oldest ? age : oldest;
        }
        cl_ranges_print(same, count, list);
        fprintf(out, "%srank%s %s: %s", lead, ce_plural(members), list, text);
        lead = indent;
        if (now && oldest >= 0)
            fprintf(out, " (%ld s)", oldest / CE_SECOND);
        fputc('\n', out);
    }
}

const char *cl_rank_position_host(const cl_front *front, int rank)
{
    return front->nodes[front->workers[rank].node].host;
}

void cl_rank_position_name(const cl_front *front, int rank, FILE *out)
{
    const cl_worker *worker = &front->workers[rank];
    const cl_plan_node *place = &front->plan->nodes[worker->node];
    int local = rank - place->first_rank;
    fprintf(out, "rank %d (", rank);
    if (front->plan->node_count > 1 || !front->nodes[worker->node].here)
        fprintf(out, "%s, local %d, slot %d, ", cl_rank_position_host(front, rank), local, place->host->slots[local]);
    fprintf(out, "pid %d)", worker->pid);
}
