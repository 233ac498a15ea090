/* transport.h - finds the transport that the arguments of a program or its configuration name. */
#ifndef CL_TRANSPORT_H
#define CL_TRANSPORT_H

#include <stdbool.h>

/* Returns true if the ranks of a program with these arguments will communicate by MPI. This is so with --backend mpi,
 * --comm mpi (bench), --set cspeed.comm=mpi, or with cspeed.comm "mpi" in the file that --config names. If this file
 * cannot be read, the function assumes that it has no such key; the program will report what is wrong with the file. */
bool cl_transport_is_mpi(char **arguments);

#endif
