/* reader.h - inside an open checkpoint; for the files beside it, and for commands that look into one. */
#ifndef CS_CHECKPOINT_READER_H
#define CS_CHECKPOINT_READER_H

#include "checkpoint/chunks.h"

typedef struct cs_search cs_search; /* load.c: the checkpoints that are tried one after the other */

struct cs_checkpoint_reader {
    cs_checkpoint_reading reading;
    cs_search *search;
    cs_status damage; /* the files: what the last cs_checkpoint_read failed for; CS_OK: it did not */

    char *path; /* of the checkpoint's directory */
    cs_manifest manifest;
    cs_chunks chunks;
    char *client_state; /* NULL: none was saved */
};

/* Opens the checkpoint in dir/name as reader->reading says. Collective; all behind reader->search is zeroed before, and
 * closed by the caller on failure too. cs_reader_close keeps `reading` and `search`. */
cs_status cs_reader_open(cs_checkpoint_reader *reader, cs_comm *comm, const char *dir, const char *name);
void cs_reader_close(cs_checkpoint_reader *reader);

#endif
