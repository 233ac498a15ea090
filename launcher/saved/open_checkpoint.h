/* open_checkpoint.h - one checkpoint as a person names it, "DIR", "DIR --tag TAG" or "DIR/TAG", opened by this process alone. */
#ifndef CL_OPEN_CHECKPOINT_H
#define CL_OPEN_CHECKPOINT_H

#include "checkpoint/reader.h"

typedef struct {
    cs_comm *self;
    cs_checkpoint_reader *reader;
} cl_open_checkpoint;

/* dir/name from a path that may be either, malloc'ed; *tag becomes the name's when the path is a checkpoint itself. */
char *cl_open_checkpoint_locate(const char *path, char **tag);

/* tag NULL: what latest names, or the newest whole one. An exit code, with a sentence in cs_error(). */
int cl_open_checkpoint_open(cl_open_checkpoint *checkpoint, const char *path, const char *tag);
void cl_open_checkpoint_close(cl_open_checkpoint *checkpoint); /* accepts the half-open */

#endif
