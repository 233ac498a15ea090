/* differences.h - keys whose default or meaning differs from DeepSpeed's, and why; docs/row-by-row.md has the same
 * table. */
#ifndef CE_CONFIG_DIFFERENCES_H
#define CE_CONFIG_DIFFERENCES_H

typedef struct {
    const char *path;
    const char *theirs, *ours; /* DeepSpeed's behaviour and that of cspeed; each of the two is half of a sentence */
    const char *why;
} ce_difference;

/* The first index is 0. The result is NULL after the last row. */
const ce_difference *ce_differences_at(int index);
/* Returns NULL if the key has no difference. */
const ce_difference *ce_differences_find(const char *path);

#endif
