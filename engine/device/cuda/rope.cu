/* rope.cu - rotary position embedding (RoPE), in place. A rotation in the opposite direction computes the gradient.
 *
 * A block processes one position: it computes the cosines and sines once for all samples and heads. The kernel is bound
 * by memory: each element is read and written once. */
#include "device/cuda/run.cuh"

enum { HALF = CS_ROPE_WIDTH / 2, THREADS = 128 };

struct rope_job {
    ce_view x;
    int64_t rows, columns;
    cs_rope_rows at;
    float sign;
    int64_t head; /* number of columns from one head to the next */
};

/* Rotates the pairs of elements (i, i + middle) of a head, for a run of indices i. `middle` is half the number of
 * rotated columns. */
static __device__ void rotate_run(ce_view head, int64_t middle, int64_t i, const float *cosine, const float *sine)
{
    ce_range low_half = { 0, middle }, high_half = { middle, 2 * middle };
    ce_run run_low = ce_run_load(head, i, low_half), run_high = ce_run_load(head, i + middle, high_half);
    float low[CE_RUN], high[CE_RUN];
    ce_run_widen(low, run_low, head.dtype);
    ce_run_widen(high, run_high, head.dtype);
#pragma unroll
    for (int k = 0; k < CE_RUN; k++) {
        float x = low[k], y = high[k];
        low[k] = x * cosine[i + k] - y * sine[i + k];
        high[k] = y * cosine[i + k] + x * sine[i + k];
    }
    ce_run_store(head, i, low_half, low);
    ce_run_store(head, i + middle, high_half, high);
}

/* Rotates the pairs of elements (2 i, 2 i + 1) of a head, for a run of indices i. */
static __device__ void rotate_adjacent(ce_view head, int64_t middle, int64_t i, const float *cosine, const float *sine)
{
    ce_range all = { 0, 2 * middle };
    float both[2 * CE_RUN];
    ce_run_widen(both, ce_run_load(head, 2 * i, all), head.dtype);
    ce_run_widen(both + CE_RUN, ce_run_load(head, 2 * i + CE_RUN, all), head.dtype);
#pragma unroll
    for (int k = 0; k < CE_RUN; k++) {
        float x = both[2 * k], y = both[2 * k + 1];
        both[2 * k] = x * cosine[i + k] - y * sine[i + k];
        both[2 * k + 1] = y * cosine[i + k] + x * sine[i + k];
    }
    ce_run_store(head, 2 * i, all, both);
    ce_run_store(head, 2 * i + CE_RUN, all, both + CE_RUN);
}

static __global__ void __launch_bounds__(THREADS) rotate_positions(rope_job job, cs_rope rope)
{
    CE_SHARED float cosine[HALF], sine[HALF];
    int middle = (int)rope.width / 2, runs = (middle + CE_RUN - 1) / CE_RUN;
    for (int64_t position = blockIdx.x; position < job.at.length; position += gridDim.x) {
        __syncthreads();
        for (int i = (int)threadIdx.x; i < HALF; i += (int)blockDim.x) {
            float angle = i < middle ? (float)(job.at.first + position) * rope.frequency[i] : 0;
            cosine[i] = cosf(angle) * rope.factor;
            sine[i] = sinf(angle) * rope.factor * job.sign;
        }
        __syncthreads();
        for (int64_t row = position + blockIdx.y * job.at.length; row < job.rows; row += gridDim.y * job.at.length)
            for (int item = (int)threadIdx.x; item < (int)job.at.heads * runs; item += (int)blockDim.x) {
                ce_view head = ce_run_from(job.x, row * job.columns + item / runs * job.head);
                if (rope.adjacent)
                    rotate_adjacent(head, middle, item % runs * CE_RUN, cosine, sine);
                else
                    rotate_run(head, middle, item % runs * CE_RUN, cosine, sine);
            }
    }
}

/* If there are too few positions to fill the GPU, the samples are also divided between blocks. */
extern "C" void ce_cuda_rope(cs_device *device, const ce_turn *turn)
{
    rope_job job = { ce_run_view(turn->x), cs_rows(turn->x), cs_columns(turn->x),
                     turn->rows,           turn->sign,       ce_rope_head(turn->rope) };
    int64_t samples = ce_divide_up(job.rows, job.at.length);
    int64_t wanted = 16 * (int64_t)ce_cuda_facts_of(device)->processors;
    int64_t length = job.at.length < job.rows ? job.at.length : job.rows;
    if (job.rows == 0)
        return;
    int64_t across = ce_divide_up(wanted, length);
    across = across < samples ? across : samples;
    ce_shape shape = { dim3((unsigned)length, (unsigned)(across < 65535 ? across : 65535)), dim3(THREADS) };
    ce_launch(ce_cuda_compute(device), shape, rotate_positions, job, *turn->rope);
}
