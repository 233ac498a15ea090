/* dropout.cu - y = a + dropout(b), or y = dropout(b) if a is absent.
 *
 * The kernel is bound by memory: one Philox counter, about 80 instructions, gives the random bits of eight elements.
 * blockIdx.y is the sample, so that each run of eight elements is one counter. */
#include "device/cuda/draw.cuh"

static __global__ void __launch_bounds__(CS_RUN_THREADS)
    dropout_runs(cs_view y, cs_view a, cs_view b, cs_draw draw, int64_t batch)
{
    for (int64_t sample = blockIdx.y; sample < batch; sample += gridDim.y) {
        int64_t first = sample * draw.sample;
        cs_range within = { 0, draw.sample };
        cs_view to = cs_run_from(y, first), more = cs_run_from(b, first);
        for (int64_t at = cs_run_first(cs_flat{}); at < draw.sample; at += cs_run_step()) {
            float out[CS_RUN], base[CS_RUN] = {};
            if (a.data)
                cs_run_read(base, cs_run_from(a, first), at, within);
            cs_run_read(out, more, at, within);
            cs_draw_apply(out, draw, sample, at);
            for (int i = 0; i < CS_RUN; i++)
                out[i] = a.data ? base[i] + out[i] : out[i];
            cs_run_store(to, at, within, out);
        }
    }
}

extern "C" void cs_cuda_add_dropout(cs_device *device, cs_tensor y, cs_tensor a, cs_tensor b, cs_dropout dropout)
{
    cs_draw draw = cs_draw_of(dropout, cs_count(y));
    cs_shape shape = cs_run_shape(cs_flat{ 0, draw.sample });
    shape.grid.y = (unsigned)(dropout.batch < 65535 ? dropout.batch : 65535);
    cs_launch(cs_cuda_compute(device), shape, dropout_runs, cs_run_view(y), cs_run_view(a), cs_run_view(b), draw,
              dropout.batch);
}
