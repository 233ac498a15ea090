/* open_checkpoint.h - opens one checkpoint that the user names as "DIR", "DIR --tag TAG" or "DIR/TAG".
 *
 * No job is needed: the process opens the checkpoint with a communicator of one rank. */
#ifndef CL_OPEN_CHECKPOINT_H
#define CL_OPEN_CHECKPOINT_H

#include "checkpoint/reader.h"

typedef struct {
    cs_comm *self;
    ce_checkpoint_reader *reader;
} cl_open_checkpoint;

/* Splits a path into a folder of checkpoints and a tag. Returns the folder, malloc'ed. If the path names one
 * checkpoint, *tag becomes its tag, malloc'ed. If the path names a folder of checkpoints, *tag becomes NULL. */
char *cl_open_checkpoint_locate(const char *path, char **tag);

/* Opens the checkpoint with this tag. If `tag` is NULL, uses the tag in `path`; if `path` has none, opens the
 * checkpoint that the file `latest` names, or the newest complete one. Returns 0 or an exit code; on failure cs_error()
 * has a sentence. */
int cl_open_checkpoint_open(cl_open_checkpoint *checkpoint, const char *path, const char *tag);
/* Closes the checkpoint. Call this function also if cl_open_checkpoint_open has failed. */
void cl_open_checkpoint_close(cl_open_checkpoint *checkpoint);

#endif
