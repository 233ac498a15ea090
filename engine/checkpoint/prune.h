/* prune.h - deletes old checkpoints. Runs on rank 0. */
#ifndef CS_CHECKPOINT_PRUNE_H
#define CS_CHECKPOINT_PRUNE_H

#include "base/status.h"

/* Deletes the complete checkpoints of dir except: the `keep_last` with the highest steps; those whose step is a
 * multiple of `keep_every` (0: no such rule); the one that dir/latest names. A directory whose name is not the escaped
 * form of its tag was renamed by the user and is kept. */
cs_status cs_prune_directory(const char *dir, int64_t keep_last, int64_t keep_every);

#endif
