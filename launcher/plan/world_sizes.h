/* world_sizes.h - The world sizes that the `elasticity` section of the program's configuration allows. */
#ifndef CL_WORLD_SIZES_H
#define CL_WORLD_SIZES_H

#include <stdbool.h>

typedef struct {
    int *list; /* the allowed world sizes, ascending; NULL: every size is allowed */
    int count;
} cl_world_sizes;

/* Returns the file that --config or --deepspeed_config names among a program's arguments; NULL: none. */
const char *cl_world_sizes_config(char **arguments);

/* Reads the elasticity section of the file that --config or --deepspeed_config names among the program's arguments. If
 * no file is named, or if the file has no enabled elasticity section, every size is allowed. Returns 0, or the exit
 * code of a cs_status with a message. */
int cl_world_sizes_read(cl_world_sizes *sizes, char **arguments);
void cl_world_sizes_free(cl_world_sizes *sizes);
/* Returns true if the list has this world size, or if every size is allowed. */
bool cl_world_sizes_allow(const cl_world_sizes *sizes, int world_size);

/* ---- transport.c: the transport that a program's arguments or its configuration name ---- */

/* Returns true if the ranks of a program with these arguments will communicate by MPI: --backend mpi, --comm mpi
 * (bench), --set cspeed.comm=mpi, or cspeed.comm "mpi" in the file that --config names. A file that cannot be read is
 * ignored; the program reports what is wrong with it. */
bool cl_transport_is_mpi(char **arguments);

#endif
