/* monitor.h - writes training metrics to CSV files and TensorBoard event files.
 *
 *     ce_monitor_open(&monitor, &settings->csv, &settings->tensorboard);
 *     ce_monitor_write(monitor, "Train/Samples/lr", 1e-3, samples);
 *     ce_monitor_flush(monitor);
 *
 * The last argument of ce_monitor_write is the position of the number, which is DeepSpeed's sample count. The files are
 * in output_path/job_name and are opened when the first number is written. If an earlier run has written entries at the
 * position of this number or later, these entries are removed (CSV) or marked as replaced (TensorBoard). If a file
 * cannot be written, one warning is logged, and nothing more is written in that format; training continues. Only rank 0
 * uses a monitor. */
#ifndef CE_MONITOR_MONITOR_H
#define CE_MONITOR_MONITOR_H

#include "base/status.h"

typedef struct {
    bool enabled;
    /* output_path: NULL or "" means the working directory. job_name: NULL means "DeepSpeedJobName". */
    const char *output_path, *job_name;
} ce_monitor_settings;

typedef struct ce_monitor ce_monitor;

/* Opens a monitor. *monitor becomes NULL if neither format is enabled; the other functions accept NULL. */
void ce_monitor_open(ce_monitor **monitor, const ce_monitor_settings *csv, const ce_monitor_settings *tensorboard);
void ce_monitor_write(ce_monitor *monitor, const char *tag, double value, int64_t at);
void ce_monitor_flush(ce_monitor *monitor);
void ce_monitor_close(ce_monitor *monitor);

#endif
