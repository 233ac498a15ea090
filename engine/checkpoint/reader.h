/* reader.h - the members of an open checkpoint reader, for the other files of this folder and for commands that inspect
 * a checkpoint. */
#ifndef CE_CHECKPOINT_READER_H
#define CE_CHECKPOINT_READER_H

#include "checkpoint/chunks.h"

/* The candidate checkpoints and the order in which they are tried; private to load.c. */
typedef struct ce_search ce_search;

struct ce_checkpoint_reader {
    ce_checkpoint_reading reading;
    ce_search *search;
    /* The status of the last ce_checkpoint_read that read files: CS_OK, or the error of a file that is damaged or
     * cannot be read. A call that fails because the pieces do not fit the checkpoint reads no files. */
    cs_status damage;

    char *path; /* path of the checkpoint's directory */
    ce_manifest manifest;
    ce_chunks chunks;
    char *client_state; /* text of the client state; NULL if the checkpoint has none */
};

/* Opens the checkpoint dir/name as reader->reading says. Before the call the caller zeroes the members that are
 * declared after `search`. The caller closes the reader, also after a failure. ce_reader_close does not free `reading`
 * and `search`. The call is collective. */
cs_status ce_reader_open(ce_checkpoint_reader *reader, cs_comm *comm, const char *dir, const char *name);
void ce_reader_close(ce_checkpoint_reader *reader);

#endif
