/* module.h - the interface of libcspeed_mpi.so: it moves messages between ranks by MPI.
 *
 * Only that module is linked against MPI. The program opens it when a configuration asks for the transport mpi. */
#ifndef CE_COMM_MPI_MODULE_H
#define CE_COMM_MPI_MODULE_H

#include "comm/transport.h"

/* The type of the module's only symbol, `ce_module_mpi`. The functions do what the members of ce_transport with the
 * same names do. */
typedef struct {
    size_t edition;      /* CE_TRANSPORT_EDITION of the headers with which the module was built */
    const char *release; /* CS_VERSION of those headers */
    cs_status (*open)(cs_comm *comm, const cs_comm_settings *settings);
    void (*close)(cs_comm *comm);
    bool (*move)(cs_comm *comm, ce_message *messages, int count, bool wait);
    void (*lose)(cs_comm *comm, int peer, const char *how);
} ce_mpi_module;

#endif
