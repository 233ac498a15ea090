/* golden.c - reading golden files. */
#include "golden.h"
#include "base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char name[64];
    uint32_t type, dims;
    int64_t shape[CS_MAX_DIMS];
    uint64_t offset;
} entry;
_Static_assert(sizeof(entry) == 112, "an entry is 112 bytes without holes");

struct golden {
    char *bytes;
    size_t size;
    int count;
    entry *entries;
};

enum { HEAD_BYTES = 16 };

static cs_tensor view(const golden *file, const entry *from)
{
    cs_tensor tensor = { .dtype = from->type == 0 ? CS_F32 : CS_I32, .dims = (int32_t)from->dims };
    CE_ASSERT(from->type <= 1);
    CE_ASSERT(from->dims <= CS_MAX_DIMS);
    memcpy(tensor.shape, from->shape, sizeof tensor.shape);
    CE_ASSERT(from->offset + (uint64_t)cs_count(tensor) * 4 <= file->size);
    tensor.data = file->bytes + from->offset;
    return tensor;
}

golden *golden_open(const char *path)
{
    FILE *stream = fopen(path, "rb");
    if (!stream)
        ce_fatal(CS_NOT_FOUND, "%s: cannot open this golden file", path);
    fseek(stream, 0, SEEK_END);
    golden *file = calloc(1, sizeof *file);
    CE_ASSERT(file);
    file->size = (size_t)ftell(stream);
    file->bytes = aligned_alloc(64, (file->size + 64) / 64 * 64);
    CE_ASSERT(file->bytes);
    rewind(stream);
    if (fread(file->bytes, 1, file->size, stream) != file->size || file->size < HEAD_BYTES ||
        memcmp(file->bytes, "CSGOLDEN", 8) != 0)
        ce_fatal(CS_BAD_FILE, "%s: not a golden file", path);
    fclose(stream);
    uint32_t count;
    memcpy(&count, file->bytes + 8, sizeof count);
    if (count > (file->size - HEAD_BYTES) / sizeof(entry))
        ce_fatal(CS_BAD_FILE, "%s: cut short", path);
    file->count = (int)count;
    file->entries = (entry *)(file->bytes + HEAD_BYTES);
    for (int i = 0; i < file->count; i++)
        view(file, &file->entries[i]);
    return file;
}

void golden_close(golden *file)
{
    if (!file)
        return;
    free(file->bytes);
    free(file);
}

int golden_count(const golden *file)
{
    return file->count;
}

const char *golden_name(const golden *file, int index)
{
    return file->entries[index].name;
}

cs_tensor golden_tensor(const golden *file, const char *name)
{
    for (int i = 0; i < file->count; i++)
        if (strcmp(file->entries[i].name, name) == 0)
            return view(file, &file->entries[i]);
    ce_fatal(CS_NOT_FOUND, "no entry '%s' in the golden file", name);
}
