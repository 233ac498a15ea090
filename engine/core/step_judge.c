/* step_judge.c - computes on the device the verdict on a step: overflow, gradient norm, clip factor, next loss scale.
 *
 * Ranks sum integers in device memory, and the device computes the verdict from the sums (optim/verdict.h). The verdict
 * in device memory decides whether the update changes parameters, and gives the next backward its loss scale. The host
 * launches all these operations without waiting for the verdict. The host reads a copy of the verdict when the program
 * asks for the loss or the metrics. It reads the copy at the latest at the next gradient accumulation boundary, because
 * the learning rate and the number of the next update depend on the verdict. A host is therefore at most one step ahead
 * of a GPU. On a CPU device and host share one record. */
#include "core/engine.h"
#include "base/asked.h"
#include "base/must.h"
#include "base/range.h"
#include "base/trace.h"

size_t ce_step_judge_bytes(void)
{
    return (size_t)ce_round_up(sizeof(ce_step_judge_record), 64);
}

static cs_stream *compute(const cs_engine *engine)
{
    return ce_device_stream(engine->device, CE_COMPUTE);
}

void ce_step_judge_open(cs_engine *engine, void *memory)
{
    ce_step_judge *judge = &engine->judge;
    judge->device = memory;
    judge->host = memory;
    if (ce_device_has_own_memory(engine->device))
        judge->host = ce_device_alloc_pinned(engine->device, sizeof(ce_step_judge_record));
    ce_step_judge_place(engine);
}

void ce_step_judge_close(cs_engine *engine)
{
    if (engine->judge.host != engine->judge.device)
        ce_device_free(engine->device, engine->judge.host);
}

void ce_step_judge_place(cs_engine *engine)
{
    ce_step_judge *judge = &engine->judge;
    judge->host->verdict.scaler = engine->scaler;
    ce_stream_copy(compute(engine), &judge->device->verdict, &judge->host->verdict, sizeof(ce_verdict));
    ce_stream_sync(compute(engine));
}

/* ---- in a step: no function here waits for the device ---- */

void ce_step_judge_begin(cs_engine *engine)
{
    cs_op_fill(compute(engine), cs_vector(engine->judge.device, CS_F32, sizeof(ce_step_sums) / sizeof(float)), 0);
    engine->loss_rows_counted = 0;
    engine->targets_counted = 0;
}

void ce_step_judge_add(cs_engine *engine, cs_tensor losses)
{
    if (ce_mesh_leads(&engine->mesh))
        ce_state_sum(compute(engine), &engine->judge.device->sums.loss, losses.data, cs_count(losses));
}

void ce_step_judge_add_pairs(cs_engine *engine, cs_tensor facts)
{
    ce_step_judge_record *device = engine->judge.device;
    int64_t pairs = cs_columns(facts);
    _Static_assert(CE_PREFERENCE_LOSS == 0, "the loss, then the means");
    for (int i = 0; device && ce_mesh_leads(&engine->mesh) && i <= CE_PAIR_MEANS; i++)
        ce_state_sum(compute(engine), i == 0 ? &device->sums.loss : &device->sums.pairs[i - 1],
                     (const float *)facts.data + i * pairs, pairs);
}

/* Returns the number of rows (pairs in preference training) of one rank in one step: the rows of a micro-batch times
 * gradient_accumulation_steps. Backward divides the gradient of each row's loss by this number. The size of the
 * gradients, and with it a suitable loss scale, therefore does not depend on gradient_accumulation_steps. DeepSpeed's
 * division of the loss by gradient_accumulation_steps has the same effect. */
static double step_rows(const cs_engine *engine, cs_tensor losses)
{
    int64_t rows = ce_preference_is_on(engine) ? engine->settings->micro_batch : cs_rows(losses);
    return (double)rows * (double)engine->settings->accumulation;
}

/* During the dry run there is no record of sums and verdict. */
void ce_step_judge_seed(cs_engine *engine, cs_tensor dy)
{
    ce_step_judge_record *device = engine->judge.device;
    ce_state_seed(compute(engine), dy, device ? &device->verdict.scaler.scale : NULL, step_rows(engine, dy));
}

/* Returns the bytes of the sums over ranks. */
static size_t summed_bytes(const cs_engine *engine)
{
    return ce_preference_is_on(engine) ? sizeof(ce_step_sums) : offsetof(ce_step_sums, pairs);
}

int64_t ce_step_judge_sums(const cs_engine *engine)
{
    return (int64_t)(summed_bytes(engine) / sizeof(int64_t));
}

static void add_up_and_judge(void *argument)
{
    cs_engine *engine = argument;
    ce_step_judge_record *device = engine->judge.device;
    double traced = ce_trace_begin();
    cs_comm_all_reduce(engine->comm, &device->sums, ce_step_judge_sums(engine), CS_I64, CS_SUM);
    ce_trace_end(CE_TRACE_COMMUNICATION, "all_reduce loss and norm", "", traced);
    ce_state_judge(ce_device_stream(engine->device, CE_COMM), &device->verdict, &device->sums, &engine->judge.terms);
}

ce_step_terms ce_step_judge_terms(const cs_engine *engine)
{
    const ce_settings *settings = engine->settings;
    bool bf16 = settings->precision.values == CS_BF16 && settings->check_grad_overflow;
    return (ce_step_terms){
        .step_rows = step_rows(engine, engine->loss_rows),
        .prescale_factor = (double)engine->zero.prescale_factor,
        .sum_factor = settings->gradient_op == CE_GRADIENTS_SUM ? ce_mesh_lanes(&engine->mesh) : 1,
        .clipping = settings->gradient_clipping,
        .pairs = ce_preference_is_on(engine) ? CE_PAIR_MEANS : 0,
        .checked = settings->precision.scaled || bf16,
        .scaler = settings->scaler,
    };
}

/* *host may be overwritten here. The previous step first copied *host to the device and then copied its verdict to the
 * host. The host has read this verdict, so both copies are complete. */
void ce_step_judge_step(cs_engine *engine)
{
    ce_step_judge *judge = &engine->judge;
    ce_step_judge_record *device = judge->device, *host = judge->host;
    cs_stream *comm = ce_device_stream(engine->device, CE_COMM);
    CE_ASSERT(!judge->pending);
    _Static_assert(sizeof device->sums % sizeof(int64_t) == 0, "sums are integers");
    judge->terms = ce_step_judge_terms(engine);
    host->sums.rows = ce_mesh_leads(&engine->mesh) ? engine->loss_rows_counted : 0;
    host->sums.saved = 0;
    CE_OBSERVE(engine, sums_add, (engine, &host->sums));
    host->sums.targets = ce_mesh_leads(&engine->mesh) ? engine->targets_counted : 0;
    int asked = ce_asked_take();
    host->sums.asked = (asked & CE_ASKED_SAVE ? 1 : 0) + (asked & CE_ASKED_END ? CE_END_ASKED : 0);
    ce_stream_copy(compute(engine), &device->sums.rows, &host->sums.rows, 4 * sizeof(int64_t));
    for (int i = 0; i < engine->model->count; i++)
        ce_gradient_squares(engine->shards[i], &device->sums.squares, 1 / engine->scaler.scale);
    ce_stream_follow(comm, compute(engine));
    ce_stream_call(comm, add_up_and_judge, engine);
    CE_OBSERVE(engine, reduce, (engine));
    ce_stream_follow(compute(engine), comm);
    ce_stream_copy(compute(engine), &host->verdict, &device->verdict, sizeof(ce_verdict));
    judge->copied = ce_stream_record(compute(engine));
    judge->pending = true;
}

const ce_gate *ce_step_judge_gate(const cs_engine *engine)
{
    return &engine->judge.device->verdict.gate;
}

/* ---- reading the verdict ---- */

const ce_verdict *ce_step_judge_read(cs_engine *engine)
{
    ce_step_judge *judge = &engine->judge;
    if (!judge->pending)
        return NULL;
    judge->pending = false;
    ce_event_wait(judge->copied);
    return &judge->host->verdict;
}
