/* save.h - the stages of a checkpoint save, which checkpoint.h runs in one call and background.h between training
 * steps. Private to this folder.
 *
 * The stages are, in this order:
 *     open     the ranks agree on what is written; rank 0 creates the staging directory
 *     write    every rank writes and flushes its files; then the ranks agree on the status
 *     gather   rank 0 receives a record of every file
 *     commit   rank 0 checks that every file exists, writes the manifest, renames the staging directory, replaces
 *              dir/latest and prunes; then the ranks agree on the status
 *     close    after a failure rank 0 removes the staging directory
 * A failure on one rank is a failure on all ranks. */
#ifndef CE_CHECKPOINT_SAVE_H
#define CE_CHECKPOINT_SAVE_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/write_plan.h"
#include "checkpoint/shardfile.h"
#include "checkpoint/staging.h"

/* ---- coverage.c: are all elements covered? ---- */

/* The tensors that all ranks together will write; filled on rank 0 only. */
typedef struct {
    /* The table of tensors for the manifest: {name: {"dtype", "shape", "folder"}}. The names in `empty` are borrowed
     * from this table. */
    json_t *tensors;
    ce_piece *empty; /* tensors without elements, which rank 0 writes */
    int64_t empty_count;
} ce_coverage;

/* Checks the pieces of all ranks together. Returns CS_BAD_CONFIG if pieces of one tensor differ in type, shape or
 * folder, overlap, or leave elements uncovered. *coverage stays empty on ranks other than 0. The call is collective. */
cs_status ce_coverage_open(ce_coverage *coverage, cs_comm *comm, const ce_piece *pieces, int64_t count);
void ce_coverage_close(ce_coverage *coverage);

/* ---- save.c: the stages ---- */

typedef struct {
    int64_t files[CE_WRITE_PLAN_FOLDERS];
    int64_t bytes;
} ce_save_volume;

typedef struct {
    cs_comm *comm;
    int rank, size;
    /* The arguments of ce_save_open, which the caller keeps valid until ce_save_close. */
    const char *dir;
    const ce_checkpoint_content *content;
    char save_id[CE_SHARDFILE_ID];
    ce_coverage coverage;
    ce_write_plan plan;
    ce_save_volume *volumes; /* what each rank writes, one element for each rank */
    ce_save_volume total;
    ce_staging staging;           /* the staging directory; used on rank 0 only */
    uint32_t digest;              /* on rank 0, the digest of the manifest that was written */
    char *path;                   /* path of the staging directory, known on every rank */
    ce_shardfile_record *records; /* the records of this rank's files */
    ce_shardfile_record *all;     /* on rank 0, the records of the files of all ranks */
} ce_save;

/* ce_save_open and ce_save_gather are collective. */
cs_status ce_save_open(ce_save *save, cs_comm *comm, const char *dir, const ce_checkpoint_content *content);
cs_status ce_save_write(ce_save *save); /* writes this rank's files; no communication */
void ce_save_gather(ce_save *save);
cs_status ce_save_commit(ce_save *save); /* works on rank 0 and does nothing on other ranks; no communication */
void ce_save_close(ce_save *save);       /* frees all memory; allowed after a failed open; no communication */

#endif
