/* fuzz_checkpoint.c - reads any bytes as a manifest and as a safetensors file: they are accepted or refused, without a
 * crash.
 *
 * The manifest's checksum would reject nearly every input. If the input has the member for the checksum, the correct
 * digits are written into it. */
#include "base/crc.h"
#include "checkpoint/line.h"
#include "checkpoint/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Checks the range of an accepted manifest's numbers, because other code adds and multiplies them without checks. */
static void check_numbers(const ce_manifest *manifest)
{
    json_t *engine = json_object_get(manifest->root, "engine");
    json_int_t step = json_integer_value(json_object_get(engine, "global_step")), max = (json_int_t)1 << 53;
    if (!json_is_object(engine) || step < 0 || step > max || manifest->step < 0 || manifest->step > max ||
        manifest->bytes < 0 || manifest->client_state.bytes > CE_MANIFEST_LIMIT ||
        manifest->config.bytes > CE_MANIFEST_LIMIT)
        abort();
    json_decref(ce_line_behind(manifest));
}

static void try_manifest(char *text, size_t size)
{
    static const char mark[] = "\"crc32c\": \"";
    char *found = memmem(text, size, mark, sizeof mark - 1);
    ce_manifest manifest;
    if (found && (size_t)(found - text) + sizeof mark - 1 + 8 <= size) {
        char digits[9];
        memcpy(found + sizeof mark - 1, "00000000", 8);
        snprintf(digits, sizeof digits, "%08x", (unsigned)ce_crc32c(0, text, size));
        memcpy(found + sizeof mark - 1, digits, 8);
    }
    if (ce_manifest_parse(&manifest, text, size, "manifest.json") == CS_OK) {
        for (int64_t i = 0; i < manifest.tensor_count; i++)
            if (!ce_manifest_find(&manifest, manifest.tensors[i].name))
                abort();
        check_numbers(&manifest);
    }
    ce_manifest_close(&manifest);
}

static void try_header(const char *text, size_t size)
{
    const uint8_t *start = (const uint8_t *)text;
    ce_safetensors header;
    int64_t bytes;
    if (ce_safetensors_header_bytes(&bytes, start, size, (int64_t)size, "file") != CS_OK)
        return;
    if (ce_safetensors_parse(&header, text + 8, (size_t)bytes - 8, (int64_t)size - bytes, "file") == CS_OK)
        for (int64_t i = 0; i < header.count; i++)
            if (header.entries[i].end > (int64_t)size - bytes)
                abort();
    ce_safetensors_close(&header);
}

/* Reads a header without its data, for several lengths of the data. */
static void try_bare_header(const char *text, size_t size)
{
    ce_safetensors header;
    if (ce_safetensors_parse(&header, text, size, 0, "file") != CS_OK)
        for (int64_t i = 0; i < header.count; i++)
            if (header.entries[i].dims > CE_SAFETENSORS_MAX_DIMS)
                abort();
    ce_safetensors_close(&header);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    try_manifest(text, size);
    try_header(text, size);
    try_bare_header(text, size);
    free(text);
    return 0;
}
