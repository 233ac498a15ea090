/* label.h - writes the prefix of an output line (rank, host, time), or the whole line as a JSON object. */
#ifndef CL_LABEL_H
#define CL_LABEL_H

#include "plan/hostplan.h"

#include <stddef.h>

enum { CL_LABEL_BYTES = 1024, CL_LABEL_TEMPLATE_BYTES = 256 };

/* How the lines of this job are labelled. */
typedef struct {
    /* The value of --prefix; "" with --no_prefix. If `template` is NULL, the prefix is "HOST:RANK| " in a job of
     * several hosts, and "RANK| " in a job of one host, in which rank 0 has no prefix. */
    const char *template;
    bool several_hosts, timestamps, json;
} cl_label_style;

/* Says which rank printed a line. If several ranks printed the line, `rank` is a list such as "[0-7]", `local_rank` is
 * "*", and `host` or `node` is "*" if it is not the same for all these ranks. */
typedef struct {
    const char *host, *rank, *local_rank, *node;
    int which; /* 0: the line comes from stdout; 1: it comes from stderr */
} cl_label;

/* Sets `style` from the options and the plan. Returns 0, or CL_CODE_USAGE if --prefix has an unknown field or is too
 * long. */
int cl_label_choose(cl_label_style *style, const cl_plan *plan);

/* Writes the prefix of a line that is printed now. If `dimmed` is true, the prefix is dimmed by escape sequences. */
void cl_label_print(const cl_label_style *style, const cl_label *label, bool dimmed, char text[CL_LABEL_BYTES]);

/* Returns the line as a malloc'ed JSON object, or NULL if memory is short. If `label` is NULL, the line comes from the
 * launcher itself and not from a rank. If `broken` is true, the next object continues the line. */
char *cl_label_json(const cl_label *label, const char *text, size_t length, bool broken, size_t *bytes);

#endif
