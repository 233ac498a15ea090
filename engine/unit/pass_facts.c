/* pass_facts.c - what a unit may ask about its pass. */
#include "unit/pass_inside.h"
#include "base/misuse.h"
#include "base/range.h"

cs_stream *cs_pass_stream(cs_pass *pass)
{
    CE_GIVEN(pass);
    return ce_device_stream(pass->shape.device, CE_COMPUTE);
}

cs_dtype cs_pass_dtype(cs_pass *pass)
{
    CE_GIVEN(pass);
    return pass->shape.dtype;
}

cs_dtype cs_pass_products(cs_pass *pass)
{
    CE_GIVEN(pass);
    return pass->shape.products;
}

int64_t cs_pass_batch(cs_pass *pass)
{
    CE_GIVEN(pass);
    return pass->info.batch;
}

int64_t cs_pass_length(cs_pass *pass)
{
    CE_GIVEN(pass);
    return pass->info.length;
}

bool cs_pass_continues(cs_pass *pass)
{
    CE_GIVEN(pass);
    return pass->info.sequences;
}

static const ce_sequence *sequence_of(const cs_pass *pass, int64_t sample, const char *function)
{
    if (!pass->info.sequences || sample < 0 || sample >= pass->info.batch)
        ce_misuse(function, "sample %lld of %lld continues no text (cs_pass_continues)", (long long)sample,
                  (long long)pass->info.batch);
    return &pass->info.sequences[sample];
}

int64_t cs_pass_start(cs_pass *pass, int64_t sample)
{
    CE_GIVEN(pass);
    return sequence_of(pass, sample, __func__)->start;
}

int64_t cs_pass_chunk(cs_pass *pass, cs_dtype dtype, int64_t rows, int64_t columns)
{
    CE_GIVEN(pass);
    if (rows < 0 || columns < 1)
        ce_misuse(__func__, "(%lld, %lld) is not the shape of an intermediate matrix", (long long)rows,
                  (long long)columns);
    int64_t fit = (int64_t)pass->shape.chunk_bytes / (columns * (int64_t)cs_dtype_bytes(dtype));
    int64_t max = fit < CE_PASS_CHUNK_ROWS ? CE_PASS_CHUNK_ROWS : fit / CE_PASS_CHUNK_ROWS * CE_PASS_CHUNK_ROWS;
    int64_t chunks = ce_divide_up(rows, max), even = ce_divide_up(rows, chunks);
    return chunks == 1 ? rows : ce_round_up(even, CE_PASS_CHUNK_ROWS);
}

cs_tensor cs_pass_dloss(cs_pass *pass)
{
    CE_GIVEN(pass);
    return pass->dloss;
}

cs_tensor cs_pass_hits(cs_pass *pass)
{
    CE_GIVEN(pass);
    return pass->info.hits;
}

cs_tensor cs_pass_cache(cs_pass *pass, int64_t sample, cs_dtype dtype, int64_t columns)
{
    CE_GIVEN(pass);
    return ce_cache_next(sequence_of(pass, sample, __func__)->cache, dtype, columns);
}

bool cs_pass_measuring(cs_pass *pass)
{
    CE_GIVEN(pass);
    return !pass->shape.block;
}

bool ce_pass_drops(const cs_pass *pass)
{
    return pass->info.mode == CE_PASS_TRAINING && !pass->info.no_dropout;
}

const ce_regular *ce_pass_regular(cs_pass *pass, unsigned part)
{
    static const ce_regular none = { 0 };
    pass->regular_parts |= part;
    return pass->info.mode == CE_PASS_TRAINING ? &pass->shape.regular : &none;
}

unsigned ce_pass_regular_parts(const cs_pass *pass)
{
    return pass->regular_parts;
}

bool cs_pass_training(cs_pass *pass)
{
    CE_GIVEN(pass);
    return pass->info.mode == CE_PASS_TRAINING;
}

cs_tensor cs_pass_targets(cs_pass *pass)
{
    CE_GIVEN(pass);
    return pass->info.targets;
}

cs_tensor cs_pass_starts(cs_pass *pass)
{
    CE_GIVEN(pass);
    return pass->info.starts;
}

const uint64_t *cs_pass_keys(cs_pass *pass)
{
    CE_GIVEN(pass);
    return pass->info.keys;
}
