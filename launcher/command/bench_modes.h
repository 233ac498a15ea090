/* bench_modes.h - the command `cspeed bench modes`, which measures the modes of training. */
#ifndef CL_COMMAND_BENCH_MODES_H
#define CL_COMMAND_BENCH_MODES_H

#include <stddef.h>

/* Measures the modes of training. `arguments` has the words after "modes". Returns an exit code (codes.h). */
int cl_bench_modes(char **arguments);

/* What was measured of a mode. A pass over D samples takes start + D / rate seconds. */
typedef struct {
    double start, rate; /* seconds of a training beside its steps; samples in a second of its steps, more than 0 */
} cl_bench_mode;

/* Writes into `text` which of the modes dp and ddp makes a pass in less time, and from how many samples on. */
void cl_bench_modes_compare(char *text, size_t size, cl_bench_mode dp, cl_bench_mode ddp);

#endif
