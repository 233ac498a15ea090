/* catalog.h - lists the complete checkpoints of a directory, newest first. Each function works on one rank, without
 * communication. */
#ifndef CE_CHECKPOINT_CATALOG_H
#define CE_CHECKPOINT_CATALOG_H

#include "json/json.h"
#include "checkpoint/tag.h"

#define CE_NO_ANCESTOR INT64_MAX

typedef struct {
    char *name; /* name of the checkpoint's directory */
    char *tag;
    int64_t step;
    uint32_t digest; /* the digest of the checkpoint's manifest (ce_manifest) */
    bool has_line;   /* true if the manifest lists the ancestors of the checkpoint */
    /* Set by ce_line_follow: 0 for the checkpoint that was given to it, 1 for the parent of that checkpoint, and so on;
     * CE_NO_ANCESTOR for a checkpoint that is not an ancestor. */
    int64_t generation;
} ce_catalog_item;

typedef struct {
    /* Sorted by step, highest first; after ce_line_follow, sorted by generation, lowest first, and then by step. */
    ce_catalog_item *items;
    int64_t count;
    /* For each directory that is not listed although it has a manifest: its name, and why it is not complete or cannot be
     * read. NULL if there is none. */
    json_t *broken;
    bool refused; /* the system has refused to read one of these directories, which proves no damage */
} ce_catalog;

/* Lists the complete checkpoints of `dir`. A checkpoint is complete if its manifest is valid and every file has the
 * length that the manifest gives. Directories that ce_staging_set_aside has set aside are skipped. The caller closes the
 * catalog, also after a failure. */
cs_status ce_catalog_open(ce_catalog *catalog, const char *dir);
void ce_catalog_close(ce_catalog *catalog);

/* Sets `name` to the name of the tag's directory. If `dir` has no such directory, returns CS_NOT_FOUND with a message
 * that lists the existing tags. */
cs_status ce_catalog_find(char name[CE_TAG_BYTES], const char *dir, const char *tag);

/* Sets `name` to the name of the directory that dir/latest points to. Returns CS_NOT_FOUND if dir/latest does not
 * exist, and CS_BAD_FILE if it has no valid tag. */
cs_status ce_catalog_latest(char name[CE_TAG_BYTES], const char *dir);
/* Does the same with the file dir/`pointer`. */
cs_status ce_catalog_pointed(char name[CE_TAG_BYTES], const char *dir, const char *pointer);

#endif
