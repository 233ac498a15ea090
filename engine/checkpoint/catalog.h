/* catalog.h - the whole checkpoints of a directory, newest first. One rank's view. */
#ifndef CS_CHECKPOINT_CATALOG_H
#define CS_CHECKPOINT_CATALOG_H

#include "checkpoint/tag.h"

#define CS_NO_ANCESTOR INT64_MAX

typedef struct {
    char *name; /* of the directory */
    char *tag;
    int64_t step;
    uint32_t digest; /* cs_manifest's */
    bool has_line;   /* its manifest lists the checkpoints it continues */
    int64_t
        generation; /* cs_line_follow: 0 the checkpoint itself, 1 its parent, ...; CS_NO_ANCESTOR: not on its line */
} cs_catalog_item;

typedef struct {
    cs_catalog_item *items; /* by step, the highest first; after cs_line_follow by generation, then by step */
    int64_t count;
    char *broken; /* what is wrong with one that has a manifest and is not whole; NULL: none such */
} cs_catalog;

/* Whole: a valid manifest, and every file as long as it says. What cs_staging_set_aside has renamed is left out. */
cs_status cs_catalog_open(cs_catalog *catalog, const char *dir);
void cs_catalog_close(cs_catalog *catalog);

/* The directory of the tag. CS_NOT_FOUND names the tags that are there. */
cs_status cs_catalog_find(char name[CS_TAG_BYTES], const char *dir, const char *tag);

/* The directory that dir/latest names. CS_NOT_FOUND: there is no dir/latest; CS_BAD_FILE: it names nothing. */
cs_status cs_catalog_latest(char name[CS_TAG_BYTES], const char *dir);

#endif
