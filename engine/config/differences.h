/* differences.h - where a key's default or meaning is not DeepSpeed's, and why; docs/differences.md is this table. */
#ifndef CS_CONFIG_DIFFERENCES_H
#define CS_CONFIG_DIFFERENCES_H

typedef struct {
    const char *path;
    const char *theirs, *ours; /* halves of a sentence */
    const char *why;
} cs_difference;

const cs_difference *cs_differences_at(int index);          /* from 0 to NULL */
const cs_difference *cs_differences_find(const char *path); /* NULL: none     */

#endif
