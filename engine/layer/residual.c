/* residual.c - the residual connection: y = a + dropout(b). */
#include "layer/residual.h"
#include "base/misuse.h"
#include "base/range.h"
#include "base/rng.h"
#include "unit/pass.h"
#include "unit/unit.h"

cs_dropout cs_residual_dropout(cs_pass *pass, float rate, uint64_t place)
{
    CE_GIVEN(pass);
    return (cs_dropout){
        .rate = ce_pass_drops(pass) ? rate : 0, .place = place, .keys = cs_pass_keys(pass), .batch = cs_pass_batch(pass)
    };
}

/* With sequence parallelism a rank has the rows of some samples, or some rows of one sample. */
cs_dropout ce_residual_dropout_rows(cs_pass *pass, float rate, uint64_t place, cs_tensor x)
{
    cs_dropout dropout = cs_residual_dropout(pass, rate, place);
    int64_t length = cs_pass_length(pass);
    if (!ce_pass_cuts_rows(pass) || cs_rows(x) == dropout.batch * length || dropout.rate <= 0)
        return dropout;
    int64_t first = ce_pass_rank(pass) * ce_pass_rows(pass);
    dropout.keys += first / length;
    dropout.batch = ce_divide_up(ce_pass_rows(pass), length);
    dropout.from = first % length * cs_columns(x);
    dropout.width = cs_columns(x);
    return dropout;
}

uint64_t cs_residual_place(cs_unit *unit, const char *name)
{
    CE_GIVEN(unit, name);
    return ce_rng_key(ce_rng_key(0, unit->name), name);
}

void cs_residual_declare(cs_residual *residual, cs_unit *unit, const char *name, float rate)
{
    CE_GIVEN(residual, unit);
    residual->rate = rate;
    residual->place = cs_residual_place(unit, name);
}

/* Returns the dropout of b. Only cs_op_dropout can drop some rows of a sample; then b becomes its result, and no dropout
 * is left. */
static cs_dropout drop_rows(const cs_residual *residual, cs_pass *pass, cs_tensor *b)
{
    cs_dropout dropout = ce_residual_dropout_rows(pass, residual->rate, residual->place, *b);
    if (dropout.width == 0)
        return dropout;
    cs_tensor dropped = cs_pass_like(pass, *b);
    cs_op_dropout(cs_pass_stream(pass), dropped, *b, dropout);
    *b = dropped;
    return (cs_dropout){ 0 };
}

void cs_residual_forward(const cs_residual *residual, cs_pass *pass, cs_tensor y, cs_tensor a, cs_tensor b)
{
    CE_GIVEN(residual, pass);
    cs_dropout dropout = drop_rows(residual, pass, &b);
    cs_op_add_dropout(cs_pass_stream(pass), y, a, b, dropout);
}

cs_addition cs_residual_addition(const cs_residual *residual, cs_pass *pass, cs_tensor y, cs_tensor a, cs_tensor b)
{
    CE_GIVEN(residual, pass);
    cs_dropout dropout = drop_rows(residual, pass, &b);
    return (cs_addition){ y, a, b, dropout };
}

cs_tensor cs_residual_backward(const cs_residual *residual, cs_pass *pass, cs_tensor dy)
{
    CE_GIVEN(residual, pass);
    cs_dropout dropout = ce_residual_dropout_rows(pass, residual->rate, residual->place, dy);
    if (dropout.rate <= 0)
        return dy;
    cs_tensor db = cs_pass_like(pass, dy);
    cs_op_dropout(cs_pass_stream(pass), db, dy, dropout);
    return db;
}

void ce_residual_forward_joined(const cs_residual *first, const cs_residual *second, cs_pass *pass, cs_tensor y,
                                cs_tensor x, cs_tensor a, cs_tensor b, const cs_param *with)
{
    cs_tensor both = cs_pass_like(pass, b);
    cs_residual_forward(second, pass, both, cs_residual_backward(first, pass, a), b);
    ce_pass_partial(pass, both, with);
    cs_op_add_dropout(cs_pass_stream(pass), y, x, ce_pass_sum_rows(pass, both), (cs_dropout){ 0 });
}
