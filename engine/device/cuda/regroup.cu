/* regroup.cu - converts between two orders of the heads in a row. In the order by groups, each key head has a group of
 * its query heads, its key and its value. In the other order, all queries come first, then all keys, then all values.
 *
 * A block copies one row, and a thread copies one run of a head at a time. Runs begin at the heads' first elements, so
 * they are accessed 16 bytes at a time if a head's bytes are a multiple of 16. The kernel is bound by memory: the
 * division that finds a run's head takes less time than the run's 16 or 32 bytes, which are read and written once. */
#include "device/cuda/run.cuh"

/* Returns the place, in the order of cs_op_attention, of head number `head` in the order by groups. */
static __device__ int place_of(int head, int keys, int group)
{
    int key = head / (group + 2), place = head % (group + 2);
    if (place < group)
        return key * group + place;
    return keys * group + (place == group ? 0 : keys) + key;
}

/* Each of the `keys` groups has `group` query heads. A head has `width` columns. */
static __global__ void __launch_bounds__(CE_RUN_THREADS)
    regroup_rows(ce_view y, ce_view x, int64_t rows, int keys, int group, int width, bool back)
{
    int heads = keys * (group + 2), runs = (width + CE_RUN - 1) / CE_RUN;
    ce_range head_range = { 0, width };
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        for (int run = (int)threadIdx.x; run < heads * runs; run += (int)blockDim.x) {
            int head = run / runs, at = run % runs * CE_RUN, place = place_of(head, keys, group);
            ce_view from = ce_run_from(x, (row * heads + (back ? place : head)) * width);
            ce_view to = ce_run_from(y, (row * heads + (back ? head : place)) * width);
            ce_run_put(to, at, head_range, ce_run_load(from, at, head_range));
        }
    }
}

extern "C" void ce_cuda_regroup(cs_device *device, cs_tensor y, cs_tensor x, cs_heads heads, bool back)
{
    int64_t count = heads.queries + 2 * heads.keys, width = cs_columns(x) / count;
    ce_launch(ce_cuda_compute(device), ce_run_rows_shape(cs_rows(x), count * ce_round_up(width, CE_RUN)), regroup_rows,
              ce_run_view(y), ce_run_view(x), cs_rows(x), (int)heads.keys, (int)(heads.queries / heads.keys),
              (int)width, back);
}
