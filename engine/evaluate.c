/* evaluate.c - cs_evaluate: down the list, keeping nothing; sums and counts, then one division. cs_predict beside it.
 */
#include "engine.h"
#include "base/must.h"
#include "data/data.h"
#include "loader.h"

#include <math.h>

static void add_batch(cs_engine *engine, const cs_batch *batch, cs_exact *sum, int64_t *rows)
{
    const int32_t *target = batch->targets.data;
    cs_tensor      loss =
        cs_forward_descend(engine, &(cs_descent){ CS_PASS_EVALUATION, batch->inputs, batch->targets, false });
    cs_state_sum(cs_pass_stream(engine->pass), sum, loss.data, cs_count(loss));
    cs_pass_let_go(engine->pass, loss);
    cs_pass_end(engine->pass);
    for (int64_t i = 0; i < cs_count(batch->targets); i++)
        *rows += target[i] >= 0;
}

cs_status cs_evaluate(cs_engine *engine, cs_data *data, int64_t batches, double *loss)
{
    struct {
        cs_exact sum;
        int64_t  rows;
    } all          = { 0 };
    int64_t micro  = engine->settings->micro_batch;
    int64_t whole  = (cs_windows_count(data->windows) + micro - 1) / micro;
    int64_t wanted = batches > 0 && batches < whole ? batches : whole;
    int64_t rounds = (wanted + engine->world.size - 1) / engine->world.size;
    cs_forward_expect(engine, CS_EXPECT_FORWARD, "cs_evaluate");
    cs_forward_settle(engine);
    double started = cs_clock_seconds(), flops = cs_device_flops(engine->device);
    for (int64_t round = 0; round < rounds; round++) {
        int64_t  lane  = round * engine->world.size + engine->world.rank;
        cs_batch batch = cs_loader_lane(data, lane < wanted ? lane : -1);
        add_batch(engine, &batch, &all.sum, &all.rows);
    }
    cs_walk_settle(engine);
    cs_comm_all_reduce(engine->comm, &all, sizeof all / sizeof(int64_t), CS_I64, CS_SUM);
    *loss = all.rows ? cs_exact_value(&all.sum) / (double)all.rows : (double)NAN;
    engine->started += cs_clock_seconds() - started; /* not the step's time */
    engine->flops_before += cs_device_flops(engine->device) - flops;
    return CS_OK;
}

cs_status cs_predict(cs_engine *engine, const cs_batch *batch, cs_tensor *output)
{
    cs_unit *last = engine->model->units[engine->model->count - 1];
    cs_forward_expect(engine, CS_EXPECT_FORWARD, "cs_predict");
    cs_forward_settle(engine);
    if (!last->kind->predict)
        return cs_fail(CS_UNSUPPORTED, "not supported: cs_predict, because the last unit (%s) has no predict function",
                       last->kind->name);
    int64_t longest = engine->model->inputs ? engine->model->inputs : engine->length;
    if (batch->inputs.shape[0] > engine->settings->micro_batch || batch->inputs.shape[1] > longest)
        return cs_fail(CS_BAD_CONFIG, "cs_predict: a batch of %lld x %lld is larger than the %lld x %lld of training",
                       (long long)batch->inputs.shape[0], (long long)batch->inputs.shape[1],
                       (long long)engine->settings->micro_batch, (long long)longest);
    engine->prediction = cs_forward_descend(engine, &(cs_descent){ CS_PASS_EVALUATION, batch->inputs, { 0 }, true });
    cs_stream_sync(cs_device_stream(engine->device, CS_COMPUTE));
    *output = engine->prediction;
    return CS_OK;
}
