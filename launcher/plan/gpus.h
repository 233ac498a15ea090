/* gpus.h - the GPUs of this machine, found without CUDA: the driver's devices, limited by CUDA_VISIBLE_DEVICES. */
#ifndef CL_GPUS_H
#define CL_GPUS_H

#include <stdbool.h>
#include <stddef.h>

/* Returns how many GPUs this process may use. If the number is 0, `why` receives the reason. */
int cl_gpus_count(char why[128]);

/* Writes CUDA_VISIBLE_DEVICES for these slots: the slot numbers, or, if `visible` (the user's list) is set, the entries
 * of that list at these numbers. */
void cl_gpus_devices(const int *slots, int count, const char *visible, char *text, size_t size);

/* Finds the NUMA node nearest to each slot's GPU. GPUs are numbered in PCI bus order. Returns false if the NUMA node of
 * a GPU is unknown. */
bool cl_gpus_nodes(const int *slots, int count, const char *visible, int *nodes);

#endif
