/* normal_grad.cuh - the gradients of what normal.cuh brings to one size.
 *
 * With n = (x - mean) rstd and g = dy weight: dx = rstd (g - mean of g - n mean of g n) + beside, dweight += dy n, and
 * dbias += dy. Not centered, the mean is 0, and so is what stands for the mean of g. A block, or a warp where groups
 * are parts of warps, takes rows at even distances and keeps its own sums for weight and bias; columns.cuh joins those
 * in order. Reading x and dy and writing dx bounds it. */
#ifndef CS_DEVICE_NORMAL_GRAD_CUH
#define CS_DEVICE_NORMAL_GRAD_CUH

#include "device/cuda/columns.cuh"
#include "device/cuda/normal.cuh"

/* Sums for weight and bias of a thread's columns. */
struct cs_normal_sums {
    float weight[CS_RUN], bias[CS_RUN];
};

/* One run: x becomes n, and dy, once it is added to the sums, g. */
__device__ inline void cs_normal_meet(float *x, float *dy, const cs_normal &job, const cs_normal_seat &seat, int64_t at,
                                      float mean, float rstd, cs_normal_sums *sums)
{
    float weight[CS_RUN];
    cs_run_read(weight, job.weight, at, seat.within);
    for (int i = 0; i < CS_RUN; i++) {
        x[i] = (x[i] - mean) * rstd;
        sums->weight[i] += dy[i] * x[i];
        sums->bias[i] += dy[i];
        dy[i] *= weight[i];
    }
}

/* The same of a run that is not held. */
__device__ inline void cs_normal_read_meet(float *n, float *g, const cs_normal &job, const cs_normal_seat &seat,
                                           int64_t at, float mean, float rstd, cs_normal_sums *sums)
{
    cs_run_read(n, cs_run_from(job.x, seat.place), at, seat.within);
    cs_run_read(g, cs_run_from(job.dy, seat.place), at, seat.within);
    cs_normal_meet(n, g, job, seat, at, mean, rstd, sums);
}

__device__ inline void cs_normal_write_grad(const cs_normal &job, const cs_normal_seat &seat, const float *n,
                                            const float *g, int64_t at, float mean_g, float mean_gn, float rstd)
{
    float dx[CS_RUN], beside[CS_RUN] = {};
    if (job.beside.data)
        cs_run_read(beside, cs_run_from(job.beside, seat.place), at, seat.within);
    for (int i = 0; i < CS_RUN; i++)
        dx[i] = rstd * (g[i] - mean_g - n[i] * mean_gn) + beside[i];
    cs_run_store(cs_run_from(job.dx, seat.place), at, seat.within, dx);
}

/* This thread's columns of its part's partial sums, to which wide rows add as they go. */
__device__ inline void cs_normal_add_sums(const cs_normal &job, int64_t part, int64_t at, const cs_normal_sums &sums)
{
    cs_range all = { 0, job.width };
    cs_view of_weight = cs_run_from(cs_view{ (unsigned char *)job.partial, CS_F32 }, part * job.width);
    cs_view of_bias = cs_run_from(of_weight, job.parts * job.width);
    float sum[CS_RUN];
    cs_run_read(sum, of_weight, at, all);
    for (int i = 0; i < CS_RUN; i++)
        sum[i] += sums.weight[i];
    cs_run_store(of_weight, at, all, sum);
    if (!job.biased)
        return;
    cs_run_read(sum, of_bias, at, all);
    for (int i = 0; i < CS_RUN; i++)
        sum[i] += sums.bias[i];
    cs_run_store(of_bias, at, all, sum);
}

/* Lanes of a warp that hold the same columns join what they gathered; the first of them keeps it. */
__device__ inline void cs_normal_join_groups(cs_normal_sums *sums, int group)
{
    for (int apart = group; apart < CS_WARP; apart *= 2)
        for (int i = 0; i < CS_RUN; i++) {
            sums->weight[i] += __shfl_xor_sync(0xffffffffu, sums->weight[i], apart);
            sums->bias[i] += __shfl_xor_sync(0xffffffffu, sums->bias[i], apart);
        }
}

/* One item: dx, and what it adds to the sums. */
template <bool centered>
__device__ inline void cs_normal_grad_item(const cs_normal &job, const cs_normal_seat &seat, int64_t part,
                                           cs_normal_sums (&sums)[CS_NORMAL_HELD], float *seats)
{
    float mean = 0, rstd = 0, sum_g = 0, sum_gn = 0, n[CS_NORMAL_HELD][CS_RUN], g[CS_NORMAL_HELD][CS_RUN];
    cs_view x = cs_run_from(job.x, seat.place), dy = cs_run_from(job.dy, seat.place);
    cs_run run_x[CS_NORMAL_HELD], run_dy[CS_NORMAL_HELD];
    auto add = [&](const float *own_n, const float *own_g) {
        for (int i = 0; i < CS_RUN; i++) {
            sum_g += own_g[i];
            sum_gn += own_g[i] * own_n[i];
        }
    };
#pragma unroll
    for (int r = 0; r < CS_NORMAL_HELD; r++) {
        run_x[r] = cs_run_load(x, cs_normal_at(job, seat, r), seat.within);
        run_dy[r] = cs_run_load(dy, cs_normal_at(job, seat, r), seat.within);
    }
    if (seat.item < job.items) {
        mean = centered ? job.stats[2 * seat.item] : 0;
        rstd = job.stats[centered ? 2 * seat.item + 1 : seat.item];
    }
#pragma unroll
    for (int r = 0; r < CS_NORMAL_HELD; r++) {
        cs_run_widen(n[r], run_x[r], job.x.dtype);
        cs_run_widen(g[r], run_dy[r], job.dy.dtype);
        cs_normal_meet(n[r], g[r], job, seat, cs_normal_at(job, seat, r), mean, rstd, &sums[r]);
        add(n[r], g[r]);
    }
    for (int r = CS_NORMAL_HELD; cs_normal_at(job, seat, r) < seat.within.to; r++) {
        int64_t at = cs_normal_at(job, seat, r);
        cs_normal_sums own = {};
        float far_n[CS_RUN], far_g[CS_RUN];
        cs_normal_read_meet(far_n, far_g, job, seat, at, mean, rstd, &own);
        cs_normal_add_sums(job, part, at, own);
        add(far_n, far_g);
    }
    float mean_g = centered ? cs_normal_sum(sum_g, job.group, seats) / (float)job.width : 0;
    float mean_gn = cs_normal_sum(sum_gn, job.group, seats) / (float)job.width;
#pragma unroll
    for (int r = 0; r < CS_NORMAL_HELD; r++)
        cs_normal_write_grad(job, seat, n[r], g[r], cs_normal_at(job, seat, r), mean_g, mean_gn, rstd);
    for (int r = CS_NORMAL_HELD; cs_normal_at(job, seat, r) < seat.within.to; r++) {
        int64_t at = cs_normal_at(job, seat, r);
        cs_normal_sums unused = {};
        float far_n[CS_RUN], far_g[CS_RUN];
        cs_normal_read_meet(far_n, far_g, job, seat, at, mean, rstd, &unused);
        cs_normal_write_grad(job, seat, far_n, far_g, at, mean_g, mean_gn, rstd);
    }
}

/* A part is a block, or a warp of groups; its partial sums are zero at the begin. */
template <bool centered> static __global__ void __launch_bounds__(CS_NORMAL_MOST) cs_normal_grad_rows(cs_normal job)
{
    CS_SHARED float seats[CS_WARP];
    int warps = job.group > CS_WARP ? 1 : (int)blockDim.x / CS_WARP, together = (int)blockDim.x / job.group;
    int64_t part = (int64_t)blockIdx.x * warps + (warps > 1 ? threadIdx.x / CS_WARP : 0);
    cs_normal_sums sums[CS_NORMAL_HELD] = {};
    for (int64_t first = (int64_t)blockIdx.x * together; first < job.items; first += (int64_t)gridDim.x * together)
        cs_normal_grad_item<centered>(job, cs_normal_sit(job, first), part, sums, seats);
    cs_normal_seat seat = cs_normal_sit(job, 0);
#pragma unroll
    for (int r = 0; r < CS_NORMAL_HELD; r++) {
        cs_normal_join_groups(&sums[r], job.group);
        if ((int)threadIdx.x % CS_WARP < job.group)
            cs_normal_add_sums(job, part, cs_normal_at(job, seat, r), sums[r]);
    }
}

/* Parts enough to fill the device, and few beside the rows. dbias absent: none is wanted. */
template <bool centered> void cs_normal_backward(cs_device *device, cs_normal job, cs_tensor dweight, cs_tensor dbias)
{
    enum { LEAST_ITEMS = 4 };
    job.group = cs_normal_group(job.width);
    int threads = cs_normal_threads(job.group), warps = job.group > CS_WARP ? 1 : threads / CS_WARP;
    int64_t together = threads / job.group * LEAST_ITEMS, max = (job.items + together - 1) / together;
    int64_t blocks = (int64_t)cs_cuda_facts_of(device)->processors * (threads > 128 ? 2 : 256 / threads);
    blocks = blocks < max ? blocks : max;
    job.parts = blocks * warps;
    if (blocks == 0)
        return;
    job.biased = dbias.data != NULL;
    size_t bytes = (size_t)((job.biased ? 2 : 1) * job.parts * job.width) * sizeof(float);
    job.partial = (float *)cs_cuda_workspace(device, CS_CUDA_REDUCTION, bytes);
    cs_cuda_clear(device, job.partial, bytes);
    cs_launch(cs_cuda_compute(device), cs_shape{ dim3((unsigned)blocks), dim3((unsigned)threads) },
              cs_normal_grad_rows<centered>, job);
    cs_columns_join(device, dweight, job.partial, job.parts);
    if (job.biased)
        cs_columns_join(device, dbias, job.partial + job.parts * job.width, job.parts);
}

#endif
