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
    ce_piece *empty; /* tensors without elements, which rank 0 writes */
    int64_t empty_count;
} ce_coverage;

/* Collective. *coverage stays empty on ranks other than 0. CS_BAD_CONFIG if pieces of one tensor differ in type, shape
 * or folder, overlap, or leave elements uncovered. */
cs_status ce_coverage_open(ce_coverage *coverage, cs_comm *comm, const ce_piece *pieces, int64_t count);
void ce_coverage_close(ce_coverage *coverage);

/* ---- save.c: the stages ---- */

typedef struct {
    int64_t files[CS_WRITE_PLAN_FOLDERS];
    int64_t bytes;
} ce_save_volume;

typedef struct {
    cs_comm *comm;
    int rank, size;
    const char *dir;                      /* borrowed until ce_save_close */
    const ce_checkpoint_content *content; /* borrowed until ce_save_close */
    char save_id[CS_SHARDFILE_ID];
    ce_coverage coverage;
    ce_write_plan plan;
    ce_save_volume *volumes; /* one for each rank */
    ce_save_volume total;
    ce_staging staging;           /* rank 0 */
    uint32_t digest;              /* rank 0: digest of the manifest that was written */
    char *path;                   /* path of the staging directory, on every rank */
    ce_shardfile_record *records; /* one for each file of this rank */
    ce_shardfile_record *all;     /* rank 0: of all files */
} ce_save;

cs_status ce_save_open(ce_save *save, cs_comm *comm, const char *dir,
                       const ce_checkpoint_content *content); /* collective */
cs_status ce_save_write(ce_save *save);                       /* writes this rank's files; no communication */
void ce_save_gather(ce_save *save);                           /* collective */
cs_status ce_save_commit(ce_save *save);                      /* does nothing on ranks other than 0; no communication */
void ce_save_close(ce_save *save);                            /* allowed after a failed open; no communication */

#endif
