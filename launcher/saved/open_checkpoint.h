/* open_checkpoint.h - opening one checkpoint that the user names as "DIR", "DIR --tag TAG" or "DIR/TAG".
 *
 * The process opens it outside any job, with a communicator of one rank. */
#ifndef CL_OPEN_CHECKPOINT_H
#define CL_OPEN_CHECKPOINT_H

#include "checkpoint/reader.h"

typedef struct {
    cs_comm *self;
    ce_checkpoint_reader *reader;
} cl_open_checkpoint;

/* Splits a path that is either a folder of checkpoints or one checkpoint. Returns the folder, malloc'ed. *tag becomes
 * the malloc'ed tag of the checkpoint if the path names one, else NULL. */
char *cl_open_checkpoint_locate(const char *path, char **tag);

/* `tag` NULL: opens the checkpoint that `latest` names, or the newest complete one. Returns an exit code, with a
 * sentence in cs_error(). */
int cl_open_checkpoint_open(cl_open_checkpoint *checkpoint, const char *path, const char *tag);
/* must be called also after a failed cl_open_checkpoint_open */
void cl_open_checkpoint_close(cl_open_checkpoint *checkpoint);

#endif
