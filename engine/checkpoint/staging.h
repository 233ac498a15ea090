/* staging.h - the staging directory in which a checkpoint is written, and the rename that commits it. Runs on rank 0.
 *
 * A save writes into dir/.cspeed-tmp-<tag>-<id>. The directory is locked while the saving process lives, so that a
 * later save can distinguish the leftovers of a dead process from a save in progress. */
#ifndef CE_CHECKPOINT_STAGING_H
#define CE_CHECKPOINT_STAGING_H

#include "checkpoint/tag.h"

typedef struct {
    /* The arguments of ce_staging_open, which the caller keeps valid until ce_staging_close. */
    const char *dir;
    const char *tag;
    char name[CE_TAG_BYTES]; /* name of the tag's directory */
    char *path;              /* dir/.cspeed-tmp-...; NULL if it was not created */
    int lock;
    bool keep; /* the directory has the only copy of the tag's state, so ce_staging_close does not remove it */
} ce_staging;

/* Returns true if another process has locked the directory, that is, if it writes there. On a file system without locks
 * the directory counts as unlocked. */
bool ce_staging_is_locked(const char *path);

/* Removes leftovers of dead processes from dir and checks that the tag may be written and that the file system has
 * space for `bytes` bytes. Then creates the staging directory. */
cs_status ce_staging_open(ce_staging *staging, const char *dir, const char *tag, const char *save_id, int64_t bytes);

/* Renames the staging directory to the tag's name, and makes dir/latest name the tag. The staging directory must be
 * complete and flushed to the disk. After a failure the previous state is restored. */
cs_status ce_staging_commit(ce_staging *staging);

/* Removes the staging directory. It contains the unfinished checkpoint or, after a commit, the checkpoint that was
 * replaced. */
void ce_staging_close(ce_staging *staging);

/* Makes dir/latest name this tag, whose checkpoint must exist. */
cs_status ce_staging_name_latest(const char *dir, const char *tag);

/* Renames the damaged checkpoint dir/name to dir/NAME~damaged, or NAME~damaged.2 and so on, so that later saves and
 * pruning do not change it. If the file system cannot rename it, it is marked by a file in it, and only a save under its
 * tag replaces it. Returns CS_OK if the checkpoint does not exist. */
cs_status ce_staging_set_aside(const char *dir, const char *name);
/* Returns true if ce_staging_set_aside has set this directory aside: the directory then has a name that no tag can have,
 * or contains the file that marks it. */
bool ce_staging_is_aside(const char *dir, const char *name);

/* Gives its name to each complete checkpoint in `dir` that lacks only the name, because the save was killed before it
 * renamed the checkpoint, or between the removal of an earlier one of that name and the renaming. Leaves out a checkpoint
 * whose save is in progress, and one whose name a checkpoint has. */
void ce_staging_recover(const char *dir);

/* Renames dir/name, then deletes it. After a crash between these two steps, the next save removes the renamed
 * directory. */
cs_status ce_staging_discard(const char *dir, const char *name);

#endif
