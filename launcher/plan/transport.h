/* transport.h - The transport that the program's arguments or its configuration name. */
#ifndef CL_TRANSPORT_H
#define CL_TRANSPORT_H

#include <stdbool.h>

/* Returns true if the ranks of a program with these arguments will communicate by MPI: --backend mpi, --comm mpi
 * (bench), --set cspeed.comm=mpi, or cspeed.comm "mpi" in the file that --config names. A file that cannot be read
 * counts as one without it; the program says what is wrong with it. */
bool cl_transport_is_mpi(char **arguments);

#endif
