/* label.h - what stands before a line: who said it, and when; or the whole line as a JSON object. */
#ifndef CL_LABEL_H
#define CL_LABEL_H

#include "plan/hostplan.h"

#include <stddef.h>

enum { CL_LABEL_BYTES = 1024, CL_LABEL_TEMPLATE_BYTES = 256 };

/* How lines of this job are labelled. */
typedef struct {
    const char *template; /* --prefix; "" with --no_prefix; NULL: the host, when there are several, and the rank */
    bool several_hosts, timestamps, json;
} cl_label_style;

/* Who speaks, in words, since a collapsed line has several speakers: "[0-7]". */
typedef struct {
    const char *host, *rank, *local_rank, *node;
    int which; /* 0: stdout, 1: stderr */
} cl_label;

/* 0, or CL_CODE_USAGE: --prefix has an unknown field, or is too long. */
int cl_label_choose(cl_label_style *style, const cl_plan *plan);

/* The prefix of a line that is said now; dimmed for a terminal with colours. */
void cl_label_print(const cl_label_style *style, const cl_label *label, bool dimmed, char text[CL_LABEL_BYTES]);

/* The line as a JSON object, malloc'ed; NULL without memory. `label` NULL: the launcher itself says it. `broken`: more
 * of the same line follows. */
char *cl_label_json(const cl_label *label, const char *text, size_t length, bool broken, size_t *bytes);

#endif
