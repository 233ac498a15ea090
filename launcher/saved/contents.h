/* contents.h - the tensors of one checkpoint: their positions in the files, and statistics. For `cspeed inspect`. */
#ifndef CL_CONTENTS_H
#define CL_CONTENTS_H

#include "saved/open_checkpoint.h"

/* Returns the tensors whose name matches the pattern as a JSON array: [{"name", "dtype", "shape", "bytes", "parts":
 * [...]}, ...]. The caller owns the reference. */
json_t *cl_contents_tensors(const ce_checkpoint_reader *reader, const char *glob);

/* Prints the tensors as a table to stdout. */
void cl_contents_print(const json_t *tensors);

/* Returns the statistics of one tensor as a JSON object that the caller owns. Returns NULL, with *status set and a
 * sentence in cs_error(), if there is no such tensor or it is damaged. */
json_t *cl_contents_stats(const ce_checkpoint_reader *reader, const char *name, cs_status *status);

/* Prints the statistics and a histogram to stdout. */
void cl_contents_print_stats(const json_t *stats);

#endif
