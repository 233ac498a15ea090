/* shown.h - the consoles of a plan (show/output.h) with a pipe or a terminal that the test reads, and a clock that the
 * test sets. */
#ifndef CS_TESTS_SHOWN_H
#define CS_TESTS_SHOWN_H

#include "show/output.h"

#include <stdbool.h>
#include <stdint.h>

#define SHOWN_MILLISECOND INT64_C(1000000)
#define SHOWN_SECOND INT64_C(1000000000)

enum { SHOWN_BYTES = 1 << 20, SHOWN_RANKS = 4 };

extern cl_options shown_options;
extern cl_plan shown_plan;
extern cl_output shown_output;
extern char shown_text[SHOWN_BYTES];
extern int64_t shown_now; /* nanoseconds */

/* Makes a plan of `count` ranks on one node, or of two nodes with two ranks each. */
void shown_make_plan(int node_count, int count);
/* Opens the consoles while stdout and stderr are a pipe, or a terminal. Returns the result of cl_output_open. */
int shown_open(bool terminal);
/* Returns what has been shown since the last call, in shown_text. */
const char *shown_since(void);
const char *shown_close(void); /* finishes and closes; returns what was shown meanwhile */

void shown_feed(int rank, int which, const char *bytes); /* which: 0 stdout, 1 stderr */
void shown_reset(void);                                  /* options are empty, and the plan has four ranks */

#endif
