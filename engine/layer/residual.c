/* residual.c - the residual connection: y = a + dropout(b). */
#include "cspeed/layer.h"
#include "base/rng.h"
#include "unit/pass.h"
#include "unit/unit.h"

cs_dropout cs_residual_dropout(cs_pass *pass, float rate, uint64_t place)
{
    return (cs_dropout){
        .rate = ce_pass_drops(pass) ? rate : 0, .place = place, .keys = cs_pass_keys(pass), .batch = cs_pass_batch(pass)
    };
}

uint64_t cs_residual_place(cs_unit *unit, const char *name)
{
    return ce_rng_key(ce_rng_key(0, unit->name), name);
}

void cs_residual_declare(cs_residual *residual, cs_unit *unit, const char *name, float rate)
{
    residual->rate = rate;
    residual->place = cs_residual_place(unit, name);
}

void cs_residual_forward(const cs_residual *residual, cs_pass *pass, cs_tensor y, cs_tensor a, cs_tensor b)
{
    cs_op_add_dropout(cs_pass_stream(pass), y, a, b, cs_residual_dropout(pass, residual->rate, residual->place));
}

cs_addition cs_residual_addition(const cs_residual *residual, cs_pass *pass, cs_tensor y, cs_tensor a, cs_tensor b)
{
    return (cs_addition){ y, a, b, cs_residual_dropout(pass, residual->rate, residual->place) };
}

cs_tensor cs_residual_backward(const cs_residual *residual, cs_pass *pass, cs_tensor dy)
{
    cs_dropout dropout = cs_residual_dropout(pass, residual->rate, residual->place);
    if (dropout.rate == 0)
        return dy;
    cs_tensor db = cs_pass_like(pass, dy);
    cs_op_dropout(cs_pass_stream(pass), db, dy, dropout);
    return db;
}
