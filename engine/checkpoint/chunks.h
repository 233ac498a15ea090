/* chunks.h - the table of all chunks of a checkpoint, read from the headers of its shards: which box of which tensor is
 * where in which file. */
#ifndef CS_CHECKPOINT_CHUNKS_H
#define CS_CHECKPOINT_CHUNKS_H

#include "checkpoint/boxes.h"
#include "checkpoint/manifest.h"

typedef struct {
    int64_t tensor; /* index into manifest->tensors */
    int64_t file;   /* index into manifest->files */
    ce_box box;
    int64_t from;   /* position of its first element in the tensor */
    int64_t count;  /* number of elements */
    int64_t offset; /* byte offset in the file */
    int64_t crc;    /* index into `crcs` of its first block's checksum */
} ce_chunk;

typedef struct {
    ce_chunk *chunks; /* sorted by tensor and position after ce_chunks_check */
    int64_t count, room;
    uint32_t *crcs;
    int64_t crc_count, crc_room;
} ce_chunks;

/* Adds the chunks that the header block of manifest->files[file] lists. CS_BAD_FILE if the header is malformed, or if
 * its checksum or its save id differs from the manifest's. The table is zeroed before the first call. */
cs_status ce_chunks_add(ce_chunks *chunks, const ce_manifest *manifest, int64_t file, const char *block,
                        size_t block_bytes, const char *directory);

/* Called after all files are added: sorts the chunks and checks that they cover each element of every tensor exactly
 * once. */
cs_status ce_chunks_check(ce_chunks *chunks, const ce_manifest *manifest, const char *directory);

/* Indices [from, to) of the chunks of a tensor; valid after ce_chunks_check. */
ce_range ce_chunks_of(const ce_chunks *chunks, int64_t tensor);
void ce_chunks_close(ce_chunks *chunks);

#endif
