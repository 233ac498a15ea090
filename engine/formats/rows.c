/* rows.c - decodes Parquet and Arrow files with libcspeed_arrow.so, which is opened when the first such file is
 * read. */
#include "base/must.h"
#include "base/library.h"
#include "formats/decode.h"
#include "formats/rows_module.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NAME "libcspeed_arrow.so"

/* ---- the module ---- */

/* A program in Python, for an error message. Its argument is a file; it prints the rows of the file as lines of
 * JSON. */
static const char to_json[] = "import json, sys, pyarrow as a, pyarrow.parquet as p; f = sys.argv[1]; "
                              "r = p.ParquetFile(f).iter_batches() if f.endswith('.parquet') else "
                              "a.ipc.open_file(f) if open(f, 'rb').read(6) == b'ARROW1' else a.ipc.open_stream(f); "
                              "n = getattr(r, 'num_record_batches', None); "
                              "[print(json.dumps(x)) for b in (r if n is None else map(r.get_batch, range(n))) "
                              "for x in b.to_pylist()]";

static cs_status refuse(const char *path, const char *why)
{
    const char *name = basename(path), *dot = strrchr(name, '.');
    return ce_fail(CS_UNSUPPORTED,
                   "%s: not supported: Parquet and Arrow files, because " NAME " cannot be opened: %s. Build where "
                   "python3 has pyarrow (or set CSPEED_ARROW_ROOT to its folder), or convert the file to JSON lines: "
                   "python3 -c \"%s\" '%s' > '%.*s.jsonl'",
                   path, why, to_json, path, (int)(dot - name), name);
}

static cs_status open_module(const ce_rows_module **module, const char *path)
{
    ce_library library;
    ce_library_open(&library, NAME, "CSPEED_ARROW_MODULE");
    if (!library.handle)
        return refuse(path, library.why);
    *module = dlsym(library.handle, "ce_module_arrow");
    if (!*module || (*module)->edition != CE_ROWS_EDITION || strcmp((*module)->release, CS_VERSION) != 0)
        return refuse(path, "it was built with another version of this program; build both again");
    return CS_OK;
}

/* ---- decoding ---- */

typedef struct {
    ce_decode *decode;
    int64_t bytes; /* length of the file */
    cs_status status;
} receiver;

static bool put(void *to, const char *text, size_t size, double done)
{
    receiver *self = to;
    int64_t place = (int64_t)(done * (double)self->bytes);
    ce_progress_add(&self->decode->progress, place - self->decode->place);
    self->decode->place = place;
    self->status = ce_decode_put(self->decode, text, size);
    return self->status == CS_OK;
}

static void count_unread(void *to, const char *column, int64_t rows)
{
    json_t *counts = ((receiver *)to)->decode->unread;
    json_object_set_new(counts, column, json_integer(json_integer_value(json_object_get(counts, column)) + rows));
}

cs_status ce_decode_rows(ce_decode *self)
{
    const ce_rows_module *module;
    struct stat facts;
    receiver receives = { .decode = self };
    if (fstat(fileno(self->from), &facts) == 0)
        receives.bytes = facts.st_size;
    CE_TRY(open_module(&module, self->path));
    CE_FREED char *sentence = module->write(self->path, self->columns, put, count_unread, &receives);
    if (sentence)
        receives.status = ce_fail(CS_BAD_FILE, "%s: %s", self->path, sentence);
    return receives.status;
}
