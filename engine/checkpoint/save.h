/* save.h - state out, stage by stage: what is done at once, and in the background between steps. For the files beside
 * it.
 *
 * Agree on what is written, and rank 0 makes the staging directory (open) -> all write and flush their files (write) ->
 * agree -> rank 0 learns of every file (gather), looks at it, writes the manifest, renames, replaces latest, prunes
 * (commit) -> agree. Whatever fails on one rank fails on all, and rank 0 removes the staging directory (close). */
#ifndef CS_CHECKPOINT_SAVE_H
#define CS_CHECKPOINT_SAVE_H

#include "checkpoint/coverage.h"
#include "checkpoint/write_plan.h"
#include "checkpoint/shardfile.h"
#include "checkpoint/staging.h"

typedef struct {
    int64_t files[CS_WRITE_PLAN_FOLDERS];
    int64_t bytes;
} cs_save_volume;

typedef struct {
    cs_comm *comm;
    int rank, size;
    const char *dir;                      /* borrowed, until close */
    const cs_checkpoint_content *content; /* likewise */
    char save_id[CS_SHARDFILE_ID];
    cs_coverage coverage;
    cs_write_plan plan;
    cs_save_volume *volumes; /* of every rank */
    cs_save_volume total;
    cs_staging staging;           /* rank 0 */
    uint32_t digest;              /* rank 0: of the manifest that was written */
    char *path;                   /* of the staging directory, on every rank */
    cs_shardfile_record *records; /* of the own files */
    cs_shardfile_record *all;     /* rank 0: of all files */
} cs_save;

cs_status cs_save_open(cs_save *save, cs_comm *comm, const char *dir,
                       const cs_checkpoint_content *content); /* collective */
cs_status cs_save_write(cs_save *save);                       /* this rank's files; talks to nobody */
void cs_save_gather(cs_save *save);                           /* collective */
cs_status cs_save_commit(cs_save *save);                      /* rank 0's work, nothing on others; talks to nobody */
void cs_save_close(cs_save *save);                            /* accepts the half-open; talks to nobody */

#endif
