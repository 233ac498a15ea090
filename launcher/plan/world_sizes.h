/* world_sizes.h - the world sizes that the program's configuration allows, by its section "elasticity" and its number
 * of tensor-parallel ranks. */
#ifndef CL_WORLD_SIZES_H
#define CL_WORLD_SIZES_H

#include <stdbool.h>

typedef struct {
    int *list; /* the world sizes that the section allows, ascending; NULL: every size */
    int count;
    int tp; /* the world size must be a multiple of this number; 0: any number */
} cl_world_sizes;

/* Returns the file that --config or --deepspeed_config names among a program's arguments; NULL: none. */
const char *cl_world_sizes_config(char **arguments);

/* Reads the file that --config or --deepspeed_config names among the program's arguments. arguments[0] is the program.
 * If no file is named, every size is allowed. Returns 0, or the exit code of a cs_status with a message. */
int cl_world_sizes_read(cl_world_sizes *sizes, char **arguments);
void cl_world_sizes_free(cl_world_sizes *sizes);
/* Returns true if the configuration allows this world size. */
bool cl_world_sizes_allow(const cl_world_sizes *sizes, int world_size);
/* Returns what limits the world sizes, for a message: "elasticity" in quotes, or the number of tensor-parallel ranks. */
const char *cl_world_sizes_limit(const cl_world_sizes *sizes);

/* ---- transport.c: the transport that a program's arguments or its configuration name ---- */

/* Returns true if the ranks of a program with these arguments will communicate by MPI: --backend mpi, --comm mpi
 * (bench), --set cspeed.comm=mpi, or cspeed.comm "mpi" in the file that --config names. A file that cannot be read is
 * ignored; the program reports what is wrong with it. */
bool cl_transport_is_mpi(char **arguments);

#endif
