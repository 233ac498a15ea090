/* shardfile.h - writes one safetensors shard: first the data, computing the checksum of each block, then the header. */
#ifndef CE_CHECKPOINT_SHARDFILE_H
#define CE_CHECKPOINT_SHARDFILE_H

#include "checkpoint/write_plan.h"

/* CE_SHARDFILE_BLOCK is the length of a block in bytes. Each chunk of a shard is divided into blocks, and each block
 * has a checksum. CE_SHARDFILE_ID is the size of a UUID's text with NUL. */
enum { CE_SHARDFILE_BLOCK = 16 << 20, CE_SHARDFILE_ID = 37 };

/* What the manifest records about a shard. */
typedef struct {
    int64_t bytes;
    uint32_t header_crc;
    int32_t folder;
} ce_shardfile_record;

/* Writes `file` to the new file `path`. `content` determines how the file is written and how elements are copied from
 * device memory. If content->finite is true and the file is in the folder "weights", returns CS_NOT_FINITE if an
 * element is an infinity or a NaN. */
cs_status ce_shardfile_write(ce_shardfile_record *record, const char *path, const ce_write_plan_file *file,
                             const char *save_id, const ce_checkpoint_content *content);

#endif
