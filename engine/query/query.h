/* query.h - the functions of query/ that other files call: evaluation and prediction. */
#ifndef CE_QUERY_QUERY_H
#define CE_QUERY_QUERY_H

#include "core/engine.h"

/* Computes the log-probabilities of both answers of each pair of `data`: logps[2 * number of the pair + answer]. Every
 * rank gets the values of all pairs. Collective. */
void ce_evaluate_pairs(cs_engine *engine, cs_data *data, float *logps);

/* predict.c: runs one forward pass for the public call `verb`. The output is valid until the next public call. */
cs_status ce_predict_output(cs_engine *engine, const char *verb, const ce_forward_input *input, cs_tensor *output);
void ce_predict_close(cs_engine *engine); /* frees the memory of predictions */
extern const ce_observer ce_predict_observer;

/* check.c: the check of what units write, in every step with cspeed.check, otherwise in the first step of a model that the
 * program has defined. */
extern const ce_observer ce_check_observer;

#endif
