/* attention.c - the attention layer: projections, norms of q and k, rotary positions, causal self-attention. */
#include "layer/linear.h"
#include "layer/rms.h"

#include <stdio.h>

void cs_attention_declare(cs_attention *attention, cs_unit *unit, const char *name, const cs_attention_sizes *sizes)
{
    char full[128];
    snprintf(full, sizeof full, "%s.c_attn", name);
    cs_linear_declare(&attention->qkv, unit, full, sizes->width, 3 * sizes->width, sizes->init, CS_IN_OUT, CS_BIAS);
    snprintf(full, sizeof full, "%s.c_proj", name);
    cs_linear_declare(&attention->out, unit, full, sizes->width, sizes->width, sizes->out_init, CS_IN_OUT, CS_BIAS);
    attention->heads = (cs_heads){ .queries = sizes->heads, .keys = sizes->heads, .scale = sizes->scale };
    attention->width = sizes->width / sizes->heads;
    attention->rate = sizes->dropout;
    attention->place = cs_residual_place(unit, name);
}

static cs_param *declare_norm(cs_unit *unit, const char *name, const char *part, int64_t width, bool plus_one)
{
    char full[128];
    snprintf(full, sizeof full, "%s.%s.weight", name, part);
    cs_param *weight = cs_unit_param(unit, full, width, 0, (cs_init){ plus_one ? CS_ZEROS : CS_ONES, 0 });
    weight->norm = true;
    cs_param_overwrites(weight, weight);
    return weight;
}

void cs_attention_declare_parts(cs_attention *attention, cs_unit *unit, const char *name,
                                const cs_attention_parts *parts)
{
    int64_t queries = parts->heads.queries * parts->head, keys = parts->heads.keys * parts->head;
    cs_linear_part qkv[] = { { "q_proj", queries }, { "k_proj", keys }, { "v_proj", keys } };
    char full[128];
    if (parts->fused) {
        snprintf(full, sizeof full, "%s.%s", name, parts->fused);
        cs_linear_declare(&attention->qkv, unit, full, parts->width, queries + 2 * keys, parts->init, CS_OUT_IN,
                          parts->bias);
    } else {
        cs_linear_declare_parts(&attention->qkv, unit, name, parts->width, qkv, 3, parts->init, parts->bias);
    }
    snprintf(full, sizeof full, "%s.%s", name, parts->out ? parts->out : "o_proj");
    cs_linear_declare(&attention->out, unit, full, queries, parts->width, parts->init, CS_OUT_IN, parts->out_bias);
    if (parts->normed) {
        bool plus_one = parts->norm_plus_one;
        attention->q_norm = declare_norm(unit, name, "q_norm", parts->norm_whole ? queries : parts->head, plus_one);
        attention->k_norm = declare_norm(unit, name, "k_norm", parts->norm_whole ? keys : parts->head, plus_one);
    }
    cs_rope_open(&attention->rope, parts->rope);
    if (parts->rope->kind == CS_ROPE_LONG) {
        cs_rope_open_longer(&attention->longer, parts->rope);
        attention->original = (int64_t)parts->rope->original;
    }
    attention->heads = parts->heads;
    attention->grouped = parts->grouped;
    attention->plus_one = parts->norm_plus_one;
    attention->width = parts->head;
    attention->epsilon = parts->epsilon;
    attention->rate = parts->dropout;
    attention->place = cs_residual_place(unit, name);
}

static cs_tensor factors(const cs_attention *attention, cs_pass *pass, const cs_param *norm)
{
    return ce_rms_factors(norm, attention->plus_one, pass);
}

/* Applies RMSNorm to q and to k. If the norm's weight is as long as one head, each head is normalized by itself;
 * otherwise all heads of q are normalized together, and all heads of k together. v is copied unchanged. */
static cs_tensor norm_heads(const cs_attention *attention, cs_pass *pass, cs_tensor qkv)
{
    cs_stream *stream = cs_pass_stream(pass);
    cs_tensor y = cs_pass_like(pass, qkv);
    int64_t queries = attention->heads.queries * attention->width, keys = attention->heads.keys * attention->width;
    cs_tensor q_stats = cs_pass_make(pass, CS_F32, cs_rows(qkv), queries / cs_count(attention->q_norm->value));
    cs_tensor k_stats = cs_pass_make(pass, CS_F32, cs_rows(qkv), keys / cs_count(attention->k_norm->value));
    cs_op_cast(stream, y, qkv);
    cs_op_rms(stream, y, q_stats, qkv, factors(attention, pass, attention->q_norm), 0, attention->epsilon);
    cs_op_rms(stream, y, k_stats, qkv, factors(attention, pass, attention->k_norm), queries, attention->epsilon);
    cs_pass_keep(pass, qkv);
    cs_pass_keep(pass, q_stats);
    cs_pass_keep(pass, k_stats);
    return y;
}

static void norm_heads_backward(const cs_attention *attention, cs_pass *pass, cs_tensor dqkv)
{
    cs_stream *stream = cs_pass_stream(pass);
    cs_tensor k_stats = cs_pass_take(pass);
    cs_tensor q_stats = cs_pass_take(pass);
    cs_tensor qkv = cs_pass_take(pass);
    int64_t keys = attention->heads.queries * attention->width;
    cs_op_rms_grad(stream, dqkv, ce_linear_grown(pass, attention->k_norm), dqkv, qkv, k_stats,
                   factors(attention, pass, attention->k_norm), keys);
    cs_op_rms_grad(stream, dqkv, ce_linear_grown(pass, attention->q_norm), dqkv, qkv, q_stats,
                   factors(attention, pass, attention->q_norm), 0);
}

/* Returns a copy of attention->heads in which `starts` are the document starts of this pass. If several documents are
 * packed into one sample, a position attends only to positions of its own document. */
static cs_heads heads_of(const cs_attention *attention, cs_pass *pass)
{
    cs_heads heads = attention->heads;
    heads.starts = cs_pass_starts(pass);
    return heads;
}

/* Returns the rotary frequencies for this pass, which depend on the length of its samples. */
static const cs_rope *rope_of(const cs_attention *attention, cs_pass *pass)
{
    bool longer = attention->original > 0 && cs_pass_length(pass) > attention->original;
    return longer ? &attention->longer : &attention->rope;
}

static cs_rope_rows rows_of(const cs_attention *attention, cs_pass *pass, int64_t first)
{
    return (cs_rope_rows){ attention->heads.queries + attention->heads.keys, cs_pass_length(pass), first };
}

/* Attention in text generation: each sample attends to the cached keys and values of all positions of its text. With
 * LongRoPE a text has at most `original` positions: a longer text would need the rotary frequencies `longer`, but the
 * cached keys have been rotated with the frequencies `rope`. */
static void extend(const cs_attention *attention, cs_pass *pass, cs_tensor y, cs_tensor qkv)
{
    cs_stream *stream = cs_pass_stream(pass);
    int64_t length = cs_pass_length(pass), shared = attention->heads.keys * attention->width;
    for (int64_t b = 0; b < cs_pass_batch(pass); b++) {
        int64_t start = cs_pass_start(pass, b);
        cs_tensor keys = cs_pass_cache(pass, b, qkv.dtype, shared), values = cs_pass_cache(pass, b, qkv.dtype, shared);
        cs_tensor own_qkv = cs_matrix_rows(qkv, b * length, length), own_y = cs_matrix_rows(y, b * length, length);
        if (attention->rope.width)
            cs_op_rope(stream, own_qkv, &attention->rope, rows_of(attention, pass, start));
        cs_op_attention_extend(stream, own_y, own_qkv, keys, values, attention->heads, start);
    }
}

static cs_tensor project(const cs_attention *attention, cs_pass *pass, cs_tensor x)
{
    cs_tensor qkv = cs_linear_forward(&attention->qkv, pass, x);
    if (!attention->grouped)
        return qkv;
    cs_tensor parts = cs_pass_like(pass, qkv);
    cs_op_ungroup_heads(cs_pass_stream(pass), parts, qkv, attention->heads);
    return parts;
}

static cs_tensor project_backward(const cs_attention *attention, cs_pass *pass, cs_tensor dqkv)
{
    if (attention->grouped) {
        cs_tensor parts = dqkv;
        dqkv = cs_pass_like(pass, parts);
        cs_op_group_heads(cs_pass_stream(pass), dqkv, parts, attention->heads);
    }
    return cs_linear_backward(&attention->qkv, pass, dqkv);
}

cs_tensor cs_attention_forward(const cs_attention *attention, cs_pass *pass, cs_tensor x)
{
    cs_tensor qkv = project(attention, pass, x);
    cs_tensor y = cs_pass_make(pass, qkv.dtype, cs_rows(x), attention->heads.queries * attention->width);
    cs_tensor lse = cs_pass_make(pass, CS_F32, cs_pass_batch(pass) * attention->heads.queries, cs_pass_length(pass));
    if (attention->q_norm)
        qkv = norm_heads(attention, pass, qkv);
    if (cs_pass_continues(pass)) {
        extend(attention, pass, y, qkv);
        return cs_linear_forward(&attention->out, pass, y);
    }
    if (attention->rope.width)
        cs_op_rope(cs_pass_stream(pass), qkv, rope_of(attention, pass), rows_of(attention, pass, 0));
    cs_op_attention(cs_pass_stream(pass), y, lse, qkv, heads_of(attention, pass),
                    cs_residual_dropout(pass, attention->rate, attention->place));
    cs_pass_keep(pass, qkv);
    cs_pass_keep(pass, y);
    cs_pass_keep(pass, lse);
    return cs_linear_forward(&attention->out, pass, y);
}

cs_tensor cs_attention_backward(const cs_attention *attention, cs_pass *pass, cs_tensor dy)
{
    cs_tensor dout = cs_linear_backward(&attention->out, pass, dy);
    cs_tensor lse = cs_pass_take(pass);
    cs_tensor y = cs_pass_take(pass);
    cs_tensor qkv = cs_pass_take(pass);
    cs_tensor dqkv = cs_pass_like(pass, qkv);
    cs_op_attention_grad(cs_pass_stream(pass), dqkv, dout, y, lse, qkv, heads_of(attention, pass),
                         cs_residual_dropout(pass, attention->rate, attention->place));
    if (attention->rope.width)
        cs_op_rope_grad(cs_pass_stream(pass), dqkv, rope_of(attention, pass), rows_of(attention, pass, 0));
    if (attention->q_norm)
        norm_heads_backward(attention, pass, dqkv);
    return project_backward(attention, pass, dqkv);
}
