/* contents.h - what one checkpoint holds: tensors, where they lie, and their numbers. For `cspeed inspect`. */
#ifndef CL_CONTENTS_H
#define CL_CONTENTS_H

#include "saved/open_checkpoint.h"

/* {"tensors": [{"name", "dtype", "shape", "bytes", "parts": [...]}, ...], "aliases", ...} of those whose name matches.
 */
json_t *cl_contents_tensors(const cs_checkpoint_reader *reader, const char *glob);
void cl_contents_print(const json_t *tensors);

/* NULL, with a sentence in cs_error(), when there is no such tensor or it is damaged. */
json_t *cl_contents_stats(const cs_checkpoint_reader *reader, const char *name, cs_status *status);
void cl_contents_print_stats(const json_t *stats);

#endif
