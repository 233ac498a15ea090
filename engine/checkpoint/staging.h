/* staging.h - where a checkpoint grows, and the moment it becomes one. Rank 0's work.
 *
 * A save writes into dir/.cspeed-tmp-<tag>-<id>, locked while its process lives, so that a later save can tell the
 * leftovers of a dead run from the work of a living one. */
#ifndef CS_CHECKPOINT_STAGING_H
#define CS_CHECKPOINT_STAGING_H

#include "checkpoint/tag.h"

typedef struct {
    const char *dir;         /* borrowed */
    const char *tag;         /* borrowed */
    char name[CS_TAG_BYTES]; /* the tag's directory */
    char *path;              /* dir/.cspeed-tmp-... ; NULL: not made */
    int lock;
} cs_staging;

/* Removes what dead runs left in dir, checks that the tag may be written and that `bytes` fit, makes the directory. */
cs_status cs_staging_open(cs_staging *staging, const char *dir, const char *tag, const char *save_id, int64_t bytes);

/* The directory, complete and on the disk, takes the tag's name, and dir/latest names it. On failure all is as before.
 */
cs_status cs_staging_commit(cs_staging *staging);

/* Removes what is left: the unfinished checkpoint, or the one that was replaced. */
void cs_staging_close(cs_staging *staging);

/* dir/latest names this tag, whose checkpoint is there. */
cs_status cs_staging_name_latest(const char *dir, const char *tag);

/* Renames the damaged checkpoint dir/name to dir/NAME~damaged, or NAME~damaged.2 and so on: it is kept, whatever is
 * saved or pruned later. One that is gone is no failure. */
cs_status cs_staging_set_aside(const char *dir, const char *name);
bool cs_staging_is_aside(const char *name); /* no tag's directory has such a name */

/* Renames dir/name out of the way, then deletes it; a crash between leaves a name that the next save removes. */
cs_status cs_staging_discard(const char *dir, const char *name);

#endif
