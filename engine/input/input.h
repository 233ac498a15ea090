/* input.h - the functions of input/ that other files call, in this room or outside: a batch on its way from the data set
 * to the device. The loader has a header of its own (loader.h). */
#ifndef CE_INPUT_INPUT_H
#define CE_INPUT_INPUT_H

#include "core/engine.h"

/* reference.c: the reference model of preference training, whose log-probabilities are computed once and kept in
 * cspeed.data.cache. If the data is pairs, ce_reference_open reads or computes the log-probabilities. *logps is
 * malloc'ed and laid out as in ce_evaluate_pairs. Collective. */
cs_status ce_reference_open(float **logps, cs_data *data);

/* curriculum.c: shortens the samples of the first steps */
cs_status ce_curriculum_open(cs_engine *engine);
void ce_curriculum_close(cs_engine *engine);
bool ce_curriculum_may_be(const cs_engine *engine, int64_t length); /* true if some step has samples of this length */

/* summary.c: prints what the windows of a split contain, and what is cut or left out */
void ce_summary_print(const cs_data *data, bool train);

extern const ce_observer ce_curriculum_observer; /* replaces the samples of a micro-batch by their prefixes */

#endif
