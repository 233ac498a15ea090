/* gzip.c - decompresses gzip files by zlib: one member, or several in sequence as `cat` and pigz make them. */
#include "formats/decode.h"

#ifdef CE_HAS_ZLIB

#include <inttypes.h>
#include <stdlib.h>
#include <zlib.h>

enum { BLOCK = 1 << 18, GZIP_ONLY = 16 + MAX_WBITS };

static cs_status damaged(const ce_decode *self, const z_stream *stream)
{
    return ce_fail(CS_BAD_FILE, "%s: damaged at byte %" PRId64 ": %s (gzip -t tests it)", self->path,
                   self->place - (int64_t)stream->avail_in, stream->msg ? stream->msg : "not gzip's format");
}

/* Decompresses the block that was read. *ended is true if the last byte that was decompressed ended a member. */
static cs_status inflate_block(ce_decode *self, z_stream *stream, unsigned char *text, bool *ended)
{
    do {
        for (; *ended && stream->avail_in > 0 && *stream->next_in == 0; stream->next_in++)
            stream->avail_in--; /* zero bytes after a member are padding, which files on tape have */
        if (*ended && stream->avail_in == 0)
            return CS_OK;
        stream->next_out = text;
        stream->avail_out = BLOCK;
        int outcome = inflate(stream, Z_NO_FLUSH);
        if (outcome != Z_OK && outcome != Z_STREAM_END && outcome != Z_BUF_ERROR)
            return outcome == Z_MEM_ERROR ? ce_fail(CS_NO_MEMORY, "%s: no memory to decompress it", self->path)
                                          : damaged(self, stream);
        CE_TRY(ce_decode_put(self, text, BLOCK - stream->avail_out));
        *ended = outcome == Z_STREAM_END;
        if (*ended)
            inflateReset(stream);
    } while (stream->avail_in > 0 || (stream->avail_out == 0 && !*ended));
    return CS_OK;
}

static cs_status inflate_all(ce_decode *self, z_stream *stream, unsigned char *read, unsigned char *text)
{
    bool ended = false;
    for (size_t size;;) {
        CE_TRY(ce_decode_get(self, read, BLOCK, &size));
        if (size == 0)
            break;
        stream->next_in = read;
        stream->avail_in = (unsigned)size;
        CE_TRY(inflate_block(self, stream, text, &ended));
    }
    if (ended)
        return CS_OK;
    return ce_fail(CS_BAD_FILE, "%s: truncated: it ends at byte %" PRId64 ", in the middle of its compressed text",
                   self->path, self->place);
}

cs_status ce_decode_gzip(ce_decode *self)
{
    z_stream stream = { 0 };
    unsigned char *blocks = malloc(2 * (size_t)BLOCK);
    if (!blocks || inflateInit2(&stream, GZIP_ONLY) != Z_OK) {
        free(blocks);
        return ce_fail(CS_NO_MEMORY, "%s: no memory to decompress it", self->path);
    }
    cs_status status = inflate_all(self, &stream, blocks, blocks + BLOCK);
    inflateEnd(&stream);
    free(blocks);
    return status;
}

#else

cs_status ce_decode_gzip(ce_decode *self)
{
    return ce_fail(CS_UNSUPPORTED,
                   "%s: not supported: gzip, because this cspeed was built without zlib; decompress it: gzip -dk '%s'",
                   self->path, self->path);
}

#endif
