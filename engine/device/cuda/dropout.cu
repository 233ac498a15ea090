/* dropout.cu - y = a + dropout(b), or y = dropout(b) if a is absent; and noise from the same random bits.
 *
 * The kernel is bound by memory: computing one Philox counter, which takes about 80 instructions, gives the random bits
 * of eight elements. blockIdx.y is the sample, so that each run of eight elements is one counter. Only runs of columns of
 * wider rows need more counters. */
#include "device/cuda/draw.cuh"

/* Says that the rows of a tensor are columns [from, from + columns) of rows of `width` columns. */
struct row_part {
    int64_t columns, from, width;
};

/* Applies dropout to the eight elements of the sample from `first` on, which may be in several rows. */
static __device__ void apply_to_columns(float *values, const ce_draw &draw, row_part part, int64_t sample,
                                        int64_t first)
{
    uint64_t key = ce_rng_mix(draw.keys[sample], draw.place);
    uint32_t kept = 0;
    for (int done = 0, count; done < CE_RUN; done += count) {
        int64_t row = (first + done) / part.columns, column = (first + done) % part.columns;
        uint64_t element = (uint64_t)(row * part.width + part.from + column);
        count = (int)min((int64_t)(CE_RUN - done), part.columns - column);
        kept |= (ce_draw_kept(key, element, draw.threshold) & ((1u << count) - 1)) << done;
    }
#pragma unroll
    for (int i = 0; i < CE_RUN; i++)
        values[i] = kept >> i & 1 ? values[i] * draw.scale : 0.0f;
}

template <bool in_columns>
static __global__ void __launch_bounds__(CE_RUN_THREADS)
    dropout_runs(ce_view y, ce_view a, ce_view b, ce_draw draw, row_part part, int64_t batch)
{
    for (int64_t sample = blockIdx.y; sample < batch; sample += gridDim.y) {
        int64_t first = sample * draw.sample;
        ce_range within = { 0, draw.sample };
        ce_view to = ce_run_from(y, first), more = ce_run_from(b, first);
        for (int64_t at = ce_run_first(ce_flat{}); at < draw.sample; at += ce_run_step()) {
            float out[CE_RUN], base[CE_RUN] = {};
            if (a.data)
                ce_run_read(base, ce_run_from(a, first), at, within);
            ce_run_read(out, more, at, within);
            if (in_columns)
                apply_to_columns(out, draw, part, sample, at);
            else
                ce_draw_apply(out, draw, sample, at);
            for (int i = 0; i < CE_RUN; i++)
                out[i] = a.data ? base[i] + out[i] : out[i];
            ce_run_store(to, at, within, out);
        }
    }
}

extern "C" void ce_cuda_add_dropout(cs_device *device, cs_tensor y, cs_tensor a, cs_tensor b, cs_dropout dropout)
{
    ce_draw draw = ce_draw_of(dropout, cs_count(y));
    ce_shape shape = ce_run_shape(ce_flat{ 0, draw.sample });
    shape.grid.y = (unsigned)(dropout.batch < 65535 ? dropout.batch : 65535);
    row_part part = { cs_columns(y), dropout.from, dropout.width };
    ce_launch(ce_cuda_compute(device), shape, dropout.width ? dropout_runs<true> : dropout_runs<false>, ce_run_view(y),
              ce_run_view(a), ce_run_view(b), draw, part, dropout.batch);
}

/* Returns the 16 random bits of an element of a sample. */
static __device__ uint32_t bits_of(uint64_t key, uint64_t element)
{
    ce_rng_block block = ce_rng_philox(key, element / CE_RUN);
    int part = (int)(element % CE_RUN);
    uint32_t word = block.word[0];
    for (int w = 1; w < CE_RUN / 2; w++)
        word = part / 2 == w ? block.word[w] : word;
    return word >> part % 2 * 16 & 0xffff;
}

static __global__ void __launch_bounds__(CE_RUN_THREADS)
    noise_runs(ce_view y, ce_flat flat, float size, ce_draw draw, row_part part)
{
    for (int64_t at = ce_run_first(flat); at < flat.count; at += ce_run_step()) {
        float values[CE_RUN];
        ce_run_read(values, y, at, ce_run_all(flat));
        for (int i = 0; i < CE_RUN; i++) {
            if (!ce_run_has(at + i, ce_run_all(flat)))
                continue;
            int64_t inside = (at + i) % draw.sample;
            uint64_t key = ce_rng_mix(draw.keys[(at + i) / draw.sample], draw.place);
            int64_t element = inside / part.columns * part.width + part.from + inside % part.columns;
            float bits = (float)bits_of(key, (uint64_t)element);
            values[i] += size * (bits + 0.5f - 32768.0f) / 32768.0f;
        }
        ce_run_store(y, at, ce_run_all(flat), values);
    }
}

extern "C" void ce_cuda_add_noise(cs_device *device, cs_tensor y, float size, cs_dropout dropout)
{
    dropout.rate = 1;
    int64_t columns = cs_columns(y);
    row_part part = { columns, dropout.width ? dropout.from : 0, dropout.width ? dropout.width : columns };
    ce_flat flat = ce_run_flat(y);
    ce_launch(ce_cuda_compute(device), ce_run_shape(flat), noise_runs, ce_run_view(y), flat, size,
              ce_draw_of(dropout, cs_count(y)), part);
}
