/* plan.c - the memory of a run, before it runs: what stays between steps, by class. */
#include "zero/zero.h"

static cs_plan plan_unit(const cs_zero *zero, const cs_unit *unit)
{
    int64_t padded = cs_stage_padded(zero, unit->length);
    size_t  optim  = (size_t)cs_stage_share(zero, zero->stage.optim, padded) * sizeof(float);
    return (cs_plan){
        .values    = (size_t)cs_stage_share(zero, zero->stage.params, padded) * cs_dtype_bytes(zero->dtype),
        .gradients = (size_t)cs_stage_share(zero, zero->stage.grads, padded) * sizeof(float),
        .masters   = zero->dtype == CS_F32 ? 0 : optim,
        .slots     = optim * (size_t)zero->optimizer.slots,
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
