/* prune.h - old checkpoints go. Rank 0's work. */
#ifndef CS_CHECKPOINT_PRUNE_H
#define CS_CHECKPOINT_PRUNE_H

#include "base/status.h"

/* Of the whole checkpoints of dir, all but the `keep_last` of the highest steps, those of a step that `keep_every`
 * divides (0: none), and the one that dir/latest names. A directory whose name is not its tag's was put there by
 * somebody else, and stays. */
cs_status cs_prune_directory(const char *dir, int64_t keep_last, int64_t keep_every);

#endif
