/* copy.c - memcpy between the memories of ranks, on x86-64 with non-temporal stores for large copies.
 *
 * A normal store to a cache line that another core has read waits until that core has given up the line. Copies through
 * staging slots with non-temporal stores are faster at every length than process_vm_readv, which Open MPI uses
 * (tests/bench/README.md). */
#include "comm/shm/copy.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdint.h>

enum { STREAM_MIN = 4 << 20, OTHERS_MIN = 4 << 10, LINE = 64 };

__attribute__((target("avx2"))) static void copy_lines(char *to, const char *from, size_t lines)
{
    for (size_t i = 0; i < lines; i++, to += LINE, from += LINE) {
        __m256i low = _mm256_loadu_si256((const void *)from), high = _mm256_loadu_si256((const void *)(from + 32));
        _mm256_storeu_si256((void *)to, low);
        _mm256_storeu_si256((void *)(to + 32), high);
    }
}

__attribute__((target("avx2"))) static void stream_lines(char *to, const char *from, size_t lines)
{
    for (size_t i = 0; i < lines; i++, to += LINE, from += LINE) {
        __m256i low = _mm256_loadu_si256((const void *)from), high = _mm256_loadu_si256((const void *)(from + 32));
        _mm256_stream_si256((void *)to, low);
        _mm256_stream_si256((void *)(to + 32), high);
    }
    _mm_sfence();
}

void ce_copy_cached(void *to, const void *from, size_t bytes)
{
    size_t lines = __builtin_cpu_supports("avx2") ? bytes / LINE : 0;
    copy_lines(to, from, lines);
    memcpy((char *)to + lines * LINE, (const char *)from + lines * LINE, bytes - lines * LINE);
}

static void copy_streaming(void *to, const void *from, size_t bytes)
{
    size_t first = -(uintptr_t)to % LINE; /* number of bytes before the first cache line of the target */
    size_t lines = (bytes - first) / LINE, end = first + lines * LINE;
    memcpy(to, from, first);
    stream_lines((char *)to + first, (const char *)from + first, lines);
    memcpy((char *)to + end, (const char *)from + end, bytes - end);
}

void ce_copy_nontemporal(void *to, const void *from, size_t bytes)
{
    if (bytes < STREAM_MIN || !__builtin_cpu_supports("avx2"))
        ce_copy_cached(to, from, bytes);
    else
        copy_streaming(to, from, bytes);
}

void ce_copy_for_others(void *to, const void *from, size_t bytes)
{
    if (bytes < OTHERS_MIN || !__builtin_cpu_supports("avx2"))
        ce_copy_cached(to, from, bytes);
    else
        copy_streaming(to, from, bytes);
}
#else
void ce_copy_cached(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

void ce_copy_nontemporal(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

void ce_copy_for_others(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
#endif
