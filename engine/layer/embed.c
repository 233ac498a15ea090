/* embed.c - the embedding layer: token and position embedding, with dropout.
 *
 * With tensor parallelism the ranks divide the rows of the token table. The rank that has a token's row embeds the token,
 * position included; the row of the result is zero on the other ranks, and the sum over the ranks is exact. */
#include "layer/linear.h"
#include "base/misuse.h"
#include "layer/residual.h"
#include "unit/pass.h"

#include "base/rng.h"

#include <math.h>
#include <stdio.h>

enum { NOISE = 1 }; /* makes the random bits of noise others than those of dropout */

void cs_embed_declare(cs_embed *embed, cs_unit *unit, const char *tokens, const char *positions,
                      const cs_embed_sizes *sizes)
{
    CE_GIVEN(embed, unit);
    char full[128];
    snprintf(full, sizeof full, "%s.weight", tokens);
    embed->tokens = cs_unit_param(unit, full, sizes->vocabulary, sizes->width, sizes->init);
    cs_param_overwrites(embed->tokens, embed->tokens);
    ce_cut_part rows = ce_cut_share(sizes->vocabulary, ce_cut_group_of(unit));
    ce_cut_param(embed->tokens, 0, &rows, 1);
    embed->first = ce_cut_group_of(unit).size > 1 ? rows.from : CS_WHOLE_TABLE;
    if (positions) {
        snprintf(full, sizeof full, "%s.weight", positions);
        embed->positions = cs_unit_param(unit, full, sizes->positions, sizes->width, sizes->init);
        cs_param_overwrites(embed->positions, embed->positions);
    }
    embed->rate = sizes->dropout;
    embed->place = cs_residual_place(unit, tokens);
    embed->scale = sizes->scale;
    embed->padding = sizes->has_padding ? sizes->padding : -1;
}

/* Embeds the tokens of text generation, where the samples begin at different positions. */
static void continue_texts(const cs_embed *embed, cs_pass *pass, cs_tensor tokens, cs_tensor y)
{
    int64_t length = cs_pass_length(pass);
    cs_tensor table = embed->positions->value;
    for (int64_t b = 0; b < cs_pass_batch(pass); b++) {
        int64_t start = cs_pass_start(pass, b);
        cs_op_embed(cs_pass_stream(pass), cs_matrix_rows(y, b * length, length), cs_matrix_rows(tokens, b, 1),
                    embed->tokens->value, embed->first, cs_matrix_rows(table, start, length), (cs_tensor){ 0 });
    }
}

/* Adds the noise of NEFTune (Jain et al. 2023) to this rank's embeddings: uniform in +-alpha / sqrt(T C) for samples of T
 * positions and C columns. */
static void add_noise(const cs_embed *embed, cs_pass *pass, cs_tensor y)
{
    double alpha = ce_pass_regular(pass, CE_REGULAR_NOISE)->noise;
    if (alpha <= 0)
        return;
    double size = alpha / sqrt((double)cs_pass_length(pass) * (double)cs_columns(y));
    cs_op_add_noise(cs_pass_stream(pass), y, (float)size,
                    ce_residual_dropout_rows(pass, 1, ce_rng_mix(embed->place, NOISE), y));
}

void cs_embed_forward(const cs_embed *embed, cs_pass *pass, cs_tensor tokens, cs_tensor y)
{
    CE_GIVEN(embed, pass);
    cs_dropout dropout = ce_residual_dropout_rows(pass, embed->rate, embed->place, y);
    cs_tensor all = ce_pass_cuts_rows(pass) ? cs_pass_make(pass, y.dtype, cs_count(tokens), cs_columns(y)) : y;
    if (embed->positions && cs_pass_continues(pass))
        continue_texts(embed, pass, tokens, y);
    else
        cs_op_embed(cs_pass_stream(pass), all, tokens, embed->tokens->value, embed->first,
                    embed->positions ? embed->positions->value : (cs_tensor){ 0 }, cs_pass_starts(pass));
    ce_pass_partial(pass, all, embed->tokens);
    ce_pass_sum_rows_into(pass, y, all);
    if (embed->scale > 0)
        cs_op_scale(cs_pass_stream(pass), y, y, embed->scale);
    add_noise(embed, pass, y);
    if (dropout.rate > 0)
        cs_op_dropout(cs_pass_stream(pass), y, y, dropout);
    cs_pass_keep(pass, tokens);
}

void cs_embed_backward(const cs_embed *embed, cs_pass *pass, cs_tensor dy)
{
    CE_GIVEN(embed, pass);
    cs_dropout dropout = ce_residual_dropout_rows(pass, embed->rate, embed->place, dy);
    cs_tensor tokens = cs_pass_take(pass);
    if (embed->tokens->frozen && (!embed->positions || embed->positions->frozen))
        return;
    if (dropout.rate > 0) {
        cs_tensor dropped = cs_pass_like(pass, dy);
        cs_op_dropout(cs_pass_stream(pass), dropped, dy, dropout);
        dy = dropped;
    }
    if (embed->scale > 0) {
        cs_tensor scaled = cs_pass_like(pass, dy);
        cs_op_scale(cs_pass_stream(pass), scaled, dy, embed->scale);
        dy = scaled;
    }
    dy = ce_pass_gather_rows(pass, dy);
    cs_op_embed_grad(cs_pass_stream(pass), ce_linear_grown(pass, embed->tokens), embed->first,
                     embed->positions ? ce_linear_grown(pass, embed->positions) : (cs_tensor){ 0 }, dy, tokens,
                     cs_pass_starts(pass), embed->padding);
}
