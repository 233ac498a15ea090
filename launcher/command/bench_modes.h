/* bench_modes.h - the command `cspeed bench modes`, which measures the modes of training. */
#ifndef CL_COMMAND_BENCH_MODES_H
#define CL_COMMAND_BENCH_MODES_H

/* Measures the modes of training. `arguments` has the words after "modes". Returns an exit code (codes.h). */
int cl_bench_modes(char **arguments);

#endif
