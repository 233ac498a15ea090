/* import_state.h - `cspeed import` of a training state into an output folder from which `train` continues. */
#ifndef CL_IMPORT_STATE_H
#define CL_IMPORT_STATE_H

#include "saved/weights.h"

/* Returns true if request->from is a folder with the state of a training (interchange/training_state.h). */
bool cl_import_state_is(const cl_weights_request *request);
/* Writes the folder request->to with one checkpoint, for the configuration request->config. After a failure, that
 * folder does not exist. */
cs_status cl_import_state(const cl_weights_request *request);

#endif
