/* fuzz_corpus.c - reads any bytes as a file of JSON: lines, or one list. Either the file is refused with a message, or
 * its documents are byte ranges inside the file, in order. */
#include "base/must.h"
#include "data/corpus.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const ce_corpus *corpus)
{
    const char *at = corpus->texts[0].bytes, *behind = at, *end = at + corpus->texts[0].size;
    int64_t line = 1;
    for (int64_t i = 0; i < corpus->document_count; i++) {
        const ce_document *document = &corpus->documents[i];
        CE_ASSERT(document->is_json && document->length > 0 && document->train_length <= document->length);
        CE_ASSERT(document->bytes >= behind && document->bytes + document->length <= end);
        while (at < document->bytes)
            line += *at++ == '\n';
        CE_ASSERT(document->line == line);
        behind = document->bytes + document->length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64], *paths[] = { path };
    ce_corpus corpus;
    int file = memfd_create("fuzz", MFD_CLOEXEC);
    CE_ASSERT(file >= 0 && write(file, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (ce_corpus_open(&corpus, &(ce_corpus_files){ .paths = paths, .count = 1, .json = true }) == CS_OK) {
        cs_status status = ce_corpus_split(&corpus, 0.3, 1);
        CE_ASSERT(status == CS_OK || *cs_error());
        check(&corpus);
        ce_corpus_close(&corpus);
    } else {
        CE_ASSERT(*cs_error());
    }
    close(file);
    return 0;
}
