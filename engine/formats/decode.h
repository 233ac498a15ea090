/* decode.h - the formats that are decoded into plain text: gzip, Zstandard, and tables (Parquet, Arrow). */
#ifndef CE_FORMATS_DECODE_H
#define CE_FORMATS_DECODE_H

#include "json/json.h"
#include "base/progress.h"
#include "base/status.h"

typedef struct {
    const char *path;           /* path of the file that is decoded */
    FILE *from;                 /* the file, open for reading */
    const char *const *columns; /* names of the columns to read, for a table; NULL means all columns */
    json_t *unread;             /* as in ce_plain_how */
    FILE *to;                   /* the file that receives the decoded text */
    const char *folder;         /* the folder of the file `to`, for messages */
    int64_t place;              /* number of bytes of the file that were read */
    ce_progress progress;       /* shows how many bytes were read */
} ce_decode;

cs_status ce_decode_gzip(ce_decode *self);
cs_status ce_decode_zstd(ce_decode *self);
cs_status ce_decode_rows(ce_decode *self);

/* Reads up to `capacity` bytes of the file. *size is the number of bytes that were read, 0 at the end of the file. */
cs_status ce_decode_get(ce_decode *self, void *bytes, size_t capacity, size_t *size);
cs_status ce_decode_put(ce_decode *self, const void *bytes, size_t size);

#endif
