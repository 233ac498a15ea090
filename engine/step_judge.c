/* step_judge.c - judgement of a step on the device: overflow, gradient norm, clip factor, next loss scale.
 *
 * Ranks sum integers in device memory, the device computes the verdict from the sums (optim/verdict.h), and the verdict
 * there gates the update and gives the next backward its loss scale. The host launches all that without waiting for the
 * verdict. It reads a copy of the verdict when someone asks for its numbers, at the latest at the next boundary, whose
 * learning rate and step number depend on it. A host is therefore at most one step ahead of a GPU. On a CPU there is
 * only one copy. */
#include "engine.h"
#include "base/must.h"
#include "base/range.h"

size_t cs_step_judge_bytes(void)
{
    return (size_t)cs_round_up(sizeof(cs_step_judge_record), 64);
}

static cs_stream *compute(const cs_engine *engine)
{
    return cs_device_stream(engine->device, CS_COMPUTE);
}

void cs_step_judge_open(cs_engine *engine, void *memory)
{
    cs_step_judge *judge = &engine->judge;
    judge->device = memory;
    judge->host = memory;
    if (cs_device_has_own_memory(engine->device))
        judge->host = cs_device_alloc_pinned(engine->device, sizeof(cs_step_judge_record));
    cs_step_judge_place(engine);
}

void cs_step_judge_close(cs_engine *engine)
{
    if (engine->judge.host != engine->judge.device)
        cs_device_free(engine->device, engine->judge.host);
}

void cs_step_judge_place(cs_engine *engine)
{
    cs_step_judge *judge = &engine->judge;
    judge->host->verdict.scaler = engine->scaler;
    cs_stream_copy(compute(engine), &judge->device->verdict, &judge->host->verdict, sizeof(cs_verdict));
    cs_stream_sync(compute(engine));
}

/* ---- in a step: nothing here waits for the device ---- */

void cs_step_judge_begin(cs_engine *engine)
{
    cs_op_fill(compute(engine), cs_vector(engine->judge.device, CS_F32, sizeof(cs_step_sums) / sizeof(float)), 0);
    engine->loss_rows_counted = 0;
}

void cs_step_judge_add(cs_engine *engine, cs_tensor losses)
{
    cs_state_sum(compute(engine), &engine->judge.device->sums.loss, losses.data, cs_count(losses));
}

/* Rows of one rank in one step: rows of a micro-batch times gradient_accumulation_steps. DeepSpeed too divides the loss
 * by gradient_accumulation_steps before each backward, so a suitable loss scale does not depend on that number. */
static double step_rows(const cs_engine *engine, cs_tensor losses)
{
    return (double)cs_rows(losses) * (double)engine->settings->accumulation;
}

/* The record does not exist during the dry run. */
void cs_step_judge_seed(cs_engine *engine, cs_tensor dy)
{
    cs_step_judge_record *device = engine->judge.device;
    cs_state_seed(compute(engine), dy, device ? &device->verdict.scaler.scale : NULL, step_rows(engine, dy));
}

static void add_up_and_judge(void *argument)
{
    cs_engine *engine = argument;
    cs_step_judge_record *device = engine->judge.device;
    cs_comm_all_reduce(engine->comm, &device->sums, sizeof device->sums / sizeof(int64_t), CS_I64, CS_SUM);
    cs_state_judge(cs_device_stream(engine->device, CS_COMM), &device->verdict, &device->sums, &engine->judge.terms);
}

static cs_step_terms terms_of(const cs_engine *engine)
{
    const cs_settings *settings = engine->settings;
    bool bf16 = settings->precision.values == CS_BF16 && settings->check_grad_overflow;
    return (cs_step_terms){
        .step_rows = step_rows(engine, engine->loss_rows),
        .prescale_factor = (double)engine->zero.prescale_factor,
        .sum_factor = settings->gradient_sum ? engine->world.size : 1,
        .clipping = settings->gradient_clipping,
        .checked = settings->precision.scaled || bf16,
        .scaler = settings->scaler,
    };
}

/* The last step's copy from `host` to the device is complete, because the host has read that step's verdict, which was
 * copied later. So `host` may be overwritten. */
void cs_step_judge_step(cs_engine *engine)
{
    cs_step_judge *judge = &engine->judge;
    cs_step_judge_record *device = judge->device, *host = judge->host;
    cs_stream *comm = cs_device_stream(engine->device, CS_COMM);
    CS_ASSERT(!judge->pending);
    _Static_assert(sizeof device->sums % sizeof(int64_t) == 0, "sums are integers");
    judge->terms = terms_of(engine);
    host->sums.rows = engine->loss_rows_counted;
    host->sums.saved = cs_async_save_ready(engine);
    cs_stream_copy(compute(engine), &device->sums.rows, &host->sums.rows, 2 * sizeof(int64_t));
    for (int i = 0; i < engine->model->count; i++)
        cs_gradient_squares(engine->shards[i], &device->sums.squares, 1 / engine->scaler.scale);
    cs_stream_follow(comm, compute(engine));
    cs_stream_call(comm, add_up_and_judge, engine);
    cs_stream_follow(compute(engine), comm);
    cs_stream_copy(compute(engine), &host->verdict, &device->verdict, sizeof(cs_verdict));
    judge->copied = cs_stream_record(compute(engine));
    judge->pending = true;
}

const cs_gate *cs_step_judge_gate(const cs_engine *engine)
{
    return &engine->judge.device->verdict.gate;
}

/* ---- reading ---- */

const cs_verdict *cs_step_judge_read(cs_engine *engine)
{
    cs_step_judge *judge = &engine->judge;
    if (!judge->pending)
        return NULL;
    judge->pending = false;
    cs_event_wait(judge->copied);
    return &judge->host->verdict;
}
