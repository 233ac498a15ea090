/* spellings.h - Checks and converts values of flags that need more than one step, among them those of other
 * launchers. */
#ifndef CL_SPELLINGS_H
#define CL_SPELLINGS_H

#include "options.h"

/* Each function returns 0, or CL_CODE_USAGE with a message that begins with `flag`. */
int cl_spellings_nodes(const char *flag, const char *value);   /* N, MIN:MAX, -1          */
int cl_spellings_ranks(const char *flag, const char *value);   /* N, gpu, cpu, auto, -1   */
int cl_spellings_node(const char *flag, const char *value);    /* N, auto, -1             */
int cl_spellings_signals(const char *flag, const char *value); /* USR1,USR2; none         */
int cl_spellings_codes(const char *flag, const char *value);   /* any; 1,75,137           */
int cl_spellings_size(const char *flag, const char *value);    /* 100M                    */
int cl_spellings_console(const char *flag, const char *value); /* a mode, or ranks */
int cl_spellings_color(const char *flag, const char *value);
int cl_spellings_job(const char *flag, const char *value);   /* characters allowed in a job id */
int cl_spellings_range(const char *flag, const char *value); /* 0,2-4: ascending */

/* The following functions check a value and set the fields of `options` that it stands for: the flags --launcher,
 * --bind, --numa_binding, --log_format, --log_level, --enable_each_rank_log, --redirects, --rdzv_endpoint and
 * --rdzv_conf. */
int cl_spellings_launcher(cl_options *options, const char *flag, const char *value);
int cl_spellings_bind(cl_options *options, const char *flag, const char *value);
int cl_spellings_numa(cl_options *options, const char *flag, const char *value);
int cl_spellings_format(cl_options *options, const char *flag, const char *value);
int cl_spellings_level(cl_options *options, const char *flag, const char *value);
int cl_spellings_rank_log(cl_options *options, const char *flag, const char *value);
int cl_spellings_redirects(cl_options *options, const char *flag, const char *value);
int cl_spellings_endpoint(cl_options *options, const char *flag, const char *value);
int cl_spellings_conf(cl_options *options, const char *flag, const char *value);

/* Parse a whole number in [from, to], and a time such as 90, 15m, 2h or 1d in seconds; options.c uses them too. */
int cl_spellings_whole(const char *flag, const char *value, long from, long to, int *field);
int cl_spellings_seconds(const char *flag, const char *value, double *field);

#endif
