/* events.c - writes TensorBoard event files. Each process writes one file, and TensorBoard merges the files in order of
 * time. A writer that is opened again writes a new file, because an incomplete record may end the file before it. */
#include "base/must.h"
#include "monitor/record.h"
#include "monitor/writer.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double wall_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool put(FILE *file, ce_record record)
{
    return fwrite(record.bytes, 1, record.count, file) == record.count;
}

static void *open_events(const char *folder, int64_t at)
{
    static atomic_int opened;
    char host[64] = "host";
    double time = wall_clock();
    gethostname(host, sizeof host - 1);
    CE_FREED char *path = ce_must_print("%s/events.out.tfevents.%010lld.%s.%d.%d", folder, (long long)time, host,
                                        (int)getpid(), atomic_fetch_add(&opened, 1));
    FILE *file = fopen(path, "ab");
    if (file && put(file, ce_record_version(time)) && put(file, ce_record_start(time, at)))
        return file;
    if (file)
        fclose(file);
    return NULL;
}

static bool write_events(void *file, const char *tag, double value, int64_t at)
{
    return put(file, ce_record_scalar(wall_clock(), at, tag, (float)value));
}

static bool flush_events(void *file)
{
    return fflush(file) == 0;
}

static void close_events(void *file)
{
    fclose(file);
}

const ce_writer ce_writer_events = { "tensorboard", open_events, write_events, flush_events, close_events };
