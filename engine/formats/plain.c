/* plain.c - opens a file of texts in any of the formats in which they are published, as one file of plain text. */
#include "formats/plain.h"
#include "base/input.h"
#include "base/must.h"
#include "formats/decode.h"
#include "formats/kind.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const ce_plain_endings[] = { ".jsonl",    ".txt",    ".jsonl.gz", ".jsonl.zst", ".json.gz",
                                         ".json.zst", ".txt.gz", ".txt.zst",  ".parquet",   ".arrow" };
const int ce_plain_ending_count = sizeof ce_plain_endings / sizeof *ce_plain_endings;

/* Returns true if the name consists of this ending, in letters of either case, and of something before it. */
static bool ends(const char *name, const char *ending)
{
    size_t length = strlen(name), tail = strlen(ending);
    return length > tail && strcasecmp(name + length - tail, ending) == 0;
}

bool ce_plain_is_table(const char *name)
{
    return ends(name, ".parquet") || ends(name, ".arrow");
}

bool ce_plain_is_text(const char *name)
{
    for (int i = 0; i < ce_plain_ending_count; i++)
        if (ends(name, ce_plain_endings[i]))
            return true;
    /* ce_plain_endings does not list .json, because such a file in a folder is often no text to train on. */
    return ends(name, ".json");
}

bool ce_plain_is_json(const char *name)
{
    return ce_plain_is_text(name) && !ends(name, ".txt") && !ends(name, ".txt.gz") && !ends(name, ".txt.zst");
}

/* Creates a temporary file in `folder` and removes its name at once. */
static cs_status create(FILE **file, const char *path, const char *folder)
{
    char *name;
    CE_ASSERT(asprintf(&name, "%s/.text-XXXXXX", folder) >= 0);
    int made = mkostemp(name, O_CLOEXEC);
    int why = errno;
    if (made >= 0)
        unlink(name);
    free(name);
    *file = made >= 0 ? fdopen(made, "w+") : NULL;
    if (*file)
        return CS_OK;
    if (made >= 0)
        close(made);
    return ce_fail_errno(CS_IO_ERROR, why, "%s: its decoded text cannot be written to the folder %s", path, folder);
}

typedef cs_status decode_file(ce_decode *self);

static cs_status decode(FILE **plain, const char *path, FILE *from, decode_file *decoder, const ce_plain_how *how)
{
    ce_decode self = {
        .path = path, .from = from, .columns = how->columns, .unread = how->unread, .folder = how->folder
    };
    struct stat facts;
    if (fstat(fileno(from), &facts) != 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: cannot read its size", path);
    CE_TRY(create(&self.to, path, how->folder));
    ce_progress_begin(&self.progress, "decoding", NULL, facts.st_size);
    cs_status status = decoder(&self);
    ce_progress_end(&self.progress);
    if (status == CS_OK && fflush(self.to) != 0)
        status = ce_fail_errno(CS_IO_ERROR, errno, "%s: its decoded text cannot be written to the folder %s", path,
                               how->folder);
    if (status == CS_OK && decoder != ce_decode_rows)
        status = ce_kind_check(self.to, path);
    if (status != CS_OK) {
        fclose(self.to);
        return status;
    }
    rewind(self.to);
    *plain = self.to;
    return CS_OK;
}

/* Chooses the decoder by the content, and by the name where the content does not tell: a damaged file, or a stream of
 * Arrow. *decoder is NULL for a file that is plain text. */
static cs_status choose(decode_file **decoder, FILE *file, const char *path)
{
    ce_kind kind = ce_kind_of(file);
    bool other = kind == CE_KIND_OTHER;
    *decoder = kind == CE_KIND_GZIP || (other && ends(path, ".gz"))    ? ce_decode_gzip
               : kind == CE_KIND_ZSTD || (other && ends(path, ".zst")) ? ce_decode_zstd
               : ce_plain_is_table(path)                               ? ce_decode_rows
                                                                       : NULL;
    if (kind == CE_KIND_TABLE && !*decoder)
        return ce_fail(CS_BAD_FILE,
                       "%s: a table (Parquet or Arrow), but its name does not end so: mv '%s' '%s.parquet'", path, path,
                       path);
    return *decoder ? CS_OK : ce_kind_check(file, path);
}

cs_status ce_plain_open(FILE **file, const char *path, const ce_plain_how *how)
{
    decode_file *decoder;
    FILE *from;
    *file = NULL;
    CE_TRY(ce_input_stream(&from, path));
    *file = from;
    if (!from)
        return ce_fail_errno(errno == ENOENT || errno == ENOTDIR ? CS_NOT_FOUND : CS_IO_ERROR, errno,
                             "%s: cannot open this text", path);
    cs_status status = choose(&decoder, from, path);
    if (status == CS_OK && !decoder)
        return CS_OK;
    if (status == CS_OK)
        status = decode(file, path, from, decoder, how);
    fclose(from);
    return status;
}
