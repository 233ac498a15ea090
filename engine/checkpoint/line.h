/* line.h - ancestry of a checkpoint: the earlier checkpoints that it continues, newest first (its "line"). Runs on rank
 * 0.
 *
 * A training that resumes from an earlier checkpoint abandons the later ones, although these have higher steps. A
 * manifest therefore lists, under CS_LINE_KEY, the checkpoints of its directory from which its training descends. Each
 * is identified by its tag and the digest of its manifest. The digest distinguishes it from another save under the same
 * tag, and the list remains valid when the directory is copied or moved. */
#ifndef CS_CHECKPOINT_LINE_H
#define CS_CHECKPOINT_LINE_H

#include "checkpoint/catalog.h"
#include "checkpoint/manifest.h"

/* Returns the list for a new checkpoint that continues the checkpoint of `manifest`: first that checkpoint, then its
 * own list. The result is a new reference. */
json_t *ce_line_behind(const ce_manifest *manifest);

/* Inserts a checkpoint at the front of the list, and removes an earlier entry with the same tag. */
void ce_line_add(json_t *line, const char *tag, uint32_t digest);

/* Removes the entries of checkpoints that no longer exist in dir, so that the list of a long training stays short. The
 * first entry, the parent, is never removed. */
void ce_line_shorten(json_t *line, const char *dir);

/* Sets the generation of each catalog item relative to the checkpoint dir/name, and sorts the items by generation. Only
 * the list in the manifest of dir/name is used, so the rest of that manifest may be damaged; a damaged entry of the
 * list matches no complete checkpoint. */
void ce_line_follow(ce_catalog *catalog, const char *dir, const char *name);

/* This function is called after ce_line_follow. Returns true if the item has a list of ancestors but is not an ancestor
 * of the checkpoint that was given to ce_line_follow, that is, if it belongs to an abandoned branch. Such a checkpoint
 * is not pruned, since only its owner knows whether it is still wanted. A checkpoint whose manifest has no list is
 * treated as an ancestor. */
bool ce_line_is_abandoned(const ce_catalog_item *item);

#endif
