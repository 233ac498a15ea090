/* bench_modes.h - `cspeed bench modes`. */
#ifndef CL_COMMAND_BENCH_MODES_H
#define CL_COMMAND_BENCH_MODES_H

/* Measures the modes of training; `arguments` are those after "modes". Returns an exit code (codes.h). */
int cl_bench_modes(char **arguments);

#endif
