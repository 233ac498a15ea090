/* trace.c - the recorder of spans: a fixed array, in which each span takes the next free element. */
#include "base/trace.h"

#include "base/clock.h"

#include <stdatomic.h>
#include <stdlib.h>

static ce_trace_span *list;
static int64_t capacity;
static _Atomic int64_t taken;
static _Atomic bool recording;

bool ce_trace_open(int64_t spans)
{
    ce_trace_close();
    list = calloc((size_t)spans, sizeof *list);
    capacity = list ? spans : 0;
    return list != NULL;
}

void ce_trace_close(void)
{
    atomic_store(&recording, false);
    atomic_store(&taken, 0);
    free(list);
    list = NULL;
    capacity = 0;
}

void ce_trace_switch(bool on)
{
    atomic_store(&recording, on && list);
}

double ce_trace_begin(void)
{
    return atomic_load_explicit(&recording, memory_order_relaxed) ? ce_clock_seconds() : -1;
}

void ce_trace_end(ce_trace_lane lane, const char *what, const char *unit, double began)
{
    if (began < 0 || !atomic_load_explicit(&recording, memory_order_relaxed))
        return;
    int64_t place = atomic_fetch_add(&taken, 1);
    if (place < capacity)
        list[place] = (ce_trace_span){ lane, what, unit, began, ce_clock_seconds() };
}

const ce_trace_span *ce_trace_spans(int64_t *count, int64_t *dropped)
{
    int64_t all = atomic_load(&taken);
    *count = all < capacity ? all : capacity;
    *dropped = all - *count;
    return list;
}
