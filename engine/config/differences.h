/* differences.h - keys whose default or meaning differs from DeepSpeed's, and why; docs/differences.md has the same
 * table. */
#ifndef CS_CONFIG_DIFFERENCES_H
#define CS_CONFIG_DIFFERENCES_H

typedef struct {
    const char *path;
    const char *theirs, *ours; /* DeepSpeed's behaviour and cspeed's; each is half of a sentence */
    const char *why;
} ce_difference;

const ce_difference *ce_differences_at(int index);          /* from index 0; NULL after the last */
const ce_difference *ce_differences_find(const char *path); /* NULL: no difference */

#endif
