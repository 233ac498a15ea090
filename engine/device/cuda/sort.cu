/* sort.cu - stable radix sort, by digits of 4 bits from the lowest.
 *
 * Two kernels run for each digit. In the first, every block counts its 2048 keys by digit. In the second, every key
 * moves to its destination: after all keys with lower digits, after the keys with the same digit in earlier blocks, and
 * after the preceding keys with the same digit in its own block. A thread has 16 consecutive keys, so the order of keys
 * in a block is by thread, and within a thread by index. The sort is bound by the cost of launches, because a step has
 * few tokens. */
#include "device/cuda/sort.cuh"

enum { BITS = 4, DIGITS = 1 << BITS, THREADS = 128, EACH = 16, TILE = THREADS * EACH };

static int64_t blocks_of(int64_t count)
{
    return ce_divide_up(count, TILE);
}

size_t ce_sort_bytes(int64_t count)
{
    return (size_t)(4 * count + DIGITS * blocks_of(count)) * sizeof(uint32_t);
}

ce_sort ce_sort_layout(void *memory, int64_t count)
{
    uint32_t *first = (uint32_t *)memory;
    return ce_sort{ { first, first + count }, { first + 2 * count, first + 3 * count }, first + 4 * count };
}

/* Returns the index of this thread's first key. */
static __device__ int64_t first_of(int64_t block)
{
    return block * TILE + (int64_t)threadIdx.x * EACH;
}

/* Sets counts[digit][thread] to the number of the thread's keys that have this digit. */
static __device__ void count_by_thread(uint32_t (*counts)[THREADS], const uint32_t *keys, int64_t count, int shift)
{
    for (int digit = 0; digit < DIGITS; digit++)
        counts[digit][threadIdx.x] = 0;
    for (int64_t i = first_of(blockIdx.x); i < first_of(blockIdx.x) + EACH && i < count; i++)
        counts[keys[i] >> shift & (DIGITS - 1)][threadIdx.x]++;
    __syncthreads();
}

/* Sets table[digit][block] to the number of the block's keys that have this digit. A warp adds the counts of one digit
 * at a time. */
static __global__ void __launch_bounds__(THREADS)
    count_digits(uint32_t *table, const uint32_t *keys, int64_t count, int shift)
{
    CE_SHARED uint32_t counts[DIGITS][THREADS];
    int lane = ce_lane(), warp = ce_warp();
    count_by_thread(counts, keys, count, shift);
    for (int digit = warp; digit < DIGITS; digit += THREADS / CE_WARP) {
        uint32_t sum = 0;
        for (int i = lane; i < THREADS; i += CE_WARP)
            sum += counts[digit][i];
        sum = ce_warp_sum(sum);
        if (lane == 0)
            table[(int64_t)digit * gridDim.x + blockIdx.x] = sum;
    }
}

/* Exclusive scan: replaces each count by the destination of the thread's first key that has this digit. */
static __device__ void scan_counts(uint32_t (*counts)[THREADS], const uint32_t *table)
{
    int lane = ce_lane(), warp = ce_warp();
    for (int digit = warp; digit < DIGITS; digit += THREADS / CE_WARP) {
        uint32_t before = 0;
        for (int64_t i = lane; i < (int64_t)digit * gridDim.x + blockIdx.x; i += CE_WARP)
            before += table[i];
        before = ce_warp_sum(before);
        for (int first = 0; lane == 0 && first < THREADS; first++) {
            uint32_t own_count = counts[digit][first];
            counts[digit][first] = before;
            before += own_count;
        }
    }
    __syncthreads();
}

static __global__ void __launch_bounds__(THREADS)
    scatter_keys(uint32_t *to_keys, uint32_t *to_rows, const uint32_t *table, const uint32_t *keys,
                 const uint32_t *rows, int64_t count, int shift)
{
    CE_SHARED uint32_t places[DIGITS][THREADS];
    count_by_thread(places, keys, count, shift);
    scan_counts(places, table);
    for (int64_t i = first_of(blockIdx.x); i < first_of(blockIdx.x) + EACH && i < count; i++) {
        uint32_t place = places[keys[i] >> shift & (DIGITS - 1)][threadIdx.x]++;
        to_keys[place] = keys[i];
        to_rows[place] = rows[i];
    }
}

ce_sort ce_sort_run(cudaStream_t stream, ce_sort sort, int64_t count, int bits)
{
    ce_shape shape = { dim3((unsigned)blocks_of(count)), dim3(THREADS) };
    for (int shift = 0; shift < bits; shift += BITS) {
        ce_launch(stream, shape, count_digits, sort.table, sort.keys[0], count, shift);
        ce_launch(stream, shape, scatter_keys, sort.keys[1], sort.rows[1], sort.table, sort.keys[0], sort.rows[0],
                  count, shift);
        sort = ce_sort{ { sort.keys[1], sort.keys[0] }, { sort.rows[1], sort.rows[0] }, sort.table };
    }
    return sort;
}
