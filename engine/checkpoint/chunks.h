/* chunks.h - which box of which tensor lies where: the table that the shards' headers make together. */
#ifndef CS_CHECKPOINT_CHUNKS_H
#define CS_CHECKPOINT_CHUNKS_H

#include "checkpoint/boxes.h"
#include "checkpoint/manifest.h"

typedef struct {
    int64_t tensor; /* index into the manifest's */
    int64_t file;   /* likewise */
    cs_box box;
    int64_t from;   /* place of its first element in the tensor */
    int64_t count;  /* elements */
    int64_t offset; /* of its first byte in the file */
    int64_t crc;    /* index of its first block's checksum */
} cs_chunk;

typedef struct {
    cs_chunk *chunks; /* by tensor and place, once checked */
    int64_t count, room;
    uint32_t *crcs;
    int64_t crc_count, crc_room;
} cs_chunks;

/* Adds what the header block of manifest->files[file] says; its checksum and the save it belongs to are checked. */
cs_status cs_chunks_add(cs_chunks *chunks, const cs_manifest *manifest, int64_t file, const char *block,
                        size_t block_bytes, const char *directory);

/* After all files: sorts, and holds the chunks of every tensor to its shape: each element once. */
cs_status cs_chunks_check(cs_chunks *chunks, const cs_manifest *manifest, const char *directory);

/* The chunks of a tensor: indices [from, to). */
cs_range cs_chunks_of(const cs_chunks *chunks, int64_t tensor);
void cs_chunks_close(cs_chunks *chunks);

#endif
