/* gpus.h - the GPUs of this machine, found without CUDA: the driver's devices, limited by CUDA_VISIBLE_DEVICES. */
#ifndef CL_GPUS_H
#define CL_GPUS_H

#include <stdbool.h>
#include <stddef.h>

/* Returns how many GPUs this process may use. If the number is 0, `why` receives the reason. */
int cl_gpus_count(char why[128]);

/* Writes the value of CUDA_VISIBLE_DEVICES for these slots: the numbers of the slots; or, if `visible` (the list of the
 * user) is set, the entries of this list that the slots select. */
void cl_gpus_devices(const int *slots, int count, const char *visible, char *text, size_t size);

/* Finds the NUMA node that is nearest to the GPU of each slot. GPUs are numbered in the order of the PCI bus. Returns
 * false if the NUMA node of a GPU is unknown. */
bool cl_gpus_nodes(const int *slots, int count, const char *visible, int *nodes);

#endif
