/* writer.h - the interface of a metrics file format, which only this folder uses. */
#ifndef CE_MONITOR_WRITER_H
#define CE_MONITOR_WRITER_H

#include "monitor/monitor.h"

/* The functions of a file format. A function that fails sets errno and returns false; after a failure only `close` is
 * called. */
typedef struct {
    const char *name; /* name of the format's section in the configuration */
    /* Opens the writer. `at` is the position (DeepSpeed's sample count) of the first value that will be written.
     * Returns the writer's own data, which `close` frees, or NULL with errno set. */
    void *(*open)(const char *folder, int64_t at);
    bool (*write)(void *private_data, const char *tag, double value, int64_t at);
    bool (*flush)(void *private_data);
    void (*close)(void *private_data);
} ce_writer;

extern const ce_writer ce_writer_csv, ce_writer_events;

#endif
