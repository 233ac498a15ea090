/* gpus.h - the GPUs of this machine, found without CUDA: the driver's devices, limited by CUDA_VISIBLE_DEVICES. */
#ifndef CL_GPUS_H
#define CL_GPUS_H

#include <stdbool.h>
#include <stddef.h>

/* Returns how many GPUs this process may use. If the number is 0, `why` receives the reason. */
int cl_gpus_count(char why[128]);

/* Writes the value of CUDA_VISIBLE_DEVICES for these slots. If `visible`, the user's value of CUDA_VISIBLE_DEVICES, is
 * NULL or empty, writes the slot numbers. Otherwise each slot number is an index into the user's list, and the entries
 * at these indices are written. A slot that occurs several times is written once. */
void cl_gpus_devices(const int *slots, int count, const char *visible, char *text, size_t size);

/* Finds the NUMA node nearest to each slot's GPU. GPUs are numbered in PCI bus order. Returns false if the NUMA node of
 * a GPU is unknown. */
bool cl_gpus_nodes(const int *slots, int count, const char *visible, int *nodes);

#endif
