/* fuzz_shard.c - reads any bytes as the header of a weights file in a checkpoint: in an accepted header the listed
 * boxes cover each tensor exactly once, and nothing crashes.
 *
 * With a wrong header length in the file or a wrong header checksum in the manifest, nearly every input would be
 * refused. Therefore the target writes the right length and the right checksum. */
#include "base/crc.h"
#include "checkpoint/chunks.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DATA_BYTES = 50 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ce_manifest_tensor tensors[] = { { .name = "b", .dtype = CS_BF16 },
                                     { .name = "w", .dtype = CS_F32, .dims = 2, .shape = { 3, 4 } } };
    ce_manifest_file file = { .name = "weights/shard-00001-of-00001.safetensors" };
    ce_manifest manifest = { .save_id = "id", .tensors = tensors, .tensor_count = 2, .files = &file, .file_count = 1 };
    ce_chunks chunks = { 0 };
    char *block = malloc(size + 8);
    uint64_t length = size;
    if (!block)
        return 0;
    memcpy(block, &length, sizeof length);
    memcpy(block + 8, data, size);
    file.bytes = (int64_t)size + 8 + DATA_BYTES;
    file.header_crc = ce_crc32c(0, block, size + 8);
    if (ce_chunks_add(&chunks, &manifest, 0, block, size + 8, ".") == CS_OK &&
        ce_chunks_check(&chunks, &manifest, ".") == CS_OK) {
        int64_t elements = 0;
        for (int64_t i = 0; i < chunks.count; i++)
            elements += chunks.chunks[i].count;
        if (elements != 1 + 3 * 4)
            abort();
    }
    ce_chunks_close(&chunks);
    free(block);
    return 0;
}
