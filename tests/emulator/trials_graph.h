/* trials_graph.h - trials of stream capture and CUDA graphs; for trials.cc. */
#ifndef CS_EMULATOR_TRIALS_GRAPH_H
#define CS_EMULATOR_TRIALS_GRAPH_H

#include "trials.h"

extern const emulator_right emulator_graph_trials[];
extern const int emulator_graph_trial_count;

#endif
