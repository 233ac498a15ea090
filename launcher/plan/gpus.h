/* gpus.h - the GPUs of this machine, without CUDA: what the driver shows, and what CUDA_VISIBLE_DEVICES leaves. */
#ifndef CL_GPUS_H
#define CL_GPUS_H

#include <stdbool.h>
#include <stddef.h>

/* How many this process may use; at 0, `why` says why there is none. */
int cl_gpus_count(char why[128]);

/* CUDA_VISIBLE_DEVICES for these slots: their numbers, or, where the caller's names the visible ones, its entries. */
void cl_gpus_devices(const int *slots, int count, const char *visible, char *text, size_t size);

/* The NUMA node next to each slot's GPU, which are counted as the bus does. False when that of one is not known. */
bool cl_gpus_nodes(const int *slots, int count, const char *visible, int *nodes);

#endif
