/* staging.h - the staging directory in which a checkpoint is written, and the rename that commits it. Runs on rank 0.
 *
 * A save writes into dir/.cspeed-tmp-<tag>-<id>. The directory is locked while the saving process lives, so that a
 * later save can distinguish the leftovers of a dead process from a save in progress. */
#ifndef CS_CHECKPOINT_STAGING_H
#define CS_CHECKPOINT_STAGING_H

#include "checkpoint/tag.h"

typedef struct {
    const char *dir;         /* borrowed */
    const char *tag;         /* borrowed */
    char name[CS_TAG_BYTES]; /* name of the tag's directory */
    char *path;              /* dir/.cspeed-tmp-...; NULL: not created */
    int lock;
} ce_staging;

/* Removes leftovers of dead processes from dir, checks that the tag may be written and that `bytes` bytes fit on the
 * file system, and creates the staging directory. */
cs_status ce_staging_open(ce_staging *staging, const char *dir, const char *tag, const char *save_id, int64_t bytes);

/* Renames the staging directory, which must be complete and flushed to the disk, to the tag's name, and makes
 * dir/latest name it. On failure the previous state is restored. */
cs_status ce_staging_commit(ce_staging *staging);

/* Removes the remaining directory: the unfinished checkpoint, or the one that was replaced. */
void ce_staging_close(ce_staging *staging);

/* Makes dir/latest name this tag, whose checkpoint must exist. */
cs_status ce_staging_name_latest(const char *dir, const char *tag);

/* Renames the damaged checkpoint dir/name to dir/NAME~damaged, or NAME~damaged.2 and so on, so that later saves and
 * pruning do not touch it. CS_OK if the checkpoint does not exist. */
cs_status ce_staging_set_aside(const char *dir, const char *name);
bool ce_staging_is_aside(const char *name); /* true for such a name; no escaped tag is one */

/* Renames dir/name, then deletes it. After a crash between these two steps, the next save removes the renamed
 * directory. */
cs_status ce_staging_discard(const char *dir, const char *name);

#endif
