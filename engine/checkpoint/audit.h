/* audit.h - every byte of a checkpoint held to its checksums, a file's blocks by several threads. One rank's work;
 * nothing else is loaded. */
#ifndef CS_CHECKPOINT_AUDIT_H
#define CS_CHECKPOINT_AUDIT_H

#include "checkpoint/manifest.h"

typedef struct {
    int64_t files, blocks, bytes; /* looked at */
    int64_t faults;
    int64_t refused; /* of the faults: the system did not let it be read, which says nothing of what is there */
    int threads;     /* 0: one */
    void (*fault)(void *to, const char *sentence); /* called for each damage: file, and tensor and block where known */
    void *to;
} cs_audit;

/* The manifest, the texts it lists, and every file's header and blocks. */
void cs_audit_directory(cs_audit *audit, const char *directory);

/* Of a manifest that is known to be good: the shards number part, part + parts, ... */
void cs_audit_shards(cs_audit *audit, const cs_manifest *manifest, const char *directory, int part, int parts);

#endif
