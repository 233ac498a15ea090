/* transport.h - finds the transport that the arguments of a program or its configuration name. */
#ifndef CL_TRANSPORT_H
#define CL_TRANSPORT_H

#include <stdbool.h>

/* Returns true if the ranks of a program with these arguments will communicate by MPI: --backend mpi, --comm mpi
 * (bench), --set cspeed.comm=mpi, or cspeed.comm "mpi" in the file that --config names. A file that cannot be read is
 * ignored; the program reports what is wrong with it. */
bool cl_transport_is_mpi(char **arguments);

#endif
