/* bench_modes.h - the command `cspeed bench modes`, which measures the modes of training. */
#ifndef CL_COMMAND_BENCH_MODES_H
#define CL_COMMAND_BENCH_MODES_H

#include <stddef.h>

/* Measures the modes of training. `arguments` has the words after "modes". Returns an exit code (codes.h). */
int cl_bench_modes(char **arguments);

/* The measured times of a mode. A training on D samples takes start + D / rate seconds. */
typedef struct {
    /* start: seconds of a training without its steps; rate: samples per second in its steps, above 0 */
    double start, rate;
} cl_bench_mode;

/* Writes a sentence into `text`: which of the modes dp and ddp needs less time for a training that reads each sample
 * once, and from which number of samples on. */
void cl_bench_modes_compare(char *text, size_t size, cl_bench_mode dp, cl_bench_mode ddp);

#endif
