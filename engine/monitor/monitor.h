/* monitor.h - writes training metrics to CSV files and TensorBoard event files.
 *
 *     cs_monitor_open(&monitor, &settings->csv, &settings->tensorboard);
 *     cs_monitor_write(monitor, "Train/Samples/lr", 1e-3, samples);
 *     cs_monitor_flush(monitor);
 *
 * The files are in output_path/job_name and are opened when the first number is written. If the run was resumed,
 * entries of the earlier run from that position on are removed. If a file cannot be written, one warning is logged and
 * the file is given up; training continues. Used only by rank 0. */
#ifndef CS_MONITOR_MONITOR_H
#define CS_MONITOR_MONITOR_H

#include "base/status.h"

typedef struct {
    bool enabled;
    const char *output_path, *job_name; /* "" or NULL: the working directory and "DeepSpeedJobName" */
} cs_monitor_settings;

typedef struct cs_monitor cs_monitor;

/* *monitor is NULL if neither is enabled; the other functions accept NULL. */
cs_status cs_monitor_open(cs_monitor **monitor, const cs_monitor_settings *csv, const cs_monitor_settings *tensorboard);
void cs_monitor_write(cs_monitor *monitor, const char *tag, double value, int64_t at);
void cs_monitor_flush(cs_monitor *monitor);
void cs_monitor_close(cs_monitor *monitor);

#endif
