/* host_device.h - the macro that marks inline functions that the CPU and CUDA kernels share. */
#ifndef CE_BASE_HOST_DEVICE_H
#define CE_BASE_HOST_DEVICE_H

#ifdef __CUDACC__
#define CE_HOST_DEVICE static __host__ __device__ inline
#else
#define CE_HOST_DEVICE static inline
#endif

#endif
