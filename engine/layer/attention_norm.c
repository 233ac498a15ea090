/* attention_norm.c - the RMS norms of q and k in an attention layer.
 *
 * A norm over each head needs the columns of one head, which are on one rank. A norm over all heads (OLMo 2) needs sums
 * over the columns of all ranks: with tensor parallelism each rank computes the sum over its own columns, and these sums
 * are added. If ranks have copies of a key head, only the first copy's rank adds the head's squares, and only this rank
 * adds the term of the gradient that follows from the sums. */
#include "layer/attention_norm.h"
#include "layer/linear.h"
#include "layer/rms.h"
#include "unit/pass.h"

#include <stdio.h>

static cs_param *declare(cs_unit *unit, const char *name, const char *part, int64_t width, bool plus_one)
{
    char full[128];
    snprintf(full, sizeof full, "%s.%s.weight", name, part);
    cs_param *weight = cs_unit_param(unit, full, width, 0, (cs_init){ plus_one ? CS_ZEROS : CS_ONES, 0 });
    weight->norm = true;
    cs_param_overwrites(weight, weight);
    return weight;
}

void ce_attention_norm_declare(cs_attention *attention, cs_unit *unit, const char *name, const char *const parts[2],
                               int64_t queries, int64_t keys)
{
    attention->q_norm = declare(unit, name, parts[0] ? parts[0] : "q_norm", queries, attention->plus_one);
    attention->k_norm = declare(unit, name, parts[1] ? parts[1] : "k_norm", keys, attention->plus_one);
}

void ce_attention_norm_cut(cs_attention *attention, cs_unit *unit, ce_cut_part q, ce_cut_part k)
{
    int64_t queries = cs_count(attention->q_norm->value), keys = cs_count(attention->k_norm->value);
    if (ce_cut_group_of(unit).size == 1)
        return;
    if (queries == attention->width) {
        ce_cut_partial(attention->q_norm);
        ce_cut_partial(attention->k_norm);
        return;
    }
    ce_cut_param(attention->q_norm, 0, &q, 1);
    ce_cut_param(attention->k_norm, 0, &k, 1);
    attention->norm_queries = queries;
    attention->norm_keys = keys;
    attention->copy = k.copy > 0;
}

/* One of the two norms: its weight, the first of its columns in qkv, and for a norm over the columns of all ranks the
 * number of these columns, otherwise 0. `counts` is false if another rank adds the sums of the same columns. */
typedef struct {
    cs_param *weight;
    int64_t first, heads, whole;
    bool counts;
} norm;

static norm norm_of(const cs_attention *attention, bool keys)
{
    int64_t queries = attention->heads.queries * attention->width;
    return keys ? (norm){ attention->k_norm, queries, attention->heads.keys, attention->norm_keys, !attention->copy }
                : (norm){ attention->q_norm, 0, attention->heads.queries, attention->norm_queries, true };
}

static cs_tensor add_over_ranks(const norm *of, cs_pass *pass, cs_tensor sums)
{
    if (!of->counts)
        cs_op_fill(cs_pass_stream(pass), sums, 0);
    ce_pass_partial(pass, sums, of->weight);
    ce_pass_sum(pass, sums);
    return sums;
}

static void apply(const cs_attention *attention, cs_pass *pass, cs_tensor y, cs_tensor x, bool keys)
{
    norm of = norm_of(attention, keys);
    cs_stream *stream = cs_pass_stream(pass);
    cs_tensor factors = ce_rms_factors(of.weight, attention->plus_one, pass);
    int64_t columns = of.heads * attention->width;
    cs_tensor stats = cs_pass_make(pass, CS_F32, cs_rows(x), columns / cs_count(factors));
    if (of.whole > 0) {
        cs_tensor sums = cs_pass_make(pass, CS_F32, cs_rows(x), 1);
        cs_op_rms_sums(stream, sums, x, of.first, columns);
        cs_op_rms_apply(stream, y, stats, add_over_ranks(&of, pass, sums), x, factors, of.first, of.whole,
                        attention->epsilon);
    } else {
        cs_op_rms(stream, y, stats, x, factors, of.first, attention->epsilon);
    }
    cs_pass_keep(pass, stats);
}

cs_tensor ce_attention_norm(const cs_attention *attention, cs_pass *pass, cs_tensor qkv)
{
    cs_tensor y = cs_pass_like(pass, qkv);
    cs_op_cast(cs_pass_stream(pass), y, qkv);
    cs_pass_keep(pass, qkv);
    apply(attention, pass, y, qkv, false);
    apply(attention, pass, y, qkv, true);
    return y;
}

static void apply_backward(const cs_attention *attention, cs_pass *pass, cs_tensor dx, cs_tensor x, cs_tensor stats,
                           bool keys)
{
    norm of = norm_of(attention, keys);
    cs_stream *stream = cs_pass_stream(pass);
    cs_tensor factors = ce_rms_factors(of.weight, attention->plus_one, pass);
    cs_tensor dweight = ce_linear_grown(pass, of.weight);
    if (of.whole == 0) {
        cs_op_rms_grad(stream, dx, dweight, dx, x, stats, factors, of.first);
        return;
    }
    cs_tensor dots = cs_pass_make(pass, CS_F32, cs_rows(x), 1);
    cs_op_rms_dots(stream, dots, dx, x, factors, of.first);
    ce_pass_partial(pass, dots, of.weight);
    ce_pass_sum(pass, dots);
    if (!of.counts)
        cs_op_fill(stream, dots, 0);
    cs_op_rms_grad_apply(stream, dx, dweight, dots, dx, x, stats, factors, of.first, of.whole);
}

void ce_attention_norm_backward(const cs_attention *attention, cs_pass *pass, cs_tensor dqkv)
{
    cs_tensor k_stats = cs_pass_take(pass);
    cs_tensor q_stats = cs_pass_take(pass);
    cs_tensor qkv = cs_pass_take(pass);
    apply_backward(attention, pass, dqkv, qkv, k_stats, true);
    apply_backward(attention, pass, dqkv, qkv, q_stats, false);
}
