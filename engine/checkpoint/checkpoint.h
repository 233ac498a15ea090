/* checkpoint.h - state out and in, at any world size: names and ranges, never ranks.
 *
 *     OUTPUT/latest                     the tag, no newline
 *     OUTPUT/<tag>/manifest.json        written last: the commit record, with a checksum of itself
 *                                       and the list of the checkpoints that this one continues (line.h)
 *                  client_state.json    the user's JSON, verbatim
 *                  ds_config.json       the configuration used
 *                  weights/shard-00001-of-00002.safetensors   fp32 masters; keys are parameter names
 *                  optim/shard-00001-of-00002.safetensors     keys state.<name>.exp_avg and so on
 *
 * A shard is an ordinary safetensors file of axis-aligned boxes in PyTorch DCP's sharded convention, with a CRC32C for
 * every 16 MiB block of every chunk in its header; the manifest holds each header's CRC32C. A file holds at most one
 * box of a tensor, so a rank writes a few files a folder, of which all but the first are small. Saving stages in
 * .cspeed-tmp-<tag>-<id>, fsyncs files and directories, renames, then replaces latest by rename. A directory without a
 * valid manifest is not a checkpoint.
 *
 * The caller speaks in pieces: a contiguous range of a named row-major tensor, and where its elements are in memory. */
#ifndef CS_CHECKPOINT_CHECKPOINT_H
#define CS_CHECKPOINT_CHECKPOINT_H

#include "base/json.h"
#include "base/range.h"
#include "base/status.h"
#include "cspeed/comm.h"

typedef struct {
    const char *name;   /* "transformer.wte.weight"                                  */
    const char *folder; /* "weights" or "optim"                                      */
    cs_dtype dtype;     /* as stored and as in memory                                */
    int32_t dims;
    int64_t shape[CS_MAX_DIMS]; /* of the whole, unpadded tensor                             */
    cs_range range;             /* elements of it, in row-major order, that `data` begins with */
    void *data;
} cs_piece;

static inline size_t cs_piece_bytes(const cs_piece *piece)
{
    return (size_t)cs_range_length(piece->range) * cs_dtype_bytes(piece->dtype);
}

/* The way to pieces that are not in the host's memory but a device's: between it and host memory of any kind. fetch has
 * copied when it returns, and threads may call it at the same time; what was sent is there when the caller of
 * cs_checkpoint_read has waited for it. */
typedef struct {
    void (*fetch)(void *argument, void *to, const void *from, size_t bytes);
    void (*send)(void *argument, void *to, const void *from, size_t bytes);
    void *argument;
} cs_checkpoint_far;

/* How files are written. Zeros: one thread, buffers of 8 MiB, past the page cache where the file system allows. */
typedef struct {
    int threads;         /* files a rank writes at the same time      */
    size_t buffer_bytes; /* of one write; a multiple of 4096; 0: 8 MiB */
    bool buffered;       /* through the page cache                    */
} cs_checkpoint_writing;

typedef struct {
    const char *tag;          /* any string but ""; the directory's name is its escaped form        */
    const char *client_state; /* JSON text or NULL                                                  */
    const char *config_text;  /* goes into ds_config.json                                           */
    const json_t *engine;     /* the manifest's "engine": step counts, scaler, optimizer, schedule, data position */
    const json_t *aliases;    /* {"lm_head.weight": "transformer.wte.weight"}                       */
    const json_t *provenance; /* world_size, zero_stage, ...                                        */
    int64_t keep_last;        /* 0: keep all                                                        */
    int64_t keep_every;       /* steps whose checkpoint is never pruned: multiples of this; 0: none */
    int64_t step;
    json_t *line;           /* what this checkpoint continues (line.h), to which it is added when it is whole, on
                             * rank 0; NULL: not recorded */
    const json_t *damaged;  /* names of folders in dir that are damaged and to be kept, or NULL */
    const cs_piece *pieces; /* what this rank writes; all ranks' pieces cover each tensor exactly once */
    int64_t piece_count;
    const cs_checkpoint_far *far; /* how they are read; NULL: they are in the host's memory */
    cs_checkpoint_writing writing;
    bool finite; /* a piece of "weights" that holds an infinity or a NaN fails the save: CS_NOT_FINITE */
} cs_checkpoint_content;

/* Collective: the same status and sentence on every rank; on failure nothing of an earlier checkpoint is touched. */
cs_status cs_checkpoint_save(cs_comm *comm, const char *dir, const cs_checkpoint_content *content);

typedef struct cs_checkpoint_reader cs_checkpoint_reader;

/* How one is read. Zeros: fall back to the newest whole one, hold to its checksum what is read, ask for known names. */
typedef struct {
    bool no_fallback; /* latest that is missing or broken is a failure */
    enum { CS_VERIFY_TOUCHED, CS_VERIFY_FULL, CS_VERIFY_OFF } verify; /* blocks; headers are always held to theirs */
    /* WANTED: every piece must be there. ALL: and nothing else, in the folders that are read. LOOSE: what is not there
     * leaves its piece as it is. A shape that differs is always a failure. */
    enum { CS_NAMES_WANTED, CS_NAMES_ALL, CS_NAMES_LOOSE } names;
    const cs_checkpoint_far *far; /* how pieces are written; NULL: they are in the host's memory */
} cs_checkpoint_reading;

/* Collective. tag NULL: what dir/latest names; if that is missing or broken, the newest whole checkpoint of those that
 * it continues, then of all, with a warning that says so. CS_NOT_FOUND: dir holds no checkpoint, or not this tag (the
 * sentence lists those it holds). CS_BAD_FILE: damaged, with file, and tensor. */
cs_status cs_checkpoint_open(cs_checkpoint_reader **reader, cs_comm *comm, const char *dir, const char *tag);
cs_status cs_checkpoint_open_as(cs_checkpoint_reader **reader, cs_comm *comm, const char *dir, const char *tag,
                                const cs_checkpoint_reading *reading);
void cs_checkpoint_close(cs_checkpoint_reader *reader); /* accepts NULL */
const char *cs_checkpoint_tag(const cs_checkpoint_reader *reader);
json_t *cs_checkpoint_engine(cs_checkpoint_reader *reader);           /* borrowed */
json_t *cs_checkpoint_provenance(cs_checkpoint_reader *reader);       /* borrowed */
const char *cs_checkpoint_client_state(cs_checkpoint_reader *reader); /* verbatim; NULL: none was saved */
/* Fills the pieces (any ranges; ranks may overlap), verifying every block it touches. A tensor the checkpoint lacks, or
 * whose shape differs, is CS_BAD_FILE that says which. Collective. */
cs_status cs_checkpoint_read(cs_checkpoint_reader *reader, cs_comm *comm, const cs_piece *pieces, int64_t piece_count);

/* The files of a checkpoint may prove damaged only while they are read. cs_checkpoint_is_damaged: the last
 * cs_checkpoint_read failed for that reason, on any rank, and not because the checkpoint does not fit the pieces; it is
 * the same on all ranks. cs_checkpoint_fall_back closes that checkpoint and opens the next one that cs_checkpoint_open
 * would have tried, with a warning; then everything must be read again, from the manifest's numbers on. Its failure,
 * where there is no other one, or none is allowed, says what was wrong with each. Collective. */
bool cs_checkpoint_is_damaged(const cs_checkpoint_reader *reader);
cs_status cs_checkpoint_fall_back(cs_checkpoint_reader *reader, cs_comm *comm);
/* The names of the folders in dir that were found damaged before the one that is open; borrowed. */
json_t *cs_checkpoint_damaged(const cs_checkpoint_reader *reader);

#endif
