/* dropout.cu - y = a + dropout(b), or y = dropout(b) if a is absent.
 *
 * The kernel is bound by memory: computing one Philox counter, which takes about 80 instructions, gives the random bits
 * of eight elements. blockIdx.y is the sample, so that each run of eight elements is one counter. Only a run of columns
 * of wider rows needs two counters. */
#include "device/cuda/draw.cuh"

static __global__ void __launch_bounds__(CE_RUN_THREADS)
    dropout_runs(ce_view y, ce_view a, ce_view b, ce_draw draw, int64_t batch)
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
            if (draw.width)
                ce_draw_apply_anywhere(out, draw, first + at, first + draw.sample);
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
    ce_draw draw = ce_draw_of(dropout, y);
    ce_shape shape = ce_run_shape(ce_flat{ 0, draw.sample });
    shape.grid.y = (unsigned)(dropout.batch < 65535 ? dropout.batch : 65535);
    ce_launch(ce_cuda_compute(device), shape, dropout_runs, ce_run_view(y), ce_run_view(a), ce_run_view(b), draw,
              dropout.batch);
}
