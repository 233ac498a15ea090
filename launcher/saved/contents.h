/* contents.h - the tensors of one checkpoint: their positions in its files, and statistics. For `cspeed inspect`. */
#ifndef CL_CONTENTS_H
#define CL_CONTENTS_H

#include "saved/open_checkpoint.h"

/* Returns a JSON array of the tensors whose names match the pattern: [{"name", "dtype", "shape", "bytes", "parts":
 * [...]}, ...]. The caller owns the returned reference. */
json_t *cl_contents_tensors(const ce_checkpoint_reader *reader, const char *glob);

/* Prints the array of cl_contents_tensors as a table to stdout. */
void cl_contents_print(const json_t *tensors);

/* Returns the statistics of one tensor as a JSON object, which the caller owns. If there is no such tensor or it is
 * damaged, returns NULL, with *status set and a sentence in cs_error(). */
json_t *cl_contents_stats(const ce_checkpoint_reader *reader, const char *name, cs_status *status);

/* Prints the statistics and a histogram of a tensor to stdout. */
void cl_contents_print_stats(const json_t *stats);

#endif
