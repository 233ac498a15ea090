/* audit.h - verifies every byte of a checkpoint against its checksums (`cspeed verify`); several threads share the
 * blocks of a file. Runs on one rank, without communication, and loads nothing. */
#ifndef CE_CHECKPOINT_AUDIT_H
#define CE_CHECKPOINT_AUDIT_H

#include "checkpoint/manifest.h"

typedef struct {
    int64_t files, blocks, bytes; /* numbers of checked files, blocks and bytes */
    int64_t faults;
    int64_t refused; /* number of faults where the operating system refused the read; they do not prove damage */
    int threads;     /* number of threads that share the blocks of a file; 0 means one */
    /* This function is called for each fault. The message names the file and, if they are known, the tensor and the
     * block. */
    void (*fault)(void *to, const char *sentence);
    void *to;
} ce_audit;

/* Checks the manifest of the checkpoint `directory`, the text files that it lists, and the header and all blocks of
 * every shard. Adds to the counts in *audit. */
void ce_audit_directory(ce_audit *audit, const char *directory);

/* Checks headers and blocks of the shards number `part`, `part` + `parts`, `part` + 2 * `parts`, ... of a manifest that
 * has been verified already. So `parts` processes can share the work for one checkpoint. */
void ce_audit_shards(ce_audit *audit, const ce_manifest *manifest, const char *directory, int part, int parts);

#endif
