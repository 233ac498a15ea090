/* step_judge.c - the end of a step, judged where the gradients are, and read late.
 *
 * Ranks add up integers in the device's memory, the device judges them (optim/verdict.h), and what it says opens the
 * update's gate and seeds the next backward: the host launches all that without knowing it. It reads the verdict from a
 * copy when somebody wants its numbers, and at the latest at the next boundary, whose rate and number follow from it.
 * So a host is at most a step ahead of a far device. On a device that is not far the verdict is where the host reads.
 */
#include "engine.h"
#include "base/must.h"
#include "base/range.h"

size_t cs_boundary_bytes(void)
{
    return (size_t)cs_round_up(sizeof(cs_board), 64);
}

static cs_stream *compute(const cs_engine *engine)
{
    return cs_device_stream(engine->device, CS_COMPUTE);
}

void cs_boundary_open(cs_engine *engine, void *memory)
{
    cs_boundary *boundary = &engine->boundary;
    boundary->there = memory;
    boundary->here = memory;
    if (cs_device_has_own_memory(engine->device))
        boundary->here = cs_device_alloc_pinned(engine->device, sizeof(cs_board));
    cs_boundary_place(engine);
}

void cs_boundary_close(cs_engine *engine)
{
    if (engine->boundary.here != engine->boundary.there)
        cs_device_free(engine->device, engine->boundary.here);
}

void cs_boundary_place(cs_engine *engine)
{
    cs_boundary *boundary = &engine->boundary;
    boundary->here->verdict.scaler = engine->scaler;
    cs_stream_copy(compute(engine), &boundary->there->verdict, &boundary->here->verdict, sizeof(cs_verdict));
    cs_stream_sync(compute(engine));
}

/* ---- in a step: nothing here waits for a far device ---- */

void cs_boundary_begin(cs_engine *engine)
{
    cs_op_fill(compute(engine), cs_vector(engine->boundary.there, CS_F32, sizeof(cs_step_sums) / sizeof(float)), 0);
    engine->loss_rows_counted = 0;
}

void cs_boundary_add(cs_engine *engine, cs_tensor losses)
{
    cs_state_sum(compute(engine), &engine->boundary.there->words.loss, losses.data, cs_count(losses));
}

/* Rows of a rank in a step: those of a micro-batch times gradient_accumulation_steps, by which DeepSpeed divides the loss
 * before each backward, so that a loss scale that fits one micro-batch fits a step of any number of them. */
static double step_rows(const cs_engine *engine, cs_tensor losses)
{
    return (double)cs_rows(losses) * (double)engine->settings->accumulation;
}

/* While the engine measures there is no board. */
void cs_boundary_seed(cs_engine *engine, cs_tensor dy)
{
    cs_board *there = engine->boundary.there;
    cs_state_seed(compute(engine), dy, there ? &there->verdict.scaler.scale : NULL, step_rows(engine, dy));
}

static void add_up_and_judge(void *argument)
{
    cs_engine *engine = argument;
    cs_board *there = engine->boundary.there;
    cs_comm_all_reduce(engine->comm, &there->words, sizeof there->words / sizeof(int64_t), CS_I64, CS_SUM);
    cs_state_judge(cs_device_stream(engine->device, CS_COMM), &there->verdict, &there->words, &engine->boundary.terms);
}

static cs_step_terms terms_of(const cs_engine *engine)
{
    const cs_settings *settings = engine->settings;
    bool bf16 = settings->precision.values == CS_BF16 && settings->check_grad_overflow;
    return (cs_step_terms){
        .step_rows = step_rows(engine, engine->loss_rows),
        .before = (double)engine->zero.before,
        .times = settings->gradient_sum ? engine->world.size : 1,
        .clipping = settings->gradient_clipping,
        .checked = settings->precision.scaled || bf16,
        .scaler = settings->scaler,
    };
}

/* The words of the step before were copied from `here` before its verdict, which was read. */
void cs_boundary_judge(cs_engine *engine)
{
    cs_boundary *boundary = &engine->boundary;
    cs_board *there = boundary->there, *here = boundary->here;
    cs_stream *comm = cs_device_stream(engine->device, CS_COMM);
    CS_ASSERT(!boundary->pending);
    _Static_assert(sizeof there->words % sizeof(int64_t) == 0, "words are integers");
    boundary->terms = terms_of(engine);
    here->words.rows = engine->loss_rows_counted;
    here->words.saved = cs_saving_ready(engine);
    cs_stream_copy(compute(engine), &there->words.rows, &here->words.rows, 2 * sizeof(int64_t));
    for (int i = 0; i < engine->model->count; i++)
        cs_gradient_squares(engine->shards[i], &there->words.squares, 1 / engine->scaler.scale);
    cs_stream_wait(comm, cs_stream_record(compute(engine)));
    cs_stream_call(comm, add_up_and_judge, engine);
    cs_stream_wait(compute(engine), cs_stream_record(comm));
    cs_stream_copy(compute(engine), &here->verdict, &there->verdict, sizeof(cs_verdict));
    boundary->copied = cs_stream_record(compute(engine));
    boundary->pending = true;
}

const cs_gate *cs_boundary_gate(const cs_engine *engine)
{
    return &engine->boundary.there->verdict.gate;
}

/* ---- when the verdict is read ---- */

const cs_verdict *cs_boundary_read(cs_engine *engine)
{
    cs_boundary *boundary = &engine->boundary;
    if (!boundary->pending)
        return NULL;
    boundary->pending = false;
    cs_event_wait(boundary->copied);
    return &boundary->here->verdict;
}
