/* checkpoint.h - saves and loads sharded checkpoints that do not depend on the world size: they name tensors and
 * ranges, never ranks.
 *
 *     OUTPUT/latest                     the tag, without a newline
 *     OUTPUT/<tag>/manifest.json        written last: the commit record, with a checksum of itself and
 *                                       the list of the checkpoints that this one continues (line.h)
 *                  client_state.json    the user's JSON, verbatim
 *                  ds_config.json       the configuration used
 *                  weights/shard-00001-of-00002.safetensors   fp32 master weights; keys are parameter names
 *                  optim/shard-00001-of-00002.safetensors     optimizer state; keys are state.<name>.exp_avg etc.
 *
 * A shard is an ordinary safetensors file of axis-aligned boxes in the sharded convention of PyTorch DCP. Its header
 * holds a CRC32C for every 16 MiB block of every chunk; the manifest holds the CRC32C of each header. A file holds at
 * most one box of a tensor, so a rank writes a few files per folder, of which all but the first are small. A save
 * writes into the staging directory .cspeed-tmp-<tag>-<id>, calls fsync on files and directories, renames the
 * directory, then replaces `latest` by a rename. A directory without a valid manifest is not a checkpoint.
 *
 * The caller describes its state in pieces: a piece is a contiguous range of a named row-major tensor, with the address
 * of its elements. */
#ifndef CS_CHECKPOINT_CHECKPOINT_H
#define CS_CHECKPOINT_CHECKPOINT_H

#include "base/json.h"
#include "base/range.h"
#include "base/status.h"
#include "cspeed/comm.h"

typedef struct {
    const char *name;   /* "transformer.wte.weight"                                  */
    const char *folder; /* "weights" or "optim"                                      */
    cs_dtype dtype;     /* type in the file and in memory when saving; in memory when loading */
    int32_t dims;
    int64_t shape[CS_MAX_DIMS]; /* of the whole tensor, without padding */
    ce_range range;             /* row-major element range of the tensor that this piece covers */
    void *data;
} ce_piece;

static inline size_t ce_piece_bytes(const ce_piece *piece)
{
    return (size_t)ce_range_length(piece->range) * cs_dtype_bytes(piece->dtype);
}

/* Copy functions for pieces in device memory. fetch copies device memory to host memory and is complete when it
 * returns; several threads may call it at the same time. send copies host memory to device memory; the copy is complete
 * after the caller of ce_checkpoint_read has synchronized with the device. */
typedef struct {
    void (*fetch)(void *argument, void *to, const void *from, size_t bytes);
    void (*send)(void *argument, void *to, const void *from, size_t bytes);
    void *argument;
} ce_checkpoint_device_copy;

/* How files are written. A zeroed struct means one thread, 8 MiB buffers and direct I/O where the file system allows
 * it. */
typedef struct {
    int threads;         /* files that a rank writes at the same time */
    size_t buffer_bytes; /* bytes of one write, a multiple of 4096; 0: 8 MiB */
    bool buffered;       /* through the page cache instead of direct I/O */
} ce_checkpoint_writing;

typedef struct {
    const char *tag;          /* any string but ""; the directory's name is its escaped form (tag.h) */
    const char *client_state; /* JSON text or NULL                                                  */
    const char *config_text;  /* text of ds_config.json */
    const json_t *engine;  /* "engine" of the manifest: step counts, loss scaler, optimizer, schedule, data position */
    const json_t *aliases; /* {"lm_head.weight": "transformer.wte.weight"}                       */
    const json_t *provenance; /* world_size, zero_stage, ...                                        */
    int64_t keep_last;        /* number of newest checkpoints that pruning keeps; 0: all */
    int64_t keep_every;       /* checkpoints whose step is a multiple of this are never pruned; 0: no such rule */
    int64_t step;
    /* Rank 0: list of the checkpoints that this one continues (line.h); when the save is complete this checkpoint is
     * added to it. NULL: no list is recorded. */
    json_t *line;
    const json_t *damaged;  /* names of damaged directories in dir that must be kept, or NULL */
    const ce_piece *pieces; /* what this rank writes; the pieces of all ranks together cover each tensor exactly once */
    int64_t piece_count;
    const ce_checkpoint_device_copy *device_copy; /* how the pieces are read; NULL: they are in host memory */
    ce_checkpoint_writing writing;
    bool finite; /* fail with CS_NOT_FINITE if a piece of "weights" holds an infinity or a NaN */
} ce_checkpoint_content;

/* Saves a checkpoint under dir. Collective: every rank returns the same status and message. On failure all earlier
 * checkpoints are unchanged. */
cs_status ce_checkpoint_save(cs_comm *comm, const char *dir, const ce_checkpoint_content *content);

typedef struct ce_checkpoint_reader ce_checkpoint_reader;

/* How a checkpoint is read. A zeroed struct means: fall back to the newest complete checkpoint, verify what is read,
 * and require the names that are asked for. */
typedef struct {
    bool no_fallback; /* fail if `latest` is missing or its checkpoint is damaged */
    /* Which blocks are verified against their checksums: those that are read, all, or none. Headers are always
     * verified. */
    enum { CS_VERIFY_TOUCHED, CS_VERIFY_FULL, CS_VERIFY_OFF } verify;
    /* WANTED: the checkpoint must hold every piece. ALL: in addition it must hold no other tensor in the folders that
     * are read. LOOSE: a piece that it does not hold is left unchanged. A different shape is always a failure. */
    enum { CS_NAMES_WANTED, CS_NAMES_ALL, CS_NAMES_LOOSE } names;
    const ce_checkpoint_device_copy *device_copy; /* how pieces are written; NULL: they are in host memory */
} ce_checkpoint_reading;

/* Opens the checkpoint of `tag` in dir. If tag is NULL, opens the checkpoint that dir/latest names. If that one is
 * missing or damaged, opens, with a warning, its newest complete ancestor, or else the newest complete checkpoint of
 * dir. CS_NOT_FOUND: dir holds no checkpoint, or not this tag (the message lists the existing tags). CS_BAD_FILE:
 * damaged; the message names the file and the tensor. Collective. */
cs_status ce_checkpoint_open(ce_checkpoint_reader **reader, cs_comm *comm, const char *dir, const char *tag);
cs_status ce_checkpoint_open_as(ce_checkpoint_reader **reader, cs_comm *comm, const char *dir, const char *tag,
                                const ce_checkpoint_reading *reading);
void ce_checkpoint_close(ce_checkpoint_reader *reader); /* accepts NULL */
const char *ce_checkpoint_tag(const ce_checkpoint_reader *reader);
json_t *ce_checkpoint_engine(ce_checkpoint_reader *reader);           /* borrowed */
json_t *ce_checkpoint_provenance(ce_checkpoint_reader *reader);       /* borrowed */
const char *ce_checkpoint_client_state(ce_checkpoint_reader *reader); /* verbatim; NULL: none was saved */
/* Fills the pieces (any ranges; ranges of different ranks may overlap) and verifies every block that is read for them.
 * CS_BAD_FILE, with the name, if the checkpoint lacks a tensor or has another shape for it. Collective. */
cs_status ce_checkpoint_read(ce_checkpoint_reader *reader, cs_comm *comm, const ce_piece *pieces, int64_t piece_count);

/* Damage of a checkpoint's files may be found only when they are read. ce_checkpoint_is_damaged: true, on all ranks, if
 * the last ce_checkpoint_read failed because files are damaged on any rank, and not because the checkpoint does not fit
 * the pieces. ce_checkpoint_fall_back closes that checkpoint and opens the next candidate of ce_checkpoint_open, with a
 * warning; the caller must then read everything again, including the manifest's "engine". If there is no other
 * candidate, or falling back is not allowed, it fails with what was wrong with each candidate. Collective. */
bool ce_checkpoint_is_damaged(const ce_checkpoint_reader *reader);
cs_status ce_checkpoint_fall_back(ce_checkpoint_reader *reader, cs_comm *comm);
/* Names of the directories in dir that were found damaged before the open checkpoint was tried; borrowed. */
json_t *ce_checkpoint_damaged(const ce_checkpoint_reader *reader);

#endif
