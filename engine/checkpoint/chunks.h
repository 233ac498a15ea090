/* chunks.h - the table of all chunks of a checkpoint, read from the headers of its shards. A chunk is one box of a
 * tensor. Each chunk is stored in one file; the table says in which file, and at which offset. */
#ifndef CE_CHECKPOINT_CHUNKS_H
#define CE_CHECKPOINT_CHUNKS_H

#include "base/boxes.h"
#include "checkpoint/manifest.h"

typedef struct {
    int64_t tensor; /* index into manifest->tensors */
    int64_t file;   /* index into manifest->files */
    ce_box box;
    int64_t from;   /* position in the tensor of the box's first element */
    int64_t count;  /* number of elements in the box */
    int64_t offset; /* offset of the chunk in the file, in bytes */
    int64_t crc;    /* index into `crcs` of the checksum of the chunk's first block */
} ce_chunk;

typedef struct {
    ce_chunk *chunks; /* the chunks; after ce_chunks_check they are sorted by tensor and position */
    int64_t count, capacity;
    uint32_t *crcs;
    int64_t crc_count, crc_capacity;
} ce_chunks;

/* Adds to the table the chunks that the header block of manifest->files[file] lists. Returns CS_BAD_FILE if the header
 * is malformed, or if its checksum or its save id differs from the manifest's. The caller zeroes the table before the
 * first call. */
cs_status ce_chunks_add(ce_chunks *chunks, const ce_manifest *manifest, int64_t file, const char *block,
                        size_t block_bytes, const char *directory);

/* This function is called after all files are added. It sorts the chunks and checks that they cover each element of
 * every tensor exactly once. */
cs_status ce_chunks_check(ce_chunks *chunks, const ce_manifest *manifest, const char *directory);

/* Returns the indices [from, to) of the chunks of a tensor; valid after ce_chunks_check. */
ce_range ce_chunks_of(const ce_chunks *chunks, int64_t tensor);
void ce_chunks_close(ce_chunks *chunks);

#endif
