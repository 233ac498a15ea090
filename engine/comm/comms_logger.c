/* comms_logger.c - statistics of collectives by operation and size, printed as the tables of DeepSpeed's
 * comms_logger. */
#include "comm/comms_logger.h"
#include "base/beat.h"
#include "base/must.h"
#include "base/rng.h"
#include "base/say.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPERATIONS = CE_BEAT_COUNT, KEPT = 512, SIZES = 256 };

#define NAME(constant, name, deepspeed) deepspeed,
static const char *const names[OPERATIONS] = { "", CE_BEATS(NAME) };

typedef struct {
    int operation;
    uint64_t bytes;
    int64_t count;
    double total, min, max; /* sum, minimum and maximum of the times of all calls, in milliseconds */
    float recent[KEPT];     /* times of the last calls in milliseconds; call i is at index i % KEPT */
} entry;

struct ce_comms_logger {
    ce_comms_logger_settings settings;
    int ranks, entry_count;
    int64_t omitted; /* number of calls with sizes for which the table had no space */
    entry entries[SIZES];
};

int ce_comms_logger_find(const char *name)
{
    for (int i = 1; i < OPERATIONS; i++)
        if (strcmp(name, names[i]) == 0 || strcmp(name, ce_beat_names[i]) == 0)
            return i;
    return 0;
}

ce_comms_logger *ce_comms_logger_new(const ce_comms_logger_settings *settings, int ranks)
{
    ce_comms_logger *logger = calloc(1, sizeof *logger);
    if (!logger)
        ce_fatal(CS_NO_MEMORY, "out of memory for the record of collectives");
    logger->settings = *settings;
    logger->ranks = ranks;
    return logger;
}

void ce_comms_logger_free(ce_comms_logger *logger)
{
    free(logger);
}

/* ---- bandwidth, as DeepSpeed counts it ---- */

typedef struct {
    double algorithm, bus; /* Gbit/s */
} bandwidth;

static bandwidth bandwidth_of(const ce_comms_logger *logger, const entry *e, double ms)
{
    double n = logger->ranks, bits = 8e-6 * (double)e->bytes / (ms > 0 ? ms : 1e-6), share = (n - 1) / n;
    switch (e->operation) {
    case CE_BEAT_ALL_REDUCE:
        return (bandwidth){ 2 * bits, 2 * bits * share };
    case CE_BEAT_REDUCE_SCATTER:
    case CE_BEAT_ALL_GATHER:
    case CE_BEAT_ALL_TO_ALL:
        return (bandwidth){ n * bits, n * bits * share };
    default:
        return (bandwidth){ bits, bits };
    }
}

typedef struct {
    char text[24];
} size_text;

static size_text show_size(uint64_t bytes)
{
    static const char *const units[] = { "B", "KB", "MB", "GB", "TB" };
    size_text shown;
    double size = (double)bytes;
    int unit = 0;
    for (; size >= 1024 && unit < 4; unit++)
        size /= 1024;
    if (bytes == 0)
        snprintf(shown.text, sizeof shown.text, "0B");
    else
        snprintf(shown.text, sizeof shown.text, "%.12s %s", ce_say_number(round(size * 100) / 100).text, units[unit]);
    return shown;
}

/* ---- recording ---- */

static entry *entry_of(ce_comms_logger *logger, int operation, uint64_t bytes)
{
    int at = logger->entry_count;
    for (int i = 0; i < logger->entry_count; i++)
        if (logger->entries[i].operation == operation && logger->entries[i].bytes == bytes)
            return &logger->entries[i];
    if (at == SIZES)
        return NULL;
    logger->entries[at] = (entry){ .operation = operation, .bytes = bytes, .min = (double)INFINITY };
    logger->entry_count++;
    return &logger->entries[at];
}

void ce_comms_logger_record(ce_comms_logger *logger, int operation, uint64_t bytes, double seconds)
{
    if (!logger || !(logger->settings.operations >> operation & 1))
        return;
    double ms = 1e3 * seconds;
    entry *e = entry_of(logger, operation, bytes);
    if (!e) {
        logger->omitted++;
        return;
    }
    e->recent[e->count++ % KEPT] = (float)ms;
    e->total += ms;
    e->min = fmin(e->min, ms);
    e->max = fmax(e->max, ms);
    if (!logger->settings.verbose)
        return;
    bandwidth speed = bandwidth_of(logger, e, ms);
    CE_SAY_LOGGED("comm op: %s | time (ms): %.2f | msg size: %s | algbw (Gbps): %.2f | busbw (Gbps): %.2f ",
                  names[operation], ms, show_size(bytes).text, speed.algorithm, speed.bus);
}

/* ---- the tables ---- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int recent_count(const entry *e)
{
    return (int)(e->count < KEPT ? e->count : KEPT);
}

/* Returns the mean of the values without the lowest tenth and the highest tenth. It sorts `values`. */
static double trimmed_mean(double *values, int count)
{
    int cut = count / 10;
    double sum = 0;
    qsort(values, (size_t)count, sizeof *values, by_value);
    for (int i = cut; i < count - cut; i++)
        sum += values[i];
    return sum / (count - 2 * cut);
}

static void print_entry(const ce_comms_logger *logger, const entry *e)
{
    double latency[KEPT], algorithm[KEPT], bus[KEPT];
    int count = recent_count(e);
    for (int i = 0; i < count; i++) {
        bandwidth speed = bandwidth_of(logger, e, (double)e->recent[i]);
        latency[i] = (double)e->recent[i];
        algorithm[i] = speed.algorithm;
        bus[i] = speed.bus;
    }
    ce_say("%-20s%-20s%-20lld%-20.2f%-20.2f%-20.2f%-20.2f%-20.2f%-20.2f", "", show_size(e->bytes).text,
           (long long)e->count, e->total, trimmed_mean(latency, count), trimmed_mean(algorithm, count),
           trimmed_mean(bus, count), e->min, e->max);
}

static int by_size(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->operation != y->operation)
        return x->operation - y->operation;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static void print_name(const ce_comms_logger *logger, int i)
{
    if (i == 0 || logger->entries[i - 1].operation != logger->entries[i].operation)
        ce_say("%s", names[logger->entries[i].operation]);
}

/* Returns the number of entries of collectives, in which all ranks take part. They come first in the sorted list; the
 * entries of sends and receives, which concern two ranks only, follow. */
static int collective_count(const ce_comms_logger *logger)
{
    int count = 0;
    while (count < logger->entry_count && logger->entries[count].operation < CE_BEAT_SEND)
        count++;
    return count;
}

/* Returns true if all ranks have recorded the same collectives. Otherwise the table of waiting times, which compares
 * the ranks' collectives one by one, cannot be made. */
static bool ranks_agree(const ce_comms_logger *logger, cs_comm *comm)
{
    uint64_t sum = 0;
    for (int i = 0; i < collective_count(logger); i++)
        sum = ce_rng_mix(sum, (uint64_t)logger->entries[i].operation ^ logger->entries[i].bytes << 4) +
              (uint64_t)logger->entries[i].count;
    int64_t same[2] = { (int64_t)(sum >> 1), -(int64_t)(sum >> 1) };
    cs_comm_all_reduce(comm, same, 2, CS_I64, CS_MIN);
    return same[0] == -same[1];
}

static void print_waits(const entry *e, const float *min)
{
    double latency[KEPT], waited[KEPT], all = 0, lost = 0;
    int count = recent_count(e);
    for (int i = 0; i < count; i++) {
        latency[i] = (double)min[i];
        waited[i] = (double)e->recent[i] - latency[i];
        all += latency[i];
        lost += waited[i];
    }
    ce_say("%-20s%-20s%-20d%-20.2f%-20.2f%-20.2f%-20.2f", "", show_size(e->bytes).text, count, all, lost,
           trimmed_mean(latency, count), trimmed_mean(waited, count));
}

/* Prints on rank 0 how long rank 0 waited for other ranks. The time of the fastest rank counts as the time of the
 * collective. The waiting time is the time of rank 0 minus the time of the fastest rank. */
static void print_straggler(ce_comms_logger *logger, cs_comm *comm)
{
    if (!ranks_agree(logger, comm))
        return;
    float(*min)[KEPT] = calloc(SIZES, sizeof *min);
    if (!min)
        ce_fatal(CS_NO_MEMORY, "out of memory for the table of stragglers");
    int count = collective_count(logger);
    for (int i = 0; i < count; i++)
        memcpy(min[i], logger->entries[i].recent, sizeof *min);
    cs_comm_all_reduce(comm, min, (int64_t)count * KEPT, CS_F32, CS_MIN);
    ce_say("_______________________________\nBreakdown with straggler effect\n-------------------------------");
    ce_say("%-20s%-20s%-20s%-20s%-20s%-20s%-20s", "Comm. Op", "Message Size", "Count", "Total comm lat(ms)",
           "Total straggler(ms)", "Avg comm lat(ms)", "Avg straggler(ms)");
    for (int i = 0; i < count; i++) {
        print_name(logger, i);
        print_waits(&logger->entries[i], min[i]);
    }
    free(min);
}

void ce_comms_logger_print(ce_comms_logger *logger, cs_comm *comm)
{
    uint32_t operations = logger->settings.operations;
    qsort(logger->entries, (size_t)logger->entry_count, sizeof *logger->entries, by_size);
    ce_say("%-20s%-20s%-20s%-20s%-20s%-20s%-20s%-20s%-20s", "Comm. Op", "Message Size", "Count", "Total Latency(ms)",
           "Avg Latency(ms)", "tput_avg (Gbps)", "busbw_avg (Gbps)", "Min Latency(ms)", "Max Latency(ms)");
    for (int i = 0; i < logger->entry_count; i++) {
        print_name(logger, i);
        print_entry(logger, &logger->entries[i]);
    }
    if (logger->omitted)
        ce_say("%lld more calls, of sizes beyond the first %d", (long long)logger->omitted, SIZES);
    logger->settings.operations = 0; /* the collectives that print the table are not recorded */
    if (logger->ranks > 1)
        print_straggler(logger, comm);
    logger->settings.operations = operations;
}
