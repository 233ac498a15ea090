/* trace.h - records what a process does during chosen steps: spans of time with a name, for a Chrome trace.
 *
 * A process has one recorder. Any thread may record. Memory is allocated when the recorder is opened; spans that do not
 * fit are counted and dropped. While the recorder is off, a call costs one load from memory.
 *
 *     double began = ce_trace_begin();
 *     ...
 *     ce_trace_end(CE_TRACE_COMMUNICATION, "all_gather", unit->name, began); */
#ifndef CE_BASE_TRACE_H
#define CE_BASE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

/* The rows that a trace viewer draws for one rank; each span is drawn in one row. */
typedef enum { CE_TRACE_STEP, CE_TRACE_COMPUTE, CE_TRACE_COMMUNICATION, CE_TRACE_COPY } ce_trace_lane;

/* A span of time. The texts must stay valid as long as the recorder. */
typedef struct {
    ce_trace_lane lane;
    /* Name of the operation, and name of the model's unit, or "" if the span belongs to no unit. */
    const char *what, *unit;
    double began, ended; /* begin and end in seconds of ce_clock_seconds */
} ce_trace_span;

/* Opens the recorder with space for `spans` spans. Returns false if there is not enough memory. */
bool ce_trace_open(int64_t spans);
void ce_trace_close(void);
void ce_trace_switch(bool on);

double ce_trace_begin(void); /* returns the current time, or a negative number while the recorder is off */
void ce_trace_end(ce_trace_lane lane, const char *what, const char *unit, double began);

/* Returns the spans recorded so far, in the order in which they ended. No thread may record while the caller reads
 * them. */
const ce_trace_span *ce_trace_spans(int64_t *count, int64_t *dropped);

#endif
