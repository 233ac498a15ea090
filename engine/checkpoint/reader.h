/* reader.h - the contents of an open checkpoint reader, for the other files of this folder and for commands that
 * inspect a checkpoint. */
#ifndef CS_CHECKPOINT_READER_H
#define CS_CHECKPOINT_READER_H

#include "checkpoint/chunks.h"

typedef struct ce_search ce_search; /* load.c: the candidate checkpoints and the order in which they are tried */

struct ce_checkpoint_reader {
    ce_checkpoint_reading reading;
    ce_search *search;
    cs_status damage; /* why the last ce_checkpoint_read failed on damaged files; CS_OK: it did not */

    char *path; /* path of the checkpoint's directory */
    ce_manifest manifest;
    ce_chunks chunks;
    char *client_state; /* NULL: the checkpoint has none */
};

/* Opens the checkpoint dir/name in the way that reader->reading describes. All members after `search` must be zeroed
 * before the call; the caller closes the reader, also after a failure. Collective. ce_reader_close does not free
 * `reading` and `search`. */
cs_status ce_reader_open(ce_checkpoint_reader *reader, cs_comm *comm, const char *dir, const char *name);
void ce_reader_close(ce_checkpoint_reader *reader);

#endif
