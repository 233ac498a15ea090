/* shown.h - consoles of a plan (show/output.h) whose output goes to a pipe or a terminal that the test reads, with a
 * clock that the test sets. */
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
extern int64_t shown_now; /* the clock, in nanoseconds */

/* Makes a plan of one node with `count` ranks, or of two nodes with two ranks each. */
void shown_make_plan(int node_count, int count);
/* Opens the consoles with a pipe or a terminal in place of stdout and stderr. Returns the result of cl_output_open. */
int shown_open(bool terminal);
/* Returns shown_text, which receives what was shown since the last call. */
const char *shown_since(void);
const char *shown_close(void); /* closes the consoles; returns what was shown since the last call */

void shown_feed(int rank, int which, const char *bytes); /* which: 0 is stdout, 1 is stderr */
void shown_reset(void);                                  /* clears the options and makes a plan of four ranks */

#endif
