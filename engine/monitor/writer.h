/* writer.h - one sort of file a monitor writes; for the files of this room only. */
#ifndef CS_MONITOR_WRITER_H
#define CS_MONITOR_WRITER_H

#include "monitor/monitor.h"

/* Functions that return false leave the reason in errno, and are called no more but for close. */
typedef struct {
    const char *name;                              /* the section of the configuration */
    void *(*open)(const char *folder, int64_t at); /* the first number will stand at `at`; NULL: errno */
    bool (*write)(void *own, const char *tag, double value, int64_t at);
    bool (*flush)(void *own);
    void (*close)(void *own);
} cs_writer;

extern const cs_writer cs_writer_csv, cs_writer_events;

#endif
