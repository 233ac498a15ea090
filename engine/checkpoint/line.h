/* line.h - ancestry of a checkpoint: the earlier checkpoints that it continues, newest first (its "line"). Runs on rank
 * 0.
 *
 * A training that resumes from an earlier checkpoint abandons the later ones, although these have higher steps. A
 * manifest therefore lists, under CE_LINE_KEY, the checkpoints in the same directory that the training has continued.
 * An entry of the list has the tag of a checkpoint and the digest of that checkpoint's manifest. The digest
 * distinguishes the checkpoint from another save under the same tag. The entries have no paths, so the list remains
 * valid when the directory is copied or moved. */
#ifndef CE_CHECKPOINT_LINE_H
#define CE_CHECKPOINT_LINE_H

#include "checkpoint/catalog.h"
#include "checkpoint/manifest.h"

/* Returns the list of ancestors for a new checkpoint that continues the checkpoint of `manifest`. The list begins with
 * the checkpoint of `manifest`; the list in `manifest` follows. The result is a new reference. */
json_t *ce_line_behind(const ce_manifest *manifest);

/* Inserts a checkpoint at the front of the list, and removes an earlier entry with the same tag. */
void ce_line_add(json_t *line, const char *tag, uint32_t digest);

/* Removes the entries of checkpoints that no longer exist in dir, so that the list of a long training stays short. The
 * first entry, the parent, is never removed. */
void ce_line_shorten(json_t *line, const char *dir);

/* Sets the member `generation` of each catalog item: 0 for the checkpoint dir/name, 1 for the parent of dir/name, and
 * so on. Then sorts the items by generation. The function reads only the list in the manifest of dir/name, so the rest
 * of that manifest may be damaged. A damaged entry of the list matches no complete checkpoint. */
void ce_line_follow(ce_catalog *catalog, const char *dir, const char *name);

/* This function is called after ce_line_follow. Returns true if the item belongs to an abandoned branch: the item's
 * manifest has a list of ancestors, but the item is neither the checkpoint that was given to ce_line_follow nor an
 * ancestor of that checkpoint. Checkpoints of abandoned branches are not pruned, because only the user knows whether
 * they are still wanted. A checkpoint whose manifest has no list never counts as abandoned. */
bool ce_line_is_abandoned(const ce_catalog_item *item);

#endif
