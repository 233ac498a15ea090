/* judge.c - the verdict on a step, and the seed of backward. */
#include "device/cpu/cpu.h"

void cs_cpu_judge(cs_stream *stream, cs_verdict *verdict, const cs_step_sums *words, const cs_step_terms *terms)
{
    (void)stream;
    *verdict = cs_verdict_judge(words, terms, verdict->scaler);
}

void cs_cpu_seed(cs_stream *stream, cs_tensor dy, const double *scale, double divisor)
{
    cs_cpu_fill(stream->device, dy, (float)(*scale / divisor));
}
