/* import_state.h - `cspeed import` of a training's state: an output folder from which `train` continues. */
#ifndef CL_IMPORT_STATE_H
#define CL_IMPORT_STATE_H

#include "saved/weights.h"

/* True if request->from is a folder of a training's state (interchange/training_state.h). */
bool cl_import_state_is(const cl_weights_request *request);
/* Writes request->to with one checkpoint, for the configuration request->config. On failure there is no such folder. */
cs_status cl_import_state(const cl_weights_request *request);

#endif
