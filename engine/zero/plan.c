/* plan.c - the memory of a run, before it runs: what stays between steps, by class. */
#include "zero/zero.h"

static cs_plan plan_unit(const cs_zero *zero, const cs_unit *unit)
{
    cs_precision types = zero->precision;
    int64_t padded = cs_stage_padded(zero, unit->length);
    size_t optim = (size_t)cs_stage_share(zero, zero->stage.optim, padded), slots = 0;
    cs_range whole = { 0, padded }, mine = zero->stage.optim == CS_SHARDED ? cs_stage_part(zero, padded) : whole;
    for (int i = 0; i < zero->optimizer.slots; i++)
        slots += (size_t)cs_stage_slot_share(zero, unit, mine, i);
    return (cs_plan){
        .values = (size_t)cs_stage_share(zero, zero->stage.params, padded) * cs_dtype_bytes(types.values) +
                  (size_t)cs_stage_norms(zero, unit) * sizeof(float),
        .gradients = (size_t)cs_stage_share(zero, zero->stage.grads, padded) * cs_dtype_bytes(types.sums),
        .masters = cs_stage_one_copy(zero) ? 0 : optim * cs_dtype_bytes(types.masters),
        .slots = slots * cs_dtype_bytes(types.slots),
    };
}

cs_plan cs_plan_persistent(const cs_zero *zero, const cs_model *model)
{
    cs_plan plan = { 0 };
    for (int i = 0; i < model->count; i++) {
        cs_plan unit = plan_unit(zero, model->units[i]);
        plan.values += unit.values;
        plan.gradients += unit.gradients;
        plan.masters += unit.masters;
        plan.slots += unit.slots;
    }
    return plan;
}
