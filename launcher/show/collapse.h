/* collapse.h - lines on their way to a console: labelled, and with --console dedup the same line of several ranks once.
 *
 * A line waits up to 100 ms for others to say the same, or until all have. It joins an earlier one only where no line
 * of its own rank stands behind that, so the lines of a rank keep their order. Nothing is lost: a line that more than
 * one rank said ends with "(x8 identical)". */
#ifndef CL_COLLAPSE_H
#define CL_COLLAPSE_H

#include "show/console.h"
#include "show/label.h"

enum { CL_COLLAPSE_LINES = 256, CL_COLLAPSE_WORD = 12 };

/* A rank, as lines are labelled with it. */
typedef struct {
    const char *host;
    int rank, node;
    char rank_word[CL_COLLAPSE_WORD], local_word[CL_COLLAPSE_WORD], node_word[CL_COLLAPSE_WORD];
    uint64_t last[2]; /* one behind the last waiting line it is in, for each console */
} cl_speaker;

/* A line that waits, and who said it. */
typedef struct {
    char *text;
    size_t length;
    int which, count;
    const cl_speaker *first;
    bool several_hosts, several_nodes;
    bool *ranks; /* [rank_count] */
    int64_t due;
} cl_same;

typedef struct {
    cl_console *console;
    const cl_label_style *style;
    int index, rank_count; /* rank_count: how many may say the same; 1: nothing waits */
    int64_t printed;       /* when a rank's line last came */
    uint64_t first, next;  /* lines [first, next) wait, each at its number modulo CL_COLLAPSE_LINES */
    cl_same lines[CL_COLLAPSE_LINES];
} cl_collapse;

void cl_collapse_open(cl_collapse *collapse, cl_console *console, int index, const cl_label_style *style,
                      int rank_count);
void cl_collapse_close(cl_collapse *collapse); /* what waits is shown */

void cl_collapse_print(cl_collapse *collapse, cl_speaker *speaker, int which, const void *owner, const char *text,
                       size_t length, cl_console_end end, int64_t now);
void cl_collapse_redraw(cl_collapse *collapse, cl_speaker *speaker, int which, const void *owner, const char *text,
                        size_t length, int64_t now);

void cl_collapse_tick(cl_collapse *collapse, int64_t now); /* INT64_MAX: shows all that waits */
int64_t cl_collapse_due(const cl_collapse *collapse);

#endif
