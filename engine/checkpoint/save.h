/* save.h - the stages of a checkpoint save, which checkpoint.h runs in one call and background.h between training
 * steps. Private to this folder.
 *
 * The ranks agree on what is written, and rank 0 creates the staging directory (open) -> every rank writes and flushes
 * its files (write) -> the ranks agree on the status -> rank 0 gathers a record of every file (gather), checks that it
 * exists, writes the manifest, renames the staging directory, replaces dir/latest and prunes (commit) -> the ranks
 * agree on the status. A failure on one rank is a failure on all; rank 0 then removes the staging directory (close). */
#ifndef CS_CHECKPOINT_SAVE_H
#define CS_CHECKPOINT_SAVE_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/write_plan.h"
#include "checkpoint/shardfile.h"
#include "checkpoint/staging.h"

/* ---- coverage.c: the check that the pieces of all ranks cover each tensor exactly once ---- */

/* What all ranks together will write; filled on rank 0. */
typedef struct {
    json_t *tensors; /* for the manifest: {name: {"dtype", "shape", "folder"}}; owns the names of `empty` */
    cs_piece *empty; /* tensors without elements, which rank 0 writes */
    int64_t empty_count;
} cs_coverage;

/* Collective. *coverage stays empty on ranks other than 0. CS_BAD_CONFIG if pieces of one tensor differ in type, shape
 * or folder, overlap, or leave elements uncovered. */
cs_status cs_coverage_open(cs_coverage *coverage, cs_comm *comm, const cs_piece *pieces, int64_t count);
void cs_coverage_close(cs_coverage *coverage);

/* ---- save.c: the stages ---- */

typedef struct {
    int64_t files[CS_WRITE_PLAN_FOLDERS];
    int64_t bytes;
} cs_save_volume;

typedef struct {
    cs_comm *comm;
    int rank, size;
    const char *dir;                      /* borrowed until cs_save_close */
    const cs_checkpoint_content *content; /* borrowed until cs_save_close */
    char save_id[CS_SHARDFILE_ID];
    cs_coverage coverage;
    cs_write_plan plan;
    cs_save_volume *volumes; /* one for each rank */
    cs_save_volume total;
    cs_staging staging;           /* rank 0 */
    uint32_t digest;              /* rank 0: digest of the manifest that was written */
    char *path;                   /* path of the staging directory, on every rank */
    cs_shardfile_record *records; /* one for each file of this rank */
    cs_shardfile_record *all;     /* rank 0: of all files */
} cs_save;

cs_status cs_save_open(cs_save *save, cs_comm *comm, const char *dir,
                       const cs_checkpoint_content *content); /* collective */
cs_status cs_save_write(cs_save *save);                       /* writes this rank's files; no communication */
void cs_save_gather(cs_save *save);                           /* collective */
cs_status cs_save_commit(cs_save *save);                      /* does nothing on ranks other than 0; no communication */
void cs_save_close(cs_save *save);                            /* allowed after a failed open; no communication */

#endif
