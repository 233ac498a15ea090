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
 * A shard is an ordinary safetensors file of axis-aligned boxes in the sharded convention of PyTorch DCP. A chunk is
 * one box in a file. A shard's header has a CRC32C for every 16 MiB block of every chunk; the manifest has the CRC32C
 * of each header. A file has at most one box of a tensor, so a rank writes a few files per folder, and all but the
 * first are usually small. A save writes into the staging directory .cspeed-tmp-<tag>-<id>, calls fsync on files and
 * directories, renames the directory, then replaces `latest` by a rename. A directory without a valid manifest is not a
 * checkpoint.
 *
 * The caller describes its state in pieces. A piece names a row-major tensor and has the address of some of its
 * elements. Tensor parallelism cuts a tensor into boxes, and ZeRO divides the elements of a box into ranges; so a piece
 * is a range of the elements of a box of the tensor. */
#ifndef CE_CHECKPOINT_CHECKPOINT_H
#define CE_CHECKPOINT_CHECKPOINT_H

#include "json/json.h"
#include "base/boxes.h"
#include "base/status.h"
#include "cspeed/comm.h"

typedef struct {
    const char *name;   /* name of the tensor, for example "transformer.wte.weight" */
    const char *folder; /* folder of the tensor, "weights" or "optim" */
    cs_dtype dtype;     /* When saving, the type in memory and in the file; when loading, the type in memory. */
    int32_t dims;
    int64_t shape[CS_MAX_DIMS]; /* shape of the whole tensor, without padding */
    ce_box part;                /* the box of the tensor in which the piece lies; if dims is 0: the whole tensor */
    ce_range range;             /* the elements of `part`, counted in the box's own row-major order */
    void *data;                 /* address of the first of these elements */
    /* 0: the elements are contiguous in memory. Otherwise `range` is all of `part`, the elements of a row of `part` (its
     * last dimension) are contiguous, and each row begins `pitch` elements after the row before it. */
    int64_t pitch;
} ce_piece;

static inline size_t ce_piece_bytes(const ce_piece *piece)
{
    return (size_t)ce_range_length(piece->range) * cs_dtype_bytes(piece->dtype);
}

/* Copy functions for pieces in device memory. `fetch` copies device memory to host memory and is complete when it
 * returns; several threads may call it at the same time. `send` copies host memory to device memory; this copy is
 * complete after the caller of ce_checkpoint_read has synchronized with the device. */
typedef struct {
    void (*fetch)(void *argument, void *to, const void *from, size_t bytes);
    void (*send)(void *argument, void *to, const void *from, size_t bytes);
    void *argument;
} ce_checkpoint_device_copy;

/* How files are written. A zeroed struct means one thread, 8 MiB buffers and direct I/O where the file system allows
 * it. */
typedef struct {
    int threads;         /* number of files that a rank writes at the same time */
    size_t buffer_bytes; /* bytes of one write, a multiple of 4096; 0 means 8 MiB */
    bool buffered;       /* true: files are written through the page cache instead of by direct I/O */
} ce_checkpoint_writing;

typedef struct {
    const char *tag;          /* any string but ""; the directory's name is its escaped form (tag.h) */
    const char *client_state; /* the user's JSON text, or NULL */
    const char *config_text;  /* text of ds_config.json */
    /* The manifest's member "engine": step counts, loss scaler, optimizer, schedule, data position. */
    const json_t *engine;
    const json_t *aliases;    /* tied parameters, such as {"lm_head.weight": "transformer.wte.weight"} */
    const json_t *provenance; /* facts about the run: world_size, zero_stage, ... */
    int64_t keep_last;        /* number of newest checkpoints that pruning keeps; 0: pruning keeps all */
    /* Checkpoints whose step is a multiple of this number are never pruned; 0 means that there is no such rule. */
    int64_t keep_every;
    int64_t keep_step; /* The checkpoint of this step is never pruned; 0 means that there is none. */
    int64_t step;
    /* On rank 0, the list of the checkpoints that this one continues (line.h). When the save is complete, this
     * checkpoint is added to the list. NULL means that the manifest gets no list. */
    json_t *line;
    /* Names of damaged directories in dir, which the save renames and does not delete; or NULL. */
    const json_t *damaged;
    /* What this rank writes. The pieces of all ranks together cover each tensor exactly once. */
    const ce_piece *pieces;
    int64_t piece_count;
    /* Functions that copy the elements of the pieces from device memory; NULL if the pieces are in host memory. */
    const ce_checkpoint_device_copy *device_copy;
    ce_checkpoint_writing writing;
    bool finite; /* true: the save fails with CS_NOT_FINITE if a piece of "weights" has an infinity or a NaN */
} ce_checkpoint_content;

/* Saves a checkpoint under dir. The call is collective, and every rank returns the same status and message. On failure
 * all earlier checkpoints are unchanged. */
cs_status ce_checkpoint_save(cs_comm *comm, const char *dir, const ce_checkpoint_content *content);

typedef struct ce_checkpoint_reader ce_checkpoint_reader;

/* How a checkpoint is read. A zeroed struct means: if the wanted checkpoint is missing or damaged, open the newest
 * complete one; verify the blocks that are read; require all tensors that are asked for. */
typedef struct {
    bool no_fallback; /* true: opening fails if `latest` is missing or its checkpoint is damaged */
    /* Which blocks are verified against their checksums: the blocks that are read, all blocks, or none. Headers are
     * always verified. */
    enum { CE_VERIFY_TOUCHED, CE_VERIFY_FULL, CE_VERIFY_OFF } verify;
    /* WANTED: the checkpoint must have every tensor of the pieces. ALL: in addition it must have no other tensor in the
     * folders that are read. LOOSE: a piece whose tensor is missing is left unchanged. A different shape is always an
     * error. */
    enum { CE_NAMES_WANTED, CE_NAMES_ALL, CE_NAMES_LOOSE } names;
    /* Functions that copy the elements of the pieces to device memory; NULL if the pieces are in host memory. */
    const ce_checkpoint_device_copy *device_copy;
} ce_checkpoint_reading;

/* Opens the checkpoint of `tag` in dir. If `tag` is NULL, tries these checkpoints in order until one can be opened, and
 * warns if the opened checkpoint is not the first of them: the checkpoint that dir/latest names; the complete ancestors
 * of this checkpoint, newest first; the other complete checkpoints of dir, newest first. Returns CS_NOT_FOUND if dir
 * has no checkpoint, or no checkpoint with this tag; the message then lists the existing tags. Returns CS_BAD_FILE if
 * the checkpoint of `tag`, or every checkpoint that was tried, is damaged; the message names the file and the tensor.
 * The call is collective. */
cs_status ce_checkpoint_open(ce_checkpoint_reader **reader, cs_comm *comm, const char *dir, const char *tag);
cs_status ce_checkpoint_open_as(ce_checkpoint_reader **reader, cs_comm *comm, const char *dir, const char *tag,
                                const ce_checkpoint_reading *reading);
void ce_checkpoint_close(ce_checkpoint_reader *reader); /* frees the reader; `reader` may be NULL */
const char *ce_checkpoint_tag(const ce_checkpoint_reader *reader);
/* The next two functions return borrowed references to members of the manifest: "engine" and "provenance". */
json_t *ce_checkpoint_engine(ce_checkpoint_reader *reader);
json_t *ce_checkpoint_provenance(ce_checkpoint_reader *reader);
/* The client state verbatim; NULL if none was saved. */
const char *ce_checkpoint_client_state(ce_checkpoint_reader *reader);
/* Fills the pieces and verifies every block that is read for them, unless verification is off. A piece may be any
 * range, and ranges of different ranks may overlap. Returns CS_BAD_FILE, with the tensor's name in the message, if a
 * tensor has another shape in the checkpoint, if its type cannot be converted, or if the checkpoint lacks it (allowed
 * with CE_NAMES_LOOSE). The call is collective. */
cs_status ce_checkpoint_read(ce_checkpoint_reader *reader, cs_comm *comm, const ce_piece *pieces, int64_t piece_count);

/* Damage of a checkpoint's files may be found only when the files are read. ce_checkpoint_is_damaged returns true on
 * all ranks if the last ce_checkpoint_read failed because, on any rank, files are damaged or cannot be read. It returns
 * false if the checkpoint does not fit the pieces. With CE_NAMES_LOOSE it always returns false, because pieces that are
 * already filled could keep their values. ce_checkpoint_fall_back closes the damaged checkpoint and opens the next
 * candidate of ce_checkpoint_open, with a warning; the caller must then read everything again, including the manifest's
 * "engine". If there is no other candidate, or no_fallback is set, ce_checkpoint_fall_back fails, with a message that
 * says what is wrong with each candidate. ce_checkpoint_fall_back is collective. */
bool ce_checkpoint_is_damaged(const ce_checkpoint_reader *reader);
cs_status ce_checkpoint_fall_back(ce_checkpoint_reader *reader, cs_comm *comm);
/* Returns the names of the directories in dir that were found damaged before the open checkpoint was tried;
 * borrowed. */
json_t *ce_checkpoint_damaged(const ce_checkpoint_reader *reader);

#endif
