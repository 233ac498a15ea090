/* shardfile.h - one safetensors shard onto the disk: data first, checksums gathered on the way, the header last. */
#ifndef CS_CHECKPOINT_SHARDFILE_H
#define CS_CHECKPOINT_SHARDFILE_H

#include "checkpoint/write_plan.h"

enum { CS_SHARDFILE_BLOCK = 16 << 20, CS_SHARDFILE_ID = 37 }; /* bytes under one checksum; a UUID's text */

/* What the manifest will say of the file. */
typedef struct {
    int64_t bytes;
    uint32_t header_crc;
    int32_t folder;
} cs_shardfile_record;

/* `content` says how the file is written, how its elements are read, and whether they must be finite. */
cs_status cs_shardfile_write(cs_shardfile_record *record, const char *path, const cs_write_plan_file *file,
                             const char *save_id, const cs_checkpoint_content *content);

#endif
