/* open_checkpoint.h - one checkpoint as a person names it, "DIR", "DIR --tag TAG" or "DIR/TAG", opened by this process alone. */
#ifndef CL_SHELF_H
#define CL_SHELF_H

#include "checkpoint/reader.h"

typedef struct {
    cs_comm *self;
    cs_checkpoint_reader *reader;
} cl_shelf;

/* dir/name from a path that may be either, malloc'ed; *tag becomes the name's when the path is a checkpoint itself. */
char *cl_shelf_place(const char *path, char **tag);

/* tag NULL: what latest names, or the newest whole one. An exit code, with a sentence in cs_error(). */
int cl_shelf_open(cl_shelf *shelf, const char *path, const char *tag);
void cl_shelf_close(cl_shelf *shelf); /* accepts the half-open */

#endif
