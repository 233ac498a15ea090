/* line.h - the checkpoints that one continues, newest first: its line. Rank 0's work.
 *
 * A training that goes back to an earlier checkpoint and on from there leaves later ones behind, which have higher
 * steps and are not what the newest one continues. A manifest therefore lists, under CS_LINE_KEY, the checkpoints of
 * its folder that the training has come through, each by its tag and the digest of its manifest, so that another save
 * under the same tag is not taken for it, and a folder may be copied and moved. */
#ifndef CS_CHECKPOINT_LINE_H
#define CS_CHECKPOINT_LINE_H

#include "checkpoint/catalog.h"
#include "checkpoint/manifest.h"

/* The list of a checkpoint that continues this one: this one, then what its manifest lists. A new reference. */
json_t *cs_line_behind(const cs_manifest *manifest);

/* Puts a checkpoint in front of the list, and takes out an earlier one of its tag. */
void cs_line_add(json_t *line, const char *tag, uint32_t digest);

/* Takes out all but the parent and those others that are still in dir: a training of any length has a short list. */
void cs_line_shorten(json_t *line, const char *dir);

/* Sets the generations of the catalog's items for the line of the checkpoint dir/name, and sorts the items by them. A
 * damaged manifest is good enough for this, as each entry must agree with a checkpoint that is whole. */
void cs_line_follow(cs_catalog *catalog, const char *dir, const char *name);

/* After that: whether the line leaves this item aside. It is not pruned, as nobody but its owner knows whether it is
 * wanted; one whose manifest has no list is not told from an ancestor. */
bool cs_line_leaves(const cs_catalog_item *item);

#endif
