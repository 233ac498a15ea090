/* monitor.c - writes training metrics to CSV and TensorBoard files. It creates the folders and calls the writers of the
 * two formats. A writer that fails is closed, and opened again at the next position. */
#include "monitor/writer.h"
#include "base/must.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const ce_writer *const writers[] = { &ce_writer_csv, &ce_writer_events };
enum { WRITERS = sizeof writers / sizeof *writers };

typedef struct {
    char *folder;       /* NULL if the format is not enabled */
    void *private_data; /* writer's own data, or NULL if the writer is not open */
    bool fails;         /* the last value could not be written */
    int64_t failed_at;  /* the position of that value */
    int64_t unflushed;  /* number of values since the last flush */
    int64_t lost; /* number of values that were not written, or perhaps not flushed, because the writer had failed */
} sink;

struct ce_monitor {
    sink sinks[WRITERS];
    int64_t at; /* the position of the last value */
};

static bool make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777); /* An error is ignored here: if the folder is missing, the last mkdir fails too. */
        *slash = '/';
    }
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

static void close_failed(sink *s, const ce_writer *writer, int64_t at)
{
    if (!s->fails)
        ce_log(CE_LOG_WARNING, "%s: cannot write in %s: %s; the next step tries again", writer->name, s->folder,
               strerror(errno));
    if (s->private_data)
        writer->close(s->private_data);
    s->private_data = NULL;
    s->lost += s->unflushed;
    s->unflushed = 0;
    s->fails = true;
    s->failed_at = at;
}

/* Writes the value. After a failure the values of the same position are not tried. */
static void write_value(sink *s, const ce_writer *writer, const char *tag, double value, int64_t at)
{
    bool waits = s->fails && s->failed_at == at;
    if (!waits && !s->private_data && make_folders(s->folder))
        s->private_data = writer->open(s->folder, at);
    bool written = !waits && s->private_data && writer->write(s->private_data, tag, value, at);
    s->lost += !written;
    s->unflushed += written;
    if (!written && !waits)
        close_failed(s, writer, at);
    if (written)
        s->fails = false;
}

static void prepare(sink *s, const ce_monitor_settings *settings)
{
    const char *path = settings->output_path ? settings->output_path : "", *job = settings->job_name;
    if (settings->enabled)
        s->folder = ce_must_print("%s%s%s", path, *path && path[strlen(path) - 1] != '/' ? "/" : "",
                                  job ? job : "DeepSpeedJobName");
}

void ce_monitor_open(ce_monitor **monitor, const ce_monitor_settings *csv, const ce_monitor_settings *tensorboard)
{
    *monitor = NULL;
    if (!csv->enabled && !tensorboard->enabled)
        return;
    *monitor = ce_must_alloc(sizeof **monitor);
    prepare(&(*monitor)->sinks[0], csv);
    prepare(&(*monitor)->sinks[1], tensorboard);
}

void ce_monitor_write(ce_monitor *monitor, const char *tag, double value, int64_t at)
{
    for (int i = 0; monitor && i < WRITERS; i++) {
        monitor->at = at;
        if (monitor->sinks[i].folder)
            write_value(&monitor->sinks[i], writers[i], tag, value, at);
    }
}

void ce_monitor_flush(ce_monitor *monitor)
{
    for (int i = 0; monitor && i < WRITERS; i++) {
        sink *s = &monitor->sinks[i];
        if (s->private_data && !writers[i]->flush(s->private_data))
            close_failed(s, writers[i], monitor->at);
        s->unflushed = 0;
    }
}

void ce_monitor_close(ce_monitor *monitor)
{
    if (!monitor)
        return;
    ce_monitor_flush(monitor);
    for (int i = 0; i < WRITERS; i++) {
        if (monitor->sinks[i].private_data)
            writers[i]->close(monitor->sinks[i].private_data);
        if (monitor->sinks[i].lost > 0)
            ce_log(CE_LOG_WARNING, "%s: values are missing in %s, up to %lld: they could not be written",
                   writers[i]->name, monitor->sinks[i].folder, (long long)monitor->sinks[i].lost);
        free(monitor->sinks[i].folder);
    }
    free(monitor);
}
