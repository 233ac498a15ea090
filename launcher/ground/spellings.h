/* spellings.h - checks and converts values of flags that need more than one step. Some of these flags are flags of
 * other launchers. */
#ifndef CL_SPELLINGS_H
#define CL_SPELLINGS_H

#include "ground/options.h"

/* Each function cl_spellings_*(field, flag, value) checks a value and stores the value in `field`. It returns 0, or
 * CL_CODE_USAGE with a message that begins with `flag`. In the first group, `field` points to a const char *. The
 * comment behind a function shows accepted values, separated by semicolons. Where -1 is accepted, it is DeepSpeed's
 * default: `field` is not changed, except that cl_spellings_devices stores "-1". */
int cl_spellings_nodes(void *field, const char *flag, const char *value);   /* N; MIN:MAX; -1          */
int cl_spellings_ranks(void *field, const char *flag, const char *value);   /* N; gpu; cpu; auto; -1   */
int cl_spellings_devices(void *field, const char *flag, const char *value); /* N; 0,1; auto; -1        */
int cl_spellings_node(void *field, const char *flag, const char *value);    /* N; auto; -1             */
int cl_spellings_signals(void *field, const char *flag, const char *value); /* USR1,USR2; none         */
int cl_spellings_codes(void *field, const char *flag, const char *value);   /* any; 1,75,137           */
int cl_spellings_size(void *field, const char *flag, const char *value);    /* 100M                    */
int cl_spellings_console(void *field, const char *flag, const char *value); /* all; dedup; first; none; 0,4-7 */
int cl_spellings_streams(void *field, const char *flag, const char *value); /* 0; 3; 0:1,1:2: local rank and streams */
int cl_spellings_color(void *field, const char *flag, const char *value);
int cl_spellings_job(void *field, const char *flag, const char *value);   /* characters allowed in a job id */
int cl_spellings_range(void *field, const char *flag, const char *value); /* 0,2-4; numbers must ascend */
/* stores "" as NULL, as DeepSpeed and torchrun do */
int cl_spellings_maybe(void *field, const char *flag, const char *value);

/* Returns the streams that a value of cl_spellings_streams names for a local rank: 1 for stdout plus 2 for stderr. `value`
 * may be NULL, which names none. */
unsigned cl_spellings_streams_of(const char *value, int local_rank);

/* In the second group, `field` points to another type, which the comment behind the function names. */
int cl_spellings_count(void *field, const char *flag, const char *value);  /* int; 0 or more, or -1 */
int cl_spellings_port(void *field, const char *flag, const char *value);   /* int */
int cl_spellings_signal(void *field, const char *flag, const char *value); /* int */
/* double, in seconds; accepts 90, 15m, 2h, 1d */
int cl_spellings_seconds(void *field, const char *flag, const char *value);

/* The following functions check a value and set several members of a cl_options. They are for the flags --launcher,
 * --bind, --numa_binding, --log_level, --enable_each_rank_log, --rdzv_endpoint and --rdzv_conf. */
int cl_spellings_launcher(void *options, const char *flag, const char *value);
int cl_spellings_bind(void *options, const char *flag, const char *value);
int cl_spellings_numa(void *options, const char *flag, const char *value);
int cl_spellings_level(void *options, const char *flag, const char *value);
int cl_spellings_rank_log(void *options, const char *flag, const char *value);
int cl_spellings_address(void *options, const char *flag, const char *value);
int cl_spellings_endpoint(void *options, const char *flag, const char *value);
int cl_spellings_conf(void *options, const char *flag, const char *value);

#endif
