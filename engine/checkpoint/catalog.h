/* catalog.h - lists the complete checkpoints of a directory, newest first. Each function works on one rank, without
 * communication. */
#ifndef CS_CHECKPOINT_CATALOG_H
#define CS_CHECKPOINT_CATALOG_H

#include "checkpoint/tag.h"

#define CS_NO_ANCESTOR INT64_MAX

typedef struct {
    char *name; /* name of the checkpoint's directory */
    char *tag;
    int64_t step;
    uint32_t digest; /* digest of its manifest (ce_manifest) */
    bool has_line;   /* its manifest lists the checkpoints that it continues */
    int64_t
        /* Set by ce_line_follow: 0 for the followed checkpoint, 1 for its parent, ...; CS_NO_ANCESTOR: not an ancestor.
         */
        generation;
} ce_catalog_item;

typedef struct {
    ce_catalog_item *items; /* sorted by step, highest first; after ce_line_follow by generation, then by step */
    int64_t count;
    char *broken; /* message about a checkpoint that has a manifest and is not complete; NULL: there is none */
} ce_catalog;

/* A checkpoint is complete if its manifest is valid and every file has the length that the manifest gives. Directories
 * that ce_staging_set_aside has renamed are skipped. The caller closes the catalog, also after a failure. */
cs_status ce_catalog_open(ce_catalog *catalog, const char *dir);
void ce_catalog_close(ce_catalog *catalog);

/* Sets `name` to the name of the tag's directory. CS_NOT_FOUND lists the tags that exist. */
cs_status ce_catalog_find(char name[CS_TAG_BYTES], const char *dir, const char *tag);

/* Sets `name` to the name of the directory that dir/latest points to. CS_NOT_FOUND: dir/latest does not exist;
 * CS_BAD_FILE: it holds no valid tag. */
cs_status ce_catalog_latest(char name[CS_TAG_BYTES], const char *dir);

#endif
