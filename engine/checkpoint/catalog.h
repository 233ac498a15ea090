/* catalog.h - the whole checkpoints of a directory, newest first. One rank's view. */
#ifndef CS_CHECKPOINT_CATALOG_H
#define CS_CHECKPOINT_CATALOG_H

#include "checkpoint/tag.h"

typedef struct {
    char   *name; /* of the directory */
    char   *tag;
    int64_t step;
} cs_catalog_item;

typedef struct {
    cs_catalog_item *items; /* by step, the highest first */
    int64_t          count;
    char            *broken; /* what is wrong with one that has a manifest and is not whole; NULL: none such */
} cs_catalog;

/* Whole: a valid manifest, and every file as long as it says. */
cs_status cs_catalog_open(cs_catalog *catalog, const char *dir);
void      cs_catalog_close(cs_catalog *catalog);

/* The directory of the tag. CS_NOT_FOUND names the tags that are there. */
cs_status cs_catalog_find(char name[CS_TAG_BYTES], const char *dir, const char *tag);

/* The directory that dir/latest names. CS_NOT_FOUND: there is no dir/latest; CS_BAD_FILE: it names nothing. */
cs_status cs_catalog_latest(char name[CS_TAG_BYTES], const char *dir);

#endif
