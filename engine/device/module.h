/* module.h - libcspeed_cuda.so: the CUDA device and NCCL, opened when a configuration or "auto" asks for them.
 *
 * One build runs on machines with and without CUDA: what is linked against CUDA is in the module alone, and a run on
 * the CPU never loads it. */
#ifndef CS_DEVICE_MODULE_H
#define CS_DEVICE_MODULE_H

#include "device/table.h"

struct cs_transport; /* comm/transport.h */

/* What the module's one symbol, `cs_module_cuda`, is. */
typedef struct {
    int edition;       /* CS_MODULE_EDITION of the headers it was built with */
    const char *built; /* "CUDA 13.0, NCCL 2.28.9; sm_80 sm_90 sm_100"        */
    const cs_device_table *device;
    const struct cs_transport *nccl; /* NULL: built without NCCL                            */
    /* What `cspeed report` prints of this machine's GPUs, drivers and libraries, a fact a line: "name\tvalue\n".
     * malloc'ed; never fails: what cannot be had is a line that says why. */
    char *(*report)(void);
} cs_module;

/* Sizes of what both sides share: a module of another build is refused, not crashed into. */
#define CS_MODULE_EDITION ((int)(sizeof(cs_device_table) + 16 * sizeof(struct cs_device)))

bool cs_module_has_driver(void); /* a driver's library is there; costs microseconds */
/* Once a process. CS_NO_DEVICE with what was searched, and why it cannot be had. The environment's CSPEED_CUDA_MODULE
 * names it; else it lies beside this program, in ../lib, or where the system's loader looks. */
cs_status cs_module_open(const cs_module **module);

#endif
