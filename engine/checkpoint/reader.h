/* reader.h - inside an open checkpoint; for the files beside it, and for commands that look into one. */
#ifndef CS_CHECKPOINT_READER_H
#define CS_CHECKPOINT_READER_H

#include "checkpoint/chunks.h"

struct cs_checkpoint_reader {
    cs_checkpoint_reading reading;

    char       *path; /* of the checkpoint's directory */
    cs_manifest manifest;
    cs_chunks   chunks;
    char       *client_state; /* NULL: none was saved */
};

/* Opens the checkpoint in dir/name as reader->reading says. Collective; the rest of the reader is zeroed before, and
 * closed by the caller on failure too.
 */
cs_status cs_reader_open(cs_checkpoint_reader *reader, cs_comm *comm, const char *dir, const char *name);
void      cs_reader_close(cs_checkpoint_reader *reader);

#endif
