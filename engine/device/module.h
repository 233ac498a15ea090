/* module.h - opens libcspeed_cuda.so, the module with the CUDA device and NCCL, when a configuration asks for a GPU.
 *
 * One build of the program runs with and without CUDA: only the module is linked against CUDA, and a run on the CPU
 * does not load it. */
#ifndef CE_DEVICE_MODULE_H
#define CE_DEVICE_MODULE_H

#include "cspeed/cspeed.h"
#include "device/table.h"

struct ce_transport; /* declared in comm/transport.h */

/* The type of the module's only symbol, `ce_module_cuda`. */
typedef struct {
    int edition;         /* CE_MODULE_EDITION of the headers with which the module was built */
    const char *release; /* CS_VERSION of the headers with which the module was built */
    const char *built;   /* versions and architectures, such as "CUDA 13.0, NCCL 2.28.9; sm_80 sm_90 sm_100" */
    const ce_device_table *device;
    const struct ce_transport *nccl; /* the functions of the transport NCCL; NULL: the module was built without NCCL */
    /* Returns the lines that `cspeed report` prints about this machine's GPUs, drivers and libraries, one fact in each
     * line: "name\tvalue\n". The caller frees the text. The function never fails: if a fact is not available, its line
     * says why. */
    char *(*report)(void);
} ce_module;

/* A number that is computed from the sizes of structs that the program and the module share. The program refuses a
 * module that was built with another number. */
#define CE_MODULE_EDITION ((int)(sizeof(ce_device_table) + 16 * sizeof(struct cs_device)))

/* Returns whether the library of the CUDA driver exists; the call takes some microseconds. */
bool ce_module_has_driver(void);
/* Opens the module, once for each process. The environment variable CSPEED_CUDA_MODULE gives the module's path. If the
 * variable is not set, the module is looked for beside the program, beside libcspeed.so, in the library folder of the
 * installed tree that the program is in, and by the system's loader. If the module cannot be opened, returns
 * CS_NO_DEVICE; the message says where the module was looked for and why it failed to open. */
cs_status ce_module_open(const ce_module **module);

#endif
