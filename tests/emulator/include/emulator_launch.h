/* emulator_launch.h - kernel launch: copies the arguments and puts the kernel into the queue of its stream. */
#ifndef CS_EMULATOR_LAUNCH_H
#define CS_EMULATOR_LAUNCH_H

#include <functional>
#include <tuple>

/* thread() executes the kernel for one thread. */
cudaError_t emulator_launch(const cudaLaunchConfig_t *config, const void *kernel, std::function<void()> thread);

template <typename... Wanted, typename... Given>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Wanted...), Given &&...given)
{
    std::tuple<Wanted...> arguments(static_cast<Wanted>(given)...);
    return emulator_launch(config, reinterpret_cast<const void *>(kernel),
                           [kernel, arguments] { std::apply(kernel, arguments); });
}

inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event)
{
    return cudaStreamWaitEvent(stream, event, 0);
}

template <typename T> cudaError_t cudaMalloc(T **memory, size_t bytes)
{
    return cudaMalloc(reinterpret_cast<void **>(memory), bytes);
}

template <typename T> cudaError_t cudaMallocHost(T **memory, size_t bytes, unsigned flags = cudaHostAllocDefault)
{
    return cudaHostAlloc(reinterpret_cast<void **>(memory), bytes, flags);
}

template <typename... T> cudaError_t cudaFuncSetAttribute(void (*kernel)(T...), cudaFuncAttribute attribute, int value)
{
    return cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel), attribute, value);
}

template <typename... T> cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, void (*kernel)(T...))
{
    return cudaFuncGetAttributes(attributes, reinterpret_cast<const void *>(kernel));
}

template <typename... T>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void (*kernel)(T...), int threads, size_t shared)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, reinterpret_cast<const void *>(kernel), threads,
                                                         shared);
}

#endif
