/* norm.cuh - LayerNorm and RMSNorm forward, over rows or over the heads of rows.
 *
 * A group of threads normalizes one row: 8, 16 or 32 lanes of a warp, or a whole block. Each thread keeps CE_NORM_HELD
 * runs (run.cuh) of the row in registers, so that a row is read once and written once. If a row does not fit in the
 * registers of a block, the remaining runs are read from the cache again in each pass over the row. */
#ifndef CE_DEVICE_NORM_CUH
#define CE_DEVICE_NORM_CUH

#include "device/cuda/draw.cuh"

enum { CE_NORM_HELD = 2, CE_NORM_THREADS = 128, CE_NORM_MAX_THREADS = 384 };

struct ce_norm_job {
    ce_view y, x, weight, bias; /* bias: absent if the layer has no bias */
    /* forward: if `more` is present, sum = x + dropout(more) is stored, and the sum is normalized instead of x */
    ce_view more, sum;
    ce_draw draw;
    ce_view dx, dy, beside; /* backward: if `beside` is present, `beside` is added to dx */
    /* backward: partial sums of dweight, (parts, width), then those of dbias if `biased` is true */
    float *stats, *partial;
    /* for columns that are divided over ranks: for each item, the sum over all ranks that forward or backward needs; else
     * NULL */
    const float *sums;
    float epsilon;
    int64_t items, heads, width; /* items: the number of rows times the number of heads */
    /* stride: number of elements from one row to the next; first: column of the first head */
    int64_t stride, first;
    int64_t parts;
    int64_t whole; /* number of elements that are normalized together: `width`, or the columns of all ranks */
    int group;     /* number of threads that normalize one item together */
    bool biased;   /* backward: true if the gradient of a bias is computed too */
};

/* Returns the number of threads that normalize one item of this width together. */
inline int ce_norm_group(int64_t width)
{
    int64_t threads = (width + CE_RUN * CE_NORM_HELD - 1) / (CE_RUN * CE_NORM_HELD);
    int group = 8;
    while (group < CE_WARP && group < threads)
        group *= 2;
    if (threads > CE_WARP)
        group = (int)(threads < CE_NORM_MAX_THREADS ? ce_round_up(threads, CE_WARP) : (int64_t)CE_NORM_MAX_THREADS);
    return group;
}

/* Sets the job to compute x->sum = x->a + dropout(x->b), and to normalize the sum. */
inline void ce_norm_set_addition(ce_norm_job *job, const cs_addition *x)
{
    job->more = ce_run_view(x->b);
    job->sum = ce_run_view(x->sum);
    job->draw = ce_draw_of(x->dropout, cs_count(x->sum));
}

/* Returns the number of threads of a block: the size of a group if that is more than a warp, otherwise
 * CE_NORM_THREADS. */
inline int ce_norm_threads(int group)
{
    return group > CE_WARP ? group : (int)CE_NORM_THREADS;
}

/* ---- functions for kernels ---- */

/* The item that this thread works on, and the thread's position in its group. */
struct ce_norm_work {
    int lane;            /* index of the thread in its group */
    int group;           /* index of the group in its block */
    int64_t item, place; /* place: the index of the item's first element in the tensor */
    /* range of the item's elements; empty if the group has no item, but even then the group takes part in reductions */
    ce_range within;
};

__device__ inline ce_norm_work ce_norm_work_of(const ce_norm_job &job, int64_t first_item)
{
    ce_norm_work work = {};
    work.lane = (int)threadIdx.x % job.group;
    work.group = (int)threadIdx.x / job.group;
    work.item = first_item + work.group;
    int64_t row = work.item, head = 0;
    if (job.heads > 1) { /* this condition avoids two 64-bit divisions, which take about a hundred instructions each */
        row = work.item / job.heads;
        head = work.item % job.heads;
    }
    work.place = row * job.stride + job.first + head * job.width;
    work.within = ce_range{ 0, work.item < job.items ? job.width : 0 };
    return work;
}

/* Returns the index, relative to the item, of the first element of this thread's run number `held`. */
__device__ inline int64_t ce_norm_at(const ce_norm_job &job, const ce_norm_work &work, int held)
{
    return (int64_t)(held * job.group + work.lane) * CE_RUN;
}

/* Returns the sum over a group to each thread of the group. */
__device__ inline float ce_norm_sum(float value, int group, float *scratch)
{
    if (group > CE_WARP)
        return ce_block_sum(value, scratch);
    for (int apart = group / 2; apart > 0; apart /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, apart);
    return value;
}

/* Returns a view of the values that are normalized, from the first element of the item on. They are in job.sum if
 * job.more is present, otherwise in job.x. */
__device__ inline ce_view ce_norm_source(const ce_norm_job &job, const ce_norm_work &work)
{
    return ce_run_from(job.more.data ? job.sum : job.x, work.place);
}

/* Converts a run (eight consecutive elements, run.cuh) to fp32 in x. If job.more is present, adds dropout(more) to x,
 * stores the sum in job.sum, and rounds x to the type of job.sum. */
__device__ inline void ce_norm_add(float *x, const ce_norm_job &job, const ce_norm_work &work, int64_t at, ce_run run,
                                   ce_run run_more)
{
    ce_run_widen(x, run, job.x.dtype);
    if (!job.more.data)
        return;
    float more[CE_RUN];
    ce_run_widen(more, run_more, job.more.dtype);
    if (job.draw.keys && at < work.within.to)
        ce_draw_apply_anywhere(more, job.draw, work.place + at, work.place + work.within.to);
    for (int i = 0; i < CE_RUN; i++)
        x[i] += more[i];
    ce_run_store(ce_run_from(job.sum, work.place), at, work.within, x);
    ce_run_widen(x, ce_run_narrow(x, job.sum.dtype), job.sum.dtype);
}

/* Loads the first CE_NORM_HELD of this thread's runs of the item into x. If job.more is present, adds dropout(job.more)
 * to all runs of this thread, and stores the sums in job.sum (ce_norm_add). */
__device__ inline void ce_norm_load(float (&x)[CE_NORM_HELD][CE_RUN], const ce_norm_job &job, const ce_norm_work &work)
{
    ce_view from = ce_run_from(job.x, work.place), from_more = job.more;
    ce_run run[CE_NORM_HELD], more[CE_NORM_HELD] = {};
    if (job.more.data)
        from_more = ce_run_from(job.more, work.place);
#pragma unroll
    for (int r = 0; r < CE_NORM_HELD; r++) {
        run[r] = ce_run_load(from, ce_norm_at(job, work, r), work.within);
        if (job.more.data)
            more[r] = ce_run_load(from_more, ce_norm_at(job, work, r), work.within);
    }
#pragma unroll
    for (int r = 0; r < CE_NORM_HELD; r++)
        ce_norm_add(x[r], job, work, ce_norm_at(job, work, r), run[r], more[r]);
    if (!job.more.data)
        return;
    for (int r = CE_NORM_HELD; ce_norm_at(job, work, r) < work.within.to; r++) {
        int64_t at = ce_norm_at(job, work, r);
        float rest[CE_RUN];
        ce_norm_add(rest, job, work, at, ce_run_load(from, at, work.within), ce_run_load(from_more, at, work.within));
    }
}

/* Calls body(values, index) for each run of this thread. `values` are the eight elements of the run; `index` is the
 * first element's index in the item. */
template <typename Body>
__device__ inline void ce_norm_each(float (&x)[CE_NORM_HELD][CE_RUN], const ce_norm_job &job, const ce_norm_work &work,
                                    Body body)
{
#pragma unroll
    for (int r = 0; r < CE_NORM_HELD; r++)
        body(x[r], ce_norm_at(job, work, r));
    ce_view source = ce_norm_source(job, work);
    for (int r = CE_NORM_HELD; ce_norm_at(job, work, r) < work.within.to; r++) {
        float rest[CE_RUN];
        ce_run_read(rest, source, ce_norm_at(job, work, r), work.within);
        body(rest, ce_norm_at(job, work, r));
    }
}

/* Computes y = (x - mean) * rstd * weight + bias; for RMSNorm, mean is 0. */
__device__ inline void ce_norm_write(const ce_norm_job &job, const ce_norm_work &work, const float *x, int64_t at,
                                     float mean, float rstd)
{
    float y[CE_RUN], weight[CE_RUN], bias[CE_RUN] = {};
    ce_run_read(weight, job.weight, at, work.within);
    if (job.bias.data)
        ce_run_read(bias, job.bias, at, work.within);
    for (int i = 0; i < CE_RUN; i++)
        y[i] = (x[i] - mean) * rstd * weight[i] + bias[i];
    ce_run_store(ce_run_from(job.y, work.place), at, work.within, y);
}

/* If `centered` is true, computes LayerNorm, which subtracts the mean; otherwise computes RMSNorm. */
template <bool centered> static __global__ void __launch_bounds__(CE_NORM_MAX_THREADS) ce_norm_rows(ce_norm_job job)
{
    CE_SHARED float scratch[CE_WARP];
    int64_t together = blockDim.x / job.group;
    for (int64_t first = blockIdx.x * together; first < job.items; first += gridDim.x * together) {
        ce_norm_work work = ce_norm_work_of(job, first);
        float x[CE_NORM_HELD][CE_RUN], sum = 0, mean = 0;
        ce_norm_load(x, job, work);
        if (centered) {
            ce_norm_each(x, job, work, [&](const float *run, int64_t) {
                for (int i = 0; i < CE_RUN; i++)
                    sum += run[i];
            });
            mean = ce_norm_sum(sum, job.group, scratch) / (float)job.width;
        }
        if (job.sums) {
            sum = work.item < job.items ? job.sums[work.item] : 0;
        } else {
            sum = 0;
            ce_norm_each(x, job, work, [&](const float *run, int64_t at) {
                for (int i = 0; i < CE_RUN; i++) {
                    float difference = ce_run_has(at + i, work.within) ? run[i] - mean : 0;
                    sum += difference * difference;
                }
            });
            sum = ce_norm_sum(sum, job.group, scratch);
        }
        float rstd = 1 / sqrtf(sum / (float)job.whole + job.epsilon);
        ce_norm_each(x, job, work,
                     [&](const float *run, int64_t at) { ce_norm_write(job, work, run, at, mean, rstd); });
        if (work.lane > 0 || work.item >= job.items)
            continue;
        if (centered)
            job.stats[2 * work.item] = mean;
        job.stats[centered ? 2 * work.item + 1 : work.item] = rstd;
    }
}

template <bool centered> void cs_norm_forward(cs_device *device, ce_norm_job job)
{
    job.group = ce_norm_group(job.width);
    int threads = ce_norm_threads(job.group);
    int64_t together = threads / job.group, blocks = ce_divide_up(job.items, together);
    ce_launch(ce_cuda_compute(device), ce_shape{ dim3(ce_bounded_grid(blocks)), dim3(threads) }, ce_norm_rows<centered>,
              job);
}

#endif
