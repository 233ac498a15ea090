/* narrow.cu - conversion of flat state between 16-bit and 32-bit types, also in place. The kernels are bound by memory.
 *
 * A conversion in place changes the size of elements, so that the new bytes of one element are the old bytes of others.
 * From 4 bytes to 2: elements [n, 2n) are read at bytes [4n, 8n) and written at [2n, 4n), which only elements before n
 * occupied. Once those are converted, no two of the elements overlap, and each launch doubles the number of converted
 * elements. From 2 bytes to 4 the same holds from the end: [n, 2n) is read at [2n, 4n) and written at [4n, 8n), which
 * only elements from 2n on occupied. One block converts the first FIRST elements; it reads all of them before it
 * writes. */
#include "device/cuda/run.cuh"

enum { FIRST_THREADS = 1024, FIRST = FIRST_THREADS * CS_RUN };

struct convert_job {
    cs_view to, from;
    float factor;
};

/* Reads a run, times job.factor. */
static __device__ void read_scaled(float *wide, const convert_job &job, int64_t at, cs_range within)
{
    cs_run_read(wide, job.from, at, within);
    for (int i = 0; i < CS_RUN; i++)
        wide[i] *= job.factor;
}

static __global__ void __launch_bounds__(CS_RUN_THREADS) convert_runs(convert_job job, cs_flat flat)
{
    cs_range all = cs_run_all(flat);
    for (int64_t at = cs_run_first(flat); at < flat.count; at += cs_run_step()) {
        float wide[CS_RUN];
        read_scaled(wide, job, at, all);
        cs_run_store(job.to, at, all, wide);
    }
}

/* Converts the first elements, whose old and new bytes overlap; launched as one block. */
static __global__ void __launch_bounds__(FIRST_THREADS) convert_overlapping(convert_job job, int64_t count)
{
    float wide[CS_RUN];
    cs_range all = { 0, count };
    int64_t at = (int64_t)threadIdx.x * CS_RUN;
    read_scaled(wide, job, at, all);
    __syncthreads();
    cs_run_store(job.to, at, all, wide);
}

/* Converts elements [range.from, range.to), whose old and new bytes do not overlap. */
static void convert_part(cudaStream_t stream, const convert_job &job, cs_range range)
{
    convert_job part = job;
    cs_flat flat = { 0, range.to - range.from };
    part.to.data += range.from * (int64_t)cs_dtype_bytes(job.to.dtype);
    part.from.data += range.from * (int64_t)cs_dtype_bytes(job.from.dtype);
    cs_launch(stream, cs_run_shape(flat), convert_runs, part, flat);
}

static void convert_in_place(cudaStream_t stream, const convert_job &job, int64_t count)
{
    bool wider = cs_dtype_bytes(job.to.dtype) > cs_dtype_bytes(job.from.dtype);
    int64_t min = count < FIRST ? count : (int64_t)FIRST, last = FIRST;
    while (last < count)
        last *= 2;
    for (int64_t to = last; wider && to > FIRST; to /= 2)
        if (to / 2 < count)
            convert_part(stream, job, cs_range{ to / 2, to < count ? to : count });
    cs_launch(stream, cs_shape{ dim3(1), dim3(FIRST_THREADS) }, convert_overlapping, job, min);
    for (int64_t from = FIRST; !wider && from < count; from *= 2)
        convert_part(stream, job, cs_range{ from, 2 * from < count ? 2 * from : count });
}

extern "C" void cs_cuda_convert(cs_stream *stream, cs_tensor to, cs_tensor from, float factor)
{
    convert_job job = { cs_run_view(to), cs_run_view(from), factor };
    cs_flat flat = cs_run_flat(to);
    if (flat.count == 0)
        return;
    if (to.data == from.data && cs_dtype_bytes(to.dtype) != cs_dtype_bytes(from.dtype))
        convert_in_place(cs_cuda_stream(stream), job, flat.count);
    else
        cs_launch(cs_cuda_stream(stream), cs_run_shape(flat), convert_runs, job, flat);
}
