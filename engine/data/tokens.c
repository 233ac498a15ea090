/* tokens.c - reads token shard files, in three formats. */
#include "data/tokens_form.h"
#include "data/tokens.h"
#include "base/input.h"
#include "base/log.h"
#include "base/must.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LLMC_HEADER_BYTES = 1024, LLMC_MAGIC_GPT2 = 20240520, LLMC_MAGIC_LLAMA3 = 20240801 };
static bool has_magic(const ce_tokens *tokens)
{
    return tokens->mapping_bytes >= sizeof CE_TOKENS_MAGIC - 1 &&
           memcmp(tokens->mapping, CE_TOKENS_MAGIC, sizeof CE_TOKENS_MAGIC - 1) == 0;
}

static cs_status check_index(const ce_tokens *tokens, const ce_tokens_header *header, const char *path)
{
    const uint64_t *starts = (const uint64_t *)((const char *)tokens->mapping + header->index_offset);
    for (uint64_t i = 0; i < header->documents; i++)
        if (starts[i] > header->count || (i > 0 && starts[i] < starts[i - 1]))
            return ce_fail(CS_BAD_FILE,
                           "%s: document %" PRIu64 " starts at token %" PRIu64 ", which is before the start of the "
                           "previous document or beyond the %" PRIu64 " tokens; pack the text again",
                           path, i, starts[i], header->count);
    return CS_OK;
}

/* Checks the header fields that determine how the other fields are read. */
static cs_status check_form(const ce_tokens_header *header, const char *path)
{
    if (header->version != 1)
        return ce_fail(CS_BAD_FILE, "%s: its format version is %" PRIu32 "; this program reads only version 1", path,
                       header->version);
    if (header->token_bytes != 2 && header->token_bytes != 4)
        return ce_fail(CS_BAD_FILE, "%s: its header says %" PRIu32 " bytes for each token; possible are 2 and 4", path,
                       header->token_bytes);
    if (header->vocab_size == 0 || header->vocab_size > CE_TOKENS_MAX_VOCAB)
        return ce_fail(CS_BAD_FILE, "%s: vocabulary size is %" PRIu64 ", not 1 to %d", path, header->vocab_size,
                       CE_TOKENS_MAX_VOCAB);
    if (header->zero)
        return ce_fail(CS_BAD_FILE, "%s: bytes 56 to 63 of the header are not zero", path);
    return CS_OK;
}

/* Checks the counts and offsets against the size of the file. */
static cs_status check_extent(const ce_tokens_header *header, uint64_t bytes, const char *path)
{
    uint64_t width = header->token_bytes, offset = header->index_offset;
    if (header->count > (bytes - sizeof *header) / width)
        return ce_fail(CS_BAD_FILE,
                       "%s: token count is %" PRIu64 " of %" PRIu64 " bytes, and the file has %" PRIu64 " bytes "
                       "after the header; it is truncated",
                       path, header->count, width, bytes - sizeof *header);
    uint64_t end = sizeof *header + header->count * width;
    if (offset < end || offset % 8 || offset > bytes)
        return ce_fail(CS_BAD_FILE,
                       "%s: offset of the document index is %" PRIu64 ", not a multiple of 8 from the tokens' end at "
                       "%" PRIu64 " to the file's at %" PRIu64,
                       path, offset, end, bytes);
    uint64_t mask = ce_tokens_mask_bytes(header);
    if (bytes % 8 || mask > bytes - offset || header->documents != (bytes - offset - mask) / 8)
        return ce_fail(CS_BAD_FILE,
                       "%s: document count is %" PRIu64 " of 8 bytes, the mask takes %" PRIu64
                       ", and the file has %" PRIu64 " bytes from its index at %" PRIu64 " on",
                       path, header->documents, mask, bytes - offset, offset);
    if (header->mask_offset && header->mask_offset != bytes - mask)
        return ce_fail(CS_BAD_FILE,
                       "%s: offset of the mask is %" PRIu64 ", and its %" PRIu64 " bytes begin at %" PRIu64, path,
                       header->mask_offset, mask, bytes - mask);
    return CS_OK;
}

static cs_status read_own(ce_tokens *tokens, const char *path)
{
    ce_tokens_header header;
    if (tokens->mapping_bytes < sizeof header)
        return ce_fail(CS_BAD_FILE, "%s: truncated: %zu bytes, and the header alone has 64", path,
                       tokens->mapping_bytes);
    memcpy(&header, tokens->mapping, sizeof header);
    CE_TRY(check_form(&header, path));
    CE_TRY(check_extent(&header, tokens->mapping_bytes, path));
    CE_TRY(check_index(tokens, &header, path));
    tokens->tokens = (const char *)tokens->mapping + sizeof header;
    tokens->token_bytes = (int)header.token_bytes;
    tokens->count = (int64_t)header.count;
    tokens->vocab_size = (int64_t)header.vocab_size;
    tokens->documents = (int64_t)header.documents;
    tokens->starts = (const uint64_t *)((const char *)tokens->mapping + header.index_offset);
    if (header.mask_offset)
        tokens->learnt = (const unsigned char *)tokens->mapping + header.mask_offset;
    return CS_OK;
}

static bool is_llmc(const ce_tokens *tokens)
{
    int32_t first = 0;
    if (tokens->mapping_bytes >= sizeof first)
        memcpy(&first, tokens->mapping, sizeof first);
    return first == LLMC_MAGIC_GPT2 || first == LLMC_MAGIC_LLAMA3;
}

static cs_status read_llmc(ce_tokens *tokens, const char *path)
{
    int32_t field[3]; /* The three numbers are magic, version and count. */
    uint64_t bytes = tokens->mapping_bytes;
    if (bytes < LLMC_HEADER_BYTES)
        return ce_fail(CS_BAD_FILE, "%s: truncated: %" PRIu64 " bytes, and the header (of llm.c) alone has %d", path,
                       bytes, LLMC_HEADER_BYTES);
    memcpy(field, tokens->mapping, sizeof field);
    if (field[1] != 1 && field[1] != 7)
        return ce_fail(CS_BAD_FILE, "%s: its format version (of llm.c) is %" PRId32 ", not 1 or 7", path, field[1]);
    tokens->token_bytes = field[1] == 1 ? 2 : 4;
    uint64_t held = bytes - LLMC_HEADER_BYTES;
    if (field[2] < 0 || (uint64_t)field[2] * (uint64_t)tokens->token_bytes != held)
        return ce_fail(CS_BAD_FILE,
                       "%s: token count (llm.c's) is %" PRId32 " of %d bytes, and the file has %" PRIu64
                       " bytes after the header",
                       path, field[2], tokens->token_bytes, held);
    tokens->tokens = (const char *)tokens->mapping + LLMC_HEADER_BYTES;
    tokens->count = field[2];
    return CS_OK;
}

static cs_status read_raw(ce_tokens *tokens, const char *path)
{
    const char *suffix = strrchr(path, '.');
    if (!suffix || strcmp(suffix, ".bin") != 0)
        return ce_fail(CS_BAD_FILE,
                       "%s: not a token shard: it begins with no known magic number, and its name does not end in "
                       ".bin; rename JSON lines to .jsonl and plain text to .txt; `cspeed pack` reads other files, "
                       "or prints the command that converts them",
                       path);
    if (tokens->mapping_bytes % 2)
        return ce_fail(
            CS_BAD_FILE,
            "%s: not a token shard: it begins with no known magic number, and its size, %zu bytes, is not a multiple "
            "of 2, as that of raw 16-bit tokens would be",
            path, tokens->mapping_bytes);
    tokens->tokens = tokens->mapping;
    tokens->token_bytes = 2;
    tokens->count = (int64_t)(tokens->mapping_bytes / 2);
    return CS_OK;
}

static cs_status map_file(ce_tokens *tokens, int file, const char *path)
{
    struct stat facts;
    if (fstat(file, &facts) != 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: cannot read its size", path);
    if (!S_ISREG(facts.st_mode))
        return ce_fail(CS_BAD_FILE, "%s: %s, not a token shard", path,
                       S_ISDIR(facts.st_mode) ? "a directory" : "not a regular file");
    if (facts.st_size == 0)
        return ce_fail(CS_BAD_FILE, "%s: empty, not a token shard", path);
    void *mapping = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_SHARED, file, 0);
    if (mapping == MAP_FAILED)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: cannot map %jd bytes", path, (intmax_t)facts.st_size);
    tokens->mapping = mapping;
    tokens->mapping_bytes = (size_t)facts.st_size;
    tokens->file = ce_must_alloc(sizeof *tokens->file);
    *tokens->file = facts;
    return CS_OK;
}

static cs_status build(ce_tokens *tokens, const char *path)
{
    int file = ce_input_open(path);
    if (file < 0)
        return ce_fail_errno(errno == ENOENT ? CS_NOT_FOUND : CS_IO_ERROR, errno, "%s: cannot open this token shard",
                             path);
    CE_TRY(ce_input_check(&file, path));
    cs_status status = map_file(tokens, file, path);
    close(file);
    CE_TRY(status);
    if (has_magic(tokens))
        return read_own(tokens, path);
    return is_llmc(tokens) ? read_llmc(tokens, path) : read_raw(tokens, path);
}

cs_status ce_tokens_open(ce_tokens *tokens, const char *path)
{
    *tokens = (ce_tokens){ 0 };
    cs_status status = build(tokens, path);
    if (status != CS_OK)
        ce_tokens_close(tokens);
    return status;
}

void ce_tokens_close(ce_tokens *tokens)
{
    if (tokens->mapping)
        munmap(tokens->mapping, tokens->mapping_bytes);
    free(tokens->file);
    *tokens = (ce_tokens){ 0 };
}

void ce_tokens_watch(const ce_tokens *tokens, const char *path)
{
    struct stat now;
    const struct stat *before = tokens->file;
    if (stat(path, &now) != 0 || now.st_ino != before->st_ino || now.st_dev != before->st_dev)
        return;
    if ((size_t)now.st_size < tokens->mapping_bytes)
        ce_fatal(
            CS_BAD_FILE,
            "%s was truncated from %zu to %jd bytes while the training reads it; restore the file, and start again "
            "from the last checkpoint",
            path, tokens->mapping_bytes, (intmax_t)now.st_size);
    if (now.st_mtim.tv_sec == before->st_mtim.tv_sec && now.st_mtim.tv_nsec == before->st_mtim.tv_nsec)
        return;
    ce_log(CE_LOG_WARNING,
           "%s was modified while the training reads it (it had %jd bytes and has %jd): the next samples may be "
           "different from the ones that were planned; write new data to a new file",
           path, (intmax_t)before->st_size, (intmax_t)now.st_size);
    *tokens->file = now;
}

int64_t ce_tokens_at(const ce_tokens *tokens, int64_t position)
{
    return tokens->token_bytes == 2 ? ((const uint16_t *)tokens->tokens)[position]
                                    : ((const uint32_t *)tokens->tokens)[position];
}

bool ce_tokens_is_learnt(const ce_tokens *tokens, int64_t position)
{
    return !tokens->learnt || (tokens->learnt[position / 8] >> position % 8 & 1);
}

int64_t ce_tokens_targets(const ce_tokens *tokens, ce_range of)
{
    int64_t count = 0;
    if (!tokens->learnt)
        return ce_range_length(of);
    for (int64_t at = of.from; at < of.to; at++)
        if (at % 8 == 0 && of.to - at >= 8) { /* counts a whole byte of the mask */
            count += __builtin_popcount(tokens->learnt[at / 8]);
            at += 7;
        } else {
            count += ce_tokens_is_learnt(tokens, at);
        }
    return count;
}

ce_range ce_tokens_range(const ce_tokens *tokens, int64_t document)
{
    int64_t end = document + 1 < tokens->documents ? (int64_t)tokens->starts[document + 1] : tokens->count;
    return (ce_range){ (int64_t)tokens->starts[document], end };
}

/* Computes the maximum of each block, in a loop that the compiler vectorizes. If the maximum is `limit` or more, the
 * block is searched for its first token that is `limit` or more. */
int64_t ce_tokens_find_above(const ce_tokens *tokens, int64_t limit)
{
    enum { BLOCK = 4096 };
    for (int64_t from = 0; from < tokens->count; from += BLOCK) {
        int64_t to = from + BLOCK < tokens->count ? from + BLOCK : tokens->count;
        uint32_t largest = 0;
        if (tokens->token_bytes == 2) {
            const uint16_t *token = tokens->tokens;
            uint16_t max = 0;
            for (int64_t i = from; i < to; i++)
                max = token[i] > max ? token[i] : max;
            largest = max;
        } else {
            const uint32_t *token = tokens->tokens;
            for (int64_t i = from; i < to; i++)
                largest = token[i] > largest ? token[i] : largest;
        }
        if (largest < limit)
            continue;
        while (ce_tokens_at(tokens, from) < limit)
            from++;
        return from;
    }
    return tokens->count;
}
