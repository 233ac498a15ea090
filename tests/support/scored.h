/* scored.h - short trainings on texts, or on pairs of answers, followed by an evaluation, on any layout of ranks. */
#ifndef CS_TESTS_SCORED_H
#define CS_TESTS_SCORED_H

#include "cspeed/cspeed.h"

#include <stdbool.h>

enum { SCORED_RANKS = 8, SCORED_STEPS = 2 };

typedef struct {
    bool pairs; /* preference training, whose reference is the model before the training */
    int tp, lanes, stage;
    bool sequence; /* sequence parallelism */
    bool alone;    /* rank 0 evaluates alone, as far as it can (cspeed.eval_on) */
} scored_spec;

typedef struct {
    double loss[SCORED_RANKS][SCORED_STEPS]; /* of the steps of the training */
    cs_scores scores[SCORED_RANKS];          /* of the evaluation after the training */
} scored_result;

/* Trains and evaluates on spec->lanes * spec->tp ranks. The samples of a step do not depend on the layout. Fails the test
 * after any error. The caller frees the result with scored_free. */
scored_result *scored_run(const scored_spec *spec);
/* Compares the losses and the scores of all ranks with those of the same training on one rank. */
void scored_compare(const scored_spec *spec, const scored_result *got, const scored_result *one);
void scored_free(scored_result *result);

#endif
