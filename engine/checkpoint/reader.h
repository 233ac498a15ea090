/* reader.h - the contents of an open checkpoint reader, for the other files of this folder and for commands that
 * inspect a checkpoint. */
#ifndef CS_CHECKPOINT_READER_H
#define CS_CHECKPOINT_READER_H

#include "checkpoint/chunks.h"

typedef struct cs_search cs_search; /* load.c: the candidate checkpoints and the order in which they are tried */

struct cs_checkpoint_reader {
    cs_checkpoint_reading reading;
    cs_search *search;
    cs_status damage; /* why the last cs_checkpoint_read failed on damaged files; CS_OK: it did not */

    char *path; /* path of the checkpoint's directory */
    cs_manifest manifest;
    cs_chunks chunks;
    char *client_state; /* NULL: the checkpoint has none */
};

/* Opens the checkpoint dir/name as reader->reading requests. All members after `search` must be zeroed before the call;
 * the caller closes the reader, also after a failure. Collective. cs_reader_close does not free `reading` and `search`.
 */
cs_status cs_reader_open(cs_checkpoint_reader *reader, cs_comm *comm, const char *dir, const char *name);
void cs_reader_close(cs_checkpoint_reader *reader);

#endif
