/* judge.c - the decision whether a step counts (the verdict), and the gradient from which backward starts. */
#include "device/cpu/cpu.h"

void ce_cpu_judge(cs_stream *stream, ce_verdict *verdict, const ce_step_sums *words, const ce_step_terms *terms)
{
    (void)stream;
    *verdict = ce_verdict_judge(words, terms, verdict->scaler);
}

void ce_cpu_seed(cs_stream *stream, cs_tensor dy, const double *scale, double divisor)
{
    ce_cpu_fill(stream->device, dy, (float)(*scale / divisor));
}
