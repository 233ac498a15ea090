/* fuzz_tokens.c - reads any bytes as a token shard: it is refused with a message, or all its tokens can be read,
 * without a crash. */
#include "base/must.h"
#include "data/data.h"
#include "data/tokens.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(const ce_tokens *tokens)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < tokens->count; i++)
        sum += ce_tokens_at(tokens, i) + ce_tokens_is_learnt(tokens, i);
    for (int64_t i = 0; tokens->starts && i < tokens->documents; i++)
        CE_ASSERT(tokens->starts[i] <= (uint64_t)tokens->count);
    CE_ASSERT(sum >= 0);
    CE_ASSERT(ce_tokens_find_above(tokens, 100) <= tokens->count);
}

/* Reads all windows. The lowest bit of `kind` asks for whole documents, the next one for all targets. */
static void read_windows(const char *path, int kind)
{
    ce_windows *windows;
    ce_data_settings settings = { .patterns = &path,
                                  .pattern_count = 1,
                                  .seq_len = 3,
                                  .shuffle = true,
                                  .seed = 1,
                                  .vocab_size = 1000,
                                  .documents = kind & 1,
                                  .all = kind & 2 };
    int32_t inputs[3], targets[3], starts[3];
    if (ce_windows_open(&windows, &settings) != CS_OK)
        return;
    for (int64_t i = 0; i < ce_windows_count(windows); i++) {
        ce_windows_read(windows, i, (ce_window){ inputs, targets, kind & 1 ? starts : NULL });
        for (int t = 0; t < 3; t++)
            CE_ASSERT(inputs[t] >= 0 && inputs[t] < 1000 && targets[t] >= -1 && targets[t] < 1000 &&
                      (!(kind & 1) || (starts[t] >= 0 && starts[t] <= t)));
    }
    ce_windows_close(windows);
}

/* Raw tokens are recognised by the file's name. A file in memory has no such name, so the input needs a magic
 * number. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    ce_tokens tokens;
    int file = memfd_create("shard.bin", 0);
    CE_ASSERT(file >= 0);
    CE_ASSERT(write(file, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (ce_tokens_open(&tokens, path) == CS_OK)
        read_all(&tokens);
    else
        CE_ASSERT(*cs_error());
    ce_tokens_close(&tokens);
    for (int kind = 0; kind < 4; kind++)
        read_windows(path, kind);
    close(file);
    return 0;
}
