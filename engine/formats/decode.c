/* decode.c - functions that the decoders share: reading the encoded file in blocks, and writing the decoded text. */
#include "formats/decode.h"

#include <errno.h>

cs_status ce_decode_get(ce_decode *self, void *bytes, size_t capacity, size_t *size)
{
    *size = fread(bytes, 1, capacity, self->from);
    self->place += (int64_t)*size;
    ce_progress_add(&self->progress, (int64_t)*size);
    if (*size < capacity && ferror(self->from))
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: cannot read it", self->path);
    return CS_OK;
}

cs_status ce_decode_put(ce_decode *self, const void *bytes, size_t size)
{
    if (fwrite(bytes, 1, size, self->to) != size)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: its decoded text cannot be written to the folder %s", self->path,
                             self->folder);
    return CS_OK;
}
