/* evaluate.c - cs_evaluate, cs_score: down the list, keeping nothing; sums and counts, then one division. cs_predict
 * beside them. */
#include "engine.h"
#include "base/beat.h"
#include "base/log.h"
#include "base/must.h"
#include "data/data.h"
#include "input/loader.h"

#include <math.h>

/* Over this rank's batches, in the device's memory, then over all ranks'. */
typedef struct {
    cs_exact loss, hits;
    int64_t rows;
} sums;

/* Returns how many rows have a target. */
static int64_t add_batch(cs_engine *engine, const cs_batch *batch, cs_tensor hits, sums *all)
{
    const int32_t *target = batch->targets.data;
    int64_t rows = 0;
    cs_stream *stream = cs_pass_stream(engine->pass);
    if (hits.data)
        cs_op_fill(stream, hits, -1); /* which a last unit that knows of hits writes over */
    cs_tensor loss = cs_forward_descend(engine, &(cs_descent){ .mode = CS_PASS_EVALUATION,
                                                               .inputs = batch->inputs,
                                                               .targets = batch->targets,
                                                               .starts = batch->starts,
                                                               .hits = hits });
    cs_state_sum(stream, &all->loss, loss.data, cs_count(loss));
    if (hits.data)
        cs_state_sum(stream, &all->hits, hits.data, cs_count(hits));
    cs_pass_let_go(engine->pass, loss);
    cs_pass_end(engine->pass);
    for (int64_t i = 0; i < cs_count(batch->targets); i++)
        rows += target[i] >= 0;
    return rows;
}

/* To whoever watches; and to the launcher, which else may take a long evaluation for a standstill. */
static void tell(double *told, int64_t done, int64_t rounds)
{
    enum { SECONDS = 10 };
    double now = cs_clock_seconds();
    if (now - *told < SECONDS)
        return;
    *told = now;
    cs_beat_step(atomic_load(&cs_beat_own()->step));
    cs_log(CS_LOG_INFO, "evaluated %lld %%", (long long)(100 * done / rounds));
}

/* hits: (rows, 1) of scratch, or absent. */
static cs_scores evaluate(cs_engine *engine, cs_data *data, int64_t batches, cs_tensor hits)
{
    sums all, *there = cs_device_alloc(engine->device, sizeof all);
    int64_t rows = 0;
    int64_t micro = engine->settings->micro_batch;
    int64_t whole = (cs_windows_count(data->windows) + micro - 1) / micro;
    int64_t wanted = batches > 0 && batches < whole ? batches : whole;
    int64_t rounds = (wanted + engine->world.size - 1) / engine->world.size;
    double started = cs_clock_seconds(), told = started, flops = cs_device_flops(engine->device);
    cs_step_settle(engine); /* what is to be said of the step before comes first */
    for (int64_t round = 0; round < rounds; round++) {
        int64_t lane = round * engine->world.size + engine->world.rank;
        cs_batch batch = cs_loader_lane(data, lane < wanted ? lane : -1);
        rows += add_batch(engine, &batch, hits, there);
        tell(&told, round + 1, rounds);
    }
    cs_walk_settle(engine);
    cs_stream_fetch(cs_pass_stream(engine->pass), &all, there, sizeof all);
    cs_device_free(engine->device, there);
    all.rows = rows;
    cs_comm_all_reduce(engine->comm, &all, sizeof all / sizeof(int64_t), CS_I64, CS_SUM);
    engine->started += cs_clock_seconds() - started; /* not the step's time */
    engine->flops_before += cs_device_flops(engine->device) - flops;
    double correct = cs_exact_value(&all.hits);
    return (cs_scores){ all.rows ? cs_exact_value(&all.loss) / (double)all.rows : (double)NAN, all.rows,
                        correct < 0 ? -1 : (int64_t)correct };
}

cs_status cs_evaluate(cs_engine *engine, cs_data *data, int64_t batches, double *loss)
{
    cs_forward_expect(engine, CS_EXPECT_FORWARD, "cs_evaluate");
    cs_forward_settle(engine);
    *loss = evaluate(engine, data, batches, (cs_tensor){ 0 }).loss;
    return CS_OK;
}

cs_status cs_score(cs_engine *engine, cs_data *data, int64_t batches, cs_scores *scores)
{
    int64_t rows = engine->settings->micro_batch * engine->length;
    cs_forward_expect(engine, CS_EXPECT_FORWARD, "cs_score");
    cs_forward_settle(engine);
    cs_log_open(CS_LOG_INFO, engine->world.rank); /* how far it is, also of a model that is only read */
    float *hits = cs_device_alloc(engine->device, (size_t)rows * sizeof *hits);
    *scores = evaluate(engine, data, batches, cs_matrix(hits, CS_F32, rows, 1));
    cs_device_free(engine->device, hits);
    return CS_OK;
}

/* Leaves the output borrowed until the next verb. */
cs_status cs_evaluate_output(cs_engine *engine, const char *verb, const cs_descent *descent, cs_tensor *output)
{
    cs_unit *last = engine->model->units[engine->model->count - 1];
    int64_t longest = engine->model->inputs ? engine->model->inputs : engine->length;
    cs_forward_expect(engine, CS_EXPECT_FORWARD, verb);
    cs_forward_settle(engine);
    if (!last->kind->predict)
        return cs_fail(CS_UNSUPPORTED, "not supported: %s, because the last unit (%s) has no predict function", verb,
                       last->kind->name);
    if (descent->inputs.shape[0] > engine->settings->micro_batch || descent->inputs.shape[1] > longest)
        return cs_fail(CS_BAD_CONFIG, "%s: a batch of %lld x %lld is larger than the %lld x %lld of training", verb,
                       (long long)descent->inputs.shape[0], (long long)descent->inputs.shape[1],
                       (long long)engine->settings->micro_batch, (long long)longest);
    engine->prediction = cs_forward_descend(engine, descent);
    *output = engine->prediction;
    return cs_feed_return(engine, output);
}

cs_status cs_predict(cs_engine *engine, const cs_batch *batch, cs_tensor *output)
{
    return cs_evaluate_output(engine, "cs_predict",
                              &(cs_descent){ .mode = CS_PASS_EVALUATION,
                                             .inputs = batch->inputs,
                                             .starts = batch->starts,
                                             .predict = true },
                              output);
}
