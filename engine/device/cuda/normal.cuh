/* normal.cuh - rows, or heads of rows, brought to one size: what LayerNorm and RMSNorm share.
 *
 * A row is a group's: 8, 16 or 32 lanes of a warp, or a block of whole warps. Each thread holds HELD runs of it in
 * registers, so that a row is read once and written once; of rows wider than a block holds, the rest is read again for
 * each step, from the cache. */
#ifndef CS_DEVICE_NORMAL_CUH
#define CS_DEVICE_NORMAL_CUH

#include "device/cuda/draw.cuh"

enum { CS_NORMAL_HELD = 2, CS_NORMAL_THREADS = 128, CS_NORMAL_MOST = 384 };

struct cs_normal {
    cs_view y, x, weight, bias; /* bias absent: none                                         */
    cs_view more, sum;          /* forward; more present: x + dropout(more) goes into sum, and is what is normed */
    cs_draw draw;
    cs_view dx, dy, beside; /* backward; beside present: is added to dx                  */
    float *stats, *partial; /* partial: (parts, width), and of a bias as much again       */
    float epsilon;
    int64_t items, heads, width; /* items: rows times heads                                   */
    int64_t stride, first;       /* of a row; column of the first head                        */
    int64_t parts;
    int group;   /* threads                                                   */
    bool biased; /* backward: a bias has a gradient too                       */
};

inline int cs_normal_group(int64_t width)
{
    int64_t threads = (width + CS_RUN * CS_NORMAL_HELD - 1) / (CS_RUN * CS_NORMAL_HELD);
    int group = 8;
    while (group < CS_WARP && group < threads)
        group *= 2;
    if (threads > CS_WARP)
        group = (int)(threads < CS_NORMAL_MOST ? cs_round_up(threads, CS_WARP) : (int64_t)CS_NORMAL_MOST);
    return group;
}

/* What is normed is x->sum, which is made on the way. */
inline void cs_normal_put_addition(cs_normal *job, const cs_addition *x)
{
    job->more = cs_run_view(x->b);
    job->sum = cs_run_view(x->sum);
    job->draw = cs_draw_of(x->dropout, cs_count(x->sum));
}

/* Blocks of at least CS_NORMAL_THREADS lanes where groups are parts of warps. */
inline int cs_normal_threads(int group)
{
    return group > CS_WARP ? group : (int)CS_NORMAL_THREADS;
}

/* ---- inside a kernel ---- */

/* Where this thread stands. */
struct cs_normal_seat {
    int lane;  /* in its group         */
    int group; /* in its block         */
    int64_t item, place;
    cs_range within; /* empty for a group without an item: it takes part in sums alone */
};

__device__ inline cs_normal_seat cs_normal_sit(const cs_normal &job, int64_t first_item)
{
    cs_normal_seat seat = {};
    seat.lane = (int)threadIdx.x % job.group;
    seat.group = (int)threadIdx.x / job.group;
    seat.item = first_item + seat.group;
    int64_t row = seat.item, head = 0;
    if (job.heads > 1) { /* spares two 64-bit divisions, each of about a hundred instructions */
        row = seat.item / job.heads;
        head = seat.item % job.heads;
    }
    seat.place = row * job.stride + job.first + head * job.width;
    seat.within = cs_range{ 0, seat.item < job.items ? job.width : 0 };
    return seat;
}

__device__ inline int64_t cs_normal_at(const cs_normal &job, const cs_normal_seat &seat, int held)
{
    return (int64_t)(held * job.group + seat.lane) * CS_RUN;
}

/* Over a group, known to all of it. */
__device__ inline float cs_normal_sum(float value, int group, float *seats)
{
    if (group > CS_WARP)
        return cs_block_sum(value, seats);
    for (int apart = group / 2; apart > 0; apart /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, apart);
    return value;
}

/* What is normed, as it lies in memory once the sum is stored. */
__device__ inline cs_view cs_normal_source(const cs_normal &job, const cs_normal_seat &seat)
{
    return cs_run_from(job.more.data ? job.sum : job.x, seat.place);
}

/* Of a run as loaded: widened and, where there is more, added to; rounded as it is stored. */
__device__ inline void cs_normal_add(float *x, const cs_normal &job, const cs_normal_seat &seat, int64_t at, cs_run run,
                                     cs_run run_more)
{
    cs_run_widen(x, run, job.x.dtype);
    if (!job.more.data)
        return;
    float more[CS_RUN];
    cs_run_widen(more, run_more, job.more.dtype);
    if (job.draw.keys && at < seat.within.to)
        cs_draw_apply_anywhere(more, job.draw, seat.place + at, seat.place + seat.within.to);
    for (int i = 0; i < CS_RUN; i++)
        x[i] += more[i];
    cs_run_store(cs_run_from(job.sum, seat.place), at, seat.within, x);
    cs_run_widen(x, cs_run_narrow(x, job.sum.dtype), job.sum.dtype);
}

/* Fills x; the rest of a wide row is added to and stored. */
__device__ inline void cs_normal_fetch(float (&x)[CS_NORMAL_HELD][CS_RUN], const cs_normal &job,
                                       const cs_normal_seat &seat)
{
    cs_view from = cs_run_from(job.x, seat.place), from_more = job.more;
    cs_run run[CS_NORMAL_HELD], more[CS_NORMAL_HELD] = {};
    if (job.more.data)
        from_more = cs_run_from(job.more, seat.place);
#pragma unroll
    for (int r = 0; r < CS_NORMAL_HELD; r++) {
        run[r] = cs_run_load(from, cs_normal_at(job, seat, r), seat.within);
        if (job.more.data)
            more[r] = cs_run_load(from_more, cs_normal_at(job, seat, r), seat.within);
    }
#pragma unroll
    for (int r = 0; r < CS_NORMAL_HELD; r++)
        cs_normal_add(x[r], job, seat, cs_normal_at(job, seat, r), run[r], more[r]);
    if (!job.more.data)
        return;
    for (int r = CS_NORMAL_HELD; cs_normal_at(job, seat, r) < seat.within.to; r++) {
        int64_t at = cs_normal_at(job, seat, r);
        float far[CS_RUN];
        cs_normal_add(far, job, seat, at, cs_run_load(from, at, seat.within), cs_run_load(from_more, at, seat.within));
    }
}

/* body(eight values, where they begin in the row), for all of this thread's runs. */
template <typename Body>
__device__ inline void cs_normal_each(float (&x)[CS_NORMAL_HELD][CS_RUN], const cs_normal &job,
                                      const cs_normal_seat &seat, Body body)
{
#pragma unroll
    for (int r = 0; r < CS_NORMAL_HELD; r++)
        body(x[r], cs_normal_at(job, seat, r));
    cs_view source = cs_normal_source(job, seat);
    for (int r = CS_NORMAL_HELD; cs_normal_at(job, seat, r) < seat.within.to; r++) {
        float far[CS_RUN];
        cs_run_read(far, source, cs_normal_at(job, seat, r), seat.within);
        body(far, cs_normal_at(job, seat, r));
    }
}

/* y = (x - mean) rstd weight + bias; not centered: mean is 0. */
__device__ inline void cs_normal_write(const cs_normal &job, const cs_normal_seat &seat, const float *x, int64_t at,
                                       float mean, float rstd)
{
    float y[CS_RUN], weight[CS_RUN], bias[CS_RUN] = {};
    cs_run_read(weight, job.weight, at, seat.within);
    if (job.bias.data)
        cs_run_read(bias, job.bias, at, seat.within);
    for (int i = 0; i < CS_RUN; i++)
        y[i] = (x[i] - mean) * rstd * weight[i] + bias[i];
    cs_run_store(cs_run_from(job.y, seat.place), at, seat.within, y);
}

template <bool centered> static __global__ void __launch_bounds__(CS_NORMAL_MOST) cs_normal_rows(cs_normal job)
{
    CS_SHARED float seats[CS_WARP];
    int64_t together = blockDim.x / job.group;
    for (int64_t first = blockIdx.x * together; first < job.items; first += gridDim.x * together) {
        cs_normal_seat seat = cs_normal_sit(job, first);
        float x[CS_NORMAL_HELD][CS_RUN], sum = 0, mean = 0;
        cs_normal_fetch(x, job, seat);
        if (centered) {
            cs_normal_each(x, job, seat, [&](const float *run, int64_t) {
                for (int i = 0; i < CS_RUN; i++)
                    sum += run[i];
            });
            mean = cs_normal_sum(sum, job.group, seats) / (float)job.width;
        }
        sum = 0;
        cs_normal_each(x, job, seat, [&](const float *run, int64_t at) {
            for (int i = 0; i < CS_RUN; i++) {
                float apart = cs_run_has(at + i, seat.within) ? run[i] - mean : 0;
                sum += apart * apart;
            }
        });
        float rstd = 1 / sqrtf(cs_normal_sum(sum, job.group, seats) / (float)job.width + job.epsilon);
        cs_normal_each(x, job, seat,
                       [&](const float *run, int64_t at) { cs_normal_write(job, seat, run, at, mean, rstd); });
        if (seat.lane > 0 || seat.item >= job.items)
            continue;
        if (centered)
            job.stats[2 * seat.item] = mean;
        job.stats[centered ? 2 * seat.item + 1 : seat.item] = rstd;
    }
}

template <bool centered> void cs_normal_forward(cs_device *device, cs_normal job)
{
    job.group = cs_normal_group(job.width);
    int threads = cs_normal_threads(job.group);
    int64_t together = threads / job.group, blocks = (job.items + together - 1) / together;
    cs_launch(cs_cuda_compute(device), cs_shape{ dim3((unsigned)(blocks < 1 << 24 ? blocks : 1 << 24)), dim3(threads) },
              cs_normal_rows<centered>, job);
}

#endif
