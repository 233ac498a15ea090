/* zstd.c - decompresses Zstandard files by libzstd: one frame, or several in sequence. */
#include "base/must.h"
#include "formats/decode.h"

#ifdef CE_HAS_ZSTD

#include <inttypes.h>
#include <stdlib.h>
#include <zstd.h>

enum { BLOCK = 1 << 18, LARGEST_WINDOW = 31 }; /* the window of files made with --long=31 has 2^31 bytes */

static cs_status decompress_block(ce_decode *self, ZSTD_DStream *stream, ZSTD_inBuffer *in, char *text, size_t *hint)
{
    for (bool full = true; in->pos < in->size || full;) {
        ZSTD_outBuffer out = { text, BLOCK, 0 };
        size_t before = in->pos;
        size_t outcome = ZSTD_decompressStream(stream, &out, in);
        if (ZSTD_isError(outcome))
            return ce_fail(CS_BAD_FILE, "%s: damaged at byte %" PRId64 ": %s (zstd -t tests it)", self->path,
                           self->place - (int64_t)(in->size - in->pos), ZSTD_getErrorName(outcome));
        CE_TRY(ce_decode_put(self, text, out.pos));
        full = out.pos == out.size;
        /* *hint must stay 0 at the end of a frame. A call that neither reads nor writes returns a hint about the next
         * frame, so *hint does not get the result of such a call. */
        if (out.pos > 0 || in->pos > before)
            *hint = outcome;
    }
    return CS_OK;
}

static cs_status decompress_all(ce_decode *self, ZSTD_DStream *stream, char *read, char *text)
{
    size_t hint = 1; /* the result of the last call that read or wrote; 0 at the end of a frame */
    for (ZSTD_inBuffer in = { read, 0, 0 };;) {
        CE_TRY(ce_decode_get(self, read, BLOCK, &in.size));
        in.pos = 0;
        if (in.size == 0)
            break;
        CE_TRY(decompress_block(self, stream, &in, text, &hint));
    }
    if (hint == 0)
        return CS_OK;
    return ce_fail(CS_BAD_FILE, "%s: truncated: it ends at byte %" PRId64 ", in the middle of its compressed text",
                   self->path, self->place);
}

cs_status ce_decode_zstd(ce_decode *self)
{
    ZSTD_DStream *stream = ZSTD_createDStream();
    CE_FREED char *blocks = malloc(2 * (size_t)BLOCK);
    cs_status status = CS_NO_MEMORY;
    if (!stream || !blocks || ZSTD_isError(ZSTD_DCtx_setParameter(stream, ZSTD_d_windowLogMax, LARGEST_WINDOW)))
        ce_fail(CS_NO_MEMORY, "%s: no memory to decompress it", self->path);
    else
        status = decompress_all(self, stream, blocks, blocks + BLOCK);
    ZSTD_freeDStream(stream);
    return status;
}

#else

cs_status ce_decode_zstd(ce_decode *self)
{
    return ce_fail(
        CS_UNSUPPORTED,
        "%s: not supported: Zstandard, because this cspeed was built without libzstd; decompress it: zstd -d "
        "'%s'",
        self->path, self->path);
}

#endif
