/* monitor.h - writes training metrics to CSV files and TensorBoard event files.
 *
 *     ce_monitor_open(&monitor, &settings->csv, &settings->tensorboard);
 *     ce_monitor_write(monitor, "Train/Samples/lr", 1e-3, samples);
 *     ce_monitor_flush(monitor);
 *
 * The files are in output_path/job_name and are opened when the first number is written. Entries of an earlier run at
 * the position `at` of that number and later ones are removed (CSV) or marked as replaced (TensorBoard). If a file
 * cannot be written, one warning is logged, and nothing more is written in that format; training continues. Used only
 * by rank 0. */
#ifndef CS_MONITOR_MONITOR_H
#define CS_MONITOR_MONITOR_H

#include "base/status.h"

typedef struct {
    bool enabled;
    const char *output_path, *job_name; /* if "" or NULL, output_path is the working directory; if NULL, job_name is
                                         * "DeepSpeedJobName" */
} ce_monitor_settings;

typedef struct ce_monitor ce_monitor;

/* *monitor becomes NULL if neither format is enabled; the other functions accept NULL. CS_NO_MEMORY: there is not
 * enough memory. */
cs_status ce_monitor_open(ce_monitor **monitor, const ce_monitor_settings *csv, const ce_monitor_settings *tensorboard);
void ce_monitor_write(ce_monitor *monitor, const char *tag, double value, int64_t at);
void ce_monitor_flush(ce_monitor *monitor);
void ce_monitor_close(ce_monitor *monitor);

#endif
