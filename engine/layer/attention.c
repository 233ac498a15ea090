/* attention.c - the attention layer: projections, norms of q and k, rotary positions, causal self-attention. */
#include "layer/linear.h"
#include "base/misuse.h"
#include "layer/attention_norm.h"
#include "unit/cut.h"

#include <stdio.h>

/* ---- tensor parallelism ---- */

/* Divides the heads over the ranks: this rank's heads become attention->heads, and the projections are cut. `fused` is
 * true if one matrix projects to q, k and v. */
static void cut_heads(cs_attention *attention, cs_unit *unit, bool fused)
{
    cs_heads *heads = &attention->heads;
    ce_cut_heads own = ce_cut_heads_of(heads->queries, heads->keys, ce_cut_group_of(unit));
    int64_t width = attention->width, each = heads->queries / heads->keys, group = (each + 2) * width;
    int64_t k = fused ? heads->queries * width : 0, v = fused ? k + heads->keys * width : 0;
    heads->first = own.queries.from;
    heads->queries = ce_range_length(own.queries);
    heads->keys = ce_range_length(own.keys);
    ce_cut_part q = { own.queries.from * width, heads->queries * width, 1, 0 };
    ce_cut_part keys = { own.keys.from * width, heads->keys * width, own.copies, own.copy }, values = keys;
    keys.from += k;
    values.from += v;
    if (attention->grouped && own.copies == 1) { /* the groups of this rank are consecutive */
        ce_cut_part groups = { own.keys.from * group, heads->keys * group, 1, 0 };
        ce_linear_cut_outputs(&attention->qkv, unit, &groups, 1);
    } else if (attention->grouped) { /* some query heads of one group, and a copy of its key head and its value head */
        int64_t first = own.keys.from * group;
        ce_cut_part queries = { first + own.queries.from % each * width, q.count, 1, 0 };
        ce_cut_part both = { first + each * width, 2 * width, own.copies, own.copy };
        ce_linear_cut_outputs(&attention->qkv, unit, (ce_cut_part[]){ queries, both }, 2);
    } else {
        ce_linear_cut_outputs(&attention->qkv, unit, (ce_cut_part[]){ q, keys, values }, 3);
    }
    ce_linear_cut_inputs(&attention->out, unit, q);
    if (attention->sinks)
        ce_cut_param(attention->sinks, 0, &(ce_cut_part){ own.queries.from, heads->queries, 1, 0 }, 1);
    if (attention->q_norm)
        ce_attention_norm_cut(attention, unit, q,
                              (ce_cut_part){ own.keys.from * width, keys.count, own.copies, own.copy });
}

void cs_attention_declare(cs_attention *attention, cs_unit *unit, const char *name, const cs_attention_sizes *sizes)
{
    CE_GIVEN(attention, unit);
    char full[128];
    snprintf(full, sizeof full, "%s.c_attn", name);
    cs_linear_declare(&attention->qkv, unit, full, sizes->width, 3 * sizes->width, sizes->init, CS_IN_OUT, CS_BIAS);
    snprintf(full, sizeof full, "%s.c_proj", name);
    cs_linear_declare(&attention->out, unit, full, sizes->width, sizes->width, sizes->out_init, CS_IN_OUT, CS_BIAS);
    attention->heads = (cs_heads){ .queries = sizes->heads, .keys = sizes->heads, .scale = sizes->scale };
    attention->width = sizes->width / sizes->heads;
    attention->rate = sizes->dropout;
    attention->place = cs_residual_place(unit, name);
    cut_heads(attention, unit, true);
}

void cs_attention_declare_parts(cs_attention *attention, cs_unit *unit, const char *name,
                                const cs_attention_parts *parts)
{
    CE_GIVEN(attention, unit);
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
    attention->plus_one = parts->norm_plus_one;
    attention->late = parts->norm_late;
    if (parts->normed)
        ce_attention_norm_declare(attention, unit, name, (const char *const[]){ parts->q_norm, parts->k_norm },
                                  parts->norm_whole ? queries : parts->head, parts->norm_whole ? keys : parts->head);
    if (parts->sinks) {
        snprintf(full, sizeof full, "%s.sinks", name);
        attention->sinks = cs_unit_param(unit, full, parts->heads.queries, 0, parts->init);
        cs_param_overwrites(attention->sinks, attention->sinks);
    }
    cs_rope_open(&attention->rope, parts->rope);
    if (parts->rope->kind == CS_ROPE_LONG) {
        cs_rope_open_longer(&attention->longer, parts->rope);
        attention->original = (int64_t)parts->rope->original;
    }
    attention->heads = parts->heads;
    attention->grouped = parts->grouped;
    attention->width = parts->head;
    attention->epsilon = parts->epsilon;
    attention->rate = parts->dropout;
    attention->place = cs_residual_place(unit, name);
    cut_heads(attention, unit, parts->fused);
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
        cs_tensor lse = { 0 };
        if (attention->sinks)
            lse = cs_pass_make(pass, CS_F32, attention->heads.queries, length);
        cs_op_attention_extend(stream, own_y, lse, own_qkv, keys, values, attention->heads, start);
        if (attention->sinks)
            cs_op_sinks(stream, own_y, lse, attention->sinks->value);
    }
}

/* Rotates q and k. When a text is continued, each sample has positions of its own. */
static void rotate(const cs_attention *attention, cs_pass *pass, cs_tensor qkv)
{
    int64_t length = cs_pass_length(pass);
    if (!attention->rope.width)
        return;
    if (!cs_pass_continues(pass))
        cs_op_rope(cs_pass_stream(pass), qkv, rope_of(attention, pass), rows_of(attention, pass, 0));
    else
        for (int64_t b = 0; b < cs_pass_batch(pass); b++)
            cs_op_rope(cs_pass_stream(pass), cs_matrix_rows(qkv, b * length, length), &attention->rope,
                       rows_of(attention, pass, cs_pass_start(pass, b)));
}

/* Applies the norms and the rotation to q and k, in the model's order. */
static cs_tensor place(const cs_attention *attention, cs_pass *pass, cs_tensor qkv)
{
    if (attention->late)
        rotate(attention, pass, qkv);
    if (attention->q_norm)
        qkv = ce_attention_norm(attention, pass, qkv);
    if (!attention->late)
        rotate(attention, pass, qkv);
    return qkv;
}

static void place_backward(const cs_attention *attention, cs_pass *pass, cs_tensor dqkv)
{
    if (attention->q_norm && attention->late)
        ce_attention_norm_backward(attention, pass, dqkv);
    if (attention->rope.width)
        cs_op_rope_grad(cs_pass_stream(pass), dqkv, rope_of(attention, pass), rows_of(attention, pass, 0));
    if (attention->q_norm && !attention->late)
        ce_attention_norm_backward(attention, pass, dqkv);
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
    CE_GIVEN(attention, pass);
    cs_tensor qkv = project(attention, pass, x);
    cs_tensor y = cs_pass_make(pass, qkv.dtype, cs_rows(qkv), attention->heads.queries * attention->width);
    cs_tensor lse = cs_pass_make(pass, CS_F32, cs_pass_batch(pass) * attention->heads.queries, cs_pass_length(pass));
    qkv = place(attention, pass, qkv);
    if (cs_pass_continues(pass)) {
        extend(attention, pass, y, qkv);
        return cs_linear_forward(&attention->out, pass, y);
    }
    cs_op_attention(cs_pass_stream(pass), y, lse, qkv, heads_of(attention, pass),
                    cs_residual_dropout(pass, attention->rate, attention->place));
    if (attention->sinks)
        cs_op_sinks(cs_pass_stream(pass), y, lse, attention->sinks->value);
    cs_pass_keep(pass, qkv);
    cs_pass_keep(pass, y);
    cs_pass_keep(pass, lse);
    return cs_linear_forward(&attention->out, pass, y);
}

cs_tensor cs_attention_backward(const cs_attention *attention, cs_pass *pass, cs_tensor dy)
{
    CE_GIVEN(attention, pass);
    cs_tensor dout = cs_linear_backward(&attention->out, pass, dy);
    cs_tensor lse = cs_pass_take(pass);
    cs_tensor y = cs_pass_take(pass);
    cs_tensor qkv = cs_pass_take(pass);
    cs_tensor dqkv = cs_pass_like(pass, qkv);
    if (attention->sinks)
        cs_op_sinks_grad(cs_pass_stream(pass), cs_param_gradient(attention->sinks), dout, y, lse,
                         attention->sinks->value);
    cs_op_attention_grad(cs_pass_stream(pass), dqkv, dout, y, lse, qkv, heads_of(attention, pass),
                         cs_residual_dropout(pass, attention->rate, attention->place));
    place_backward(attention, pass, dqkv);
    return project_backward(attention, pass, dqkv);
}
