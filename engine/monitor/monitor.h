/* monitor.h - numbers of a training on their way into files that other programs draw: CSV, TensorBoard's.
 *
 *     cs_monitor_open(&monitor, &settings->csv, &settings->tensorboard);
 *     cs_monitor_write(monitor, "Train/Samples/lr", 1e-3, samples);
 *     cs_monitor_flush(monitor);
 *
 * Files lie in output_path/job_name and are opened with the first number. What they hold from that position on, of a
 * run that went further before it was resumed, goes. A file that cannot be written is told once and given up; the
 * training goes on. One writer, rank 0. */
#ifndef CS_MONITOR_MONITOR_H
#define CS_MONITOR_MONITOR_H

#include "base/status.h"

typedef struct {
    bool enabled;
    const char *output_path, *job_name; /* "" or NULL: the working directory, "DeepSpeedJobName" */
} cs_monitor_settings;

typedef struct cs_monitor cs_monitor;

/* *monitor is NULL when neither is enabled; the other functions accept that. */
cs_status cs_monitor_open(cs_monitor **monitor, const cs_monitor_settings *csv, const cs_monitor_settings *tensorboard);
void cs_monitor_write(cs_monitor *monitor, const char *tag, double value, int64_t at);
void cs_monitor_flush(cs_monitor *monitor);
void cs_monitor_close(cs_monitor *monitor);

#endif
