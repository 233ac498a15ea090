/* pass.c - a pass: one micro-batch in forward and backward, its first-fit allocator, and the stack of tensors that
 * forward saves for backward. */
#include "unit/pass_inside.h"
#include "base/beat.h"
#include "base/misuse.h"
#include "base/must.h"
#include "base/range.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

static const int64_t MAX_ELEMENTS = (int64_t)1 << 48; /* no memory has more */

/* A pass that only measures how much memory it needs has no block of memory. Its tensors get addresses from this number
 * on, where no process has memory. The dry device does not access them. */
static const uintptr_t measuring_base = (uintptr_t)1 << 46;

cs_status ce_pass_open(cs_pass **pass, const ce_pass_shape *shape)
{
    *pass = ce_must_alloc(sizeof **pass);
    (*pass)->shape = *shape;
    (*pass)->base = shape->block ? (uintptr_t)shape->block : measuring_base;
    return CS_OK;
}

void ce_pass_close(cs_pass *pass)
{
    if (!pass)
        return;
    ce_pass_check(pass, false);
    free(pass->live);
    free(pass->kept);
    free(pass);
}

size_t ce_pass_block_bytes(const cs_pass *pass)
{
    return pass->shape.block_bytes;
}

static void take_terms(cs_pass *pass, cs_tensor x);

void ce_pass_sum(cs_pass *pass, cs_tensor x)
{
    const ce_exchange *exchange = &pass->shape.exchange;
    if (exchange->size <= 1)
        return;
    take_terms(pass, x);
    exchange->run(exchange->argument, CE_BEAT_ALL_REDUCE, x.data, x.data, cs_count(x), x.dtype);
}

void ce_pass_gather(cs_pass *pass, cs_tensor all, cs_tensor x)
{
    const ce_exchange *exchange = &pass->shape.exchange;
    if (exchange->size > 1)
        exchange->run(exchange->argument, CE_BEAT_ALL_GATHER, all.data, x.data, cs_count(x), x.dtype);
}

int ce_pass_ranks(const cs_pass *pass)
{
    return pass->shape.exchange.size > 1 ? pass->shape.exchange.size : 1;
}

int ce_pass_rank(const cs_pass *pass)
{
    return pass->shape.exchange.rank;
}

bool ce_pass_cuts_rows(const cs_pass *pass)
{
    return pass->shape.cuts_rows && !pass->info.whole_rows;
}

int64_t ce_pass_rows(const cs_pass *pass)
{
    int64_t rows = pass->info.batch * pass->info.length;
    return ce_pass_cuts_rows(pass) ? rows / ce_pass_ranks(pass) : rows;
}

cs_tensor ce_pass_own_rows(const cs_pass *pass, cs_tensor x)
{
    int64_t rows = ce_pass_rows(pass);
    return ce_pass_cuts_rows(pass) ? cs_matrix_rows(x, ce_pass_rank(pass) * rows, rows) : x;
}

cs_tensor ce_pass_gather_rows(cs_pass *pass, cs_tensor x)
{
    if (!ce_pass_cuts_rows(pass) || !x.data)
        return x;
    if (cs_rows(x) != ce_pass_rows(pass))
        ce_misuse(NULL, "a tensor whose rows are to be gathered from all ranks has %lld rows, and %lld are this rank's",
                  (long long)cs_rows(x), (long long)ce_pass_rows(pass));
    cs_tensor all = cs_pass_make(pass, x.dtype, cs_rows(x) * ce_pass_ranks(pass), cs_columns(x));
    ce_pass_gather(pass, all, x);
    return all;
}

void ce_pass_sum_rows_into(cs_pass *pass, cs_tensor own, cs_tensor y)
{
    const ce_exchange *exchange = &pass->shape.exchange;
    if (!ce_pass_cuts_rows(pass)) {
        ce_pass_sum(pass, y);
        return;
    }
    take_terms(pass, y);
    exchange->run(exchange->argument, CE_BEAT_REDUCE_SCATTER, own.data, y.data, cs_count(own), y.dtype);
}

cs_tensor ce_pass_sum_rows(cs_pass *pass, cs_tensor y)
{
    cs_tensor own = y;
    if (ce_pass_cuts_rows(pass))
        own = cs_pass_make(pass, y.dtype, ce_pass_rows(pass), cs_columns(y));
    ce_pass_sum_rows_into(pass, own, y);
    return own;
}

static void overlap(cs_pass *pass, bool begins)
{
    const ce_exchange *exchange = &pass->shape.exchange;
    if (exchange->overlap)
        exchange->overlap(exchange->argument, begins);
}

cs_tensor ce_pass_begin_gather_rows(cs_pass *pass, cs_tensor x)
{
    overlap(pass, true);
    return ce_pass_gather_rows(pass, x);
}

cs_tensor ce_pass_begin_sum_rows(cs_pass *pass, cs_tensor y)
{
    overlap(pass, true);
    return ce_pass_sum_rows(pass, y);
}

void ce_pass_finish(cs_pass *pass)
{
    overlap(pass, false);
}

size_t ce_pass_peak(const cs_pass *pass)
{
    return pass->peak;
}

void ce_pass_begin(cs_pass *pass, const ce_pass_batch_info *info)
{
    CE_ASSERT(pass->live_count == 0);
    CE_ASSERT(pass->kept_count == 0);
    pass->info = *info;
    pass->dloss = (cs_tensor){ 0 };
    pass->weigher = NULL;
    for (int64_t b = 0; info->sequences && b < info->batch; b++)
        ce_cache_rewind(info->sequences[b].cache);
}

void ce_pass_weigh(cs_pass *pass, cs_tensor dloss)
{
    pass->dloss = dloss;
}

void ce_pass_weigh_later(cs_pass *pass, ce_pass_weigher *weigher, void *argument)
{
    pass->weigher = weigher;
    pass->weigher_argument = argument;
}

bool ce_pass_weighs_later(const cs_pass *pass)
{
    return pass->weigher;
}

void ce_pass_weigh_now(cs_pass *pass, cs_tensor losses)
{
    ce_pass_weigher *weigher = pass->weigher;
    pass->weigher = NULL;
    weigher(pass->weigher_argument, losses);
}

void ce_pass_end(cs_pass *pass)
{
    CE_ASSERT(!pass->in_unit);
    CE_ASSERT(pass->kept_count == 0);
    CE_ASSERT(pass->live_count == 0);
}

static void check_in_unit(const cs_pass *pass, const char *function)
{
    if (!pass->in_unit)
        ce_misuse(function, "it is called while no unit's forward or backward runs");
}

/* Places a tensor of cs_pass_make or cs_pass_like, which `function` names. */
static cs_tensor place(cs_pass *pass, cs_tensor tensor, const char *function)
{
    check_in_unit(pass, function);
    size_t bytes = (size_t)ce_round_up(cs_count(tensor) * (int64_t)cs_dtype_bytes(tensor.dtype), ALIGN);
    CE_MUST_HOLD(pass->live, pass->live_capacity, pass->live_count + 1); /* the first step makes the full length */
    size_t offset = 0;
    int at = 0;
    while (at < pass->live_count && pass->live[at].offset < offset + bytes) {
        offset = pass->live[at].offset + pass->live[at].bytes;
        at++;
    }
    if (offset + bytes > pass->peak)
        pass->peak = offset + bytes;
    if (pass->shape.block && pass->peak > pass->shape.block_bytes)
        ce_misuse(function,
                  "this tensor needs byte %zu of the pass's memory, and cs_initialize measured %zu bytes: forward and "
                  "backward must make the same tensors while cs_pass_measuring returns true",
                  pass->peak, pass->shape.block_bytes);
    memmove(pass->live + at + 1, pass->live + at, (size_t)(pass->live_count - at) * sizeof *pass->live);
    pass->live[at] = (ce_live_tensor){ offset, bytes, 1, 1, NULL, 0 };
    pass->live_count++;
    pass->made += bytes;
    tensor.data = (void *)(pass->base + offset);
    ce_pass_check_made(pass, tensor);
    return tensor;
}

cs_tensor cs_pass_make(cs_pass *pass, cs_dtype dtype, int64_t rows, int64_t columns)
{
    CE_GIVEN(pass);
    if (rows < 0 || columns < 0 || (columns > 0 && rows > MAX_ELEMENTS / columns))
        ce_misuse(__func__, "a tensor cannot have the shape (%lld, %lld)", (long long)rows, (long long)columns);
    return place(pass, cs_matrix(NULL, dtype, rows, columns), __func__);
}

cs_tensor cs_pass_like(cs_pass *pass, cs_tensor shape)
{
    CE_GIVEN(pass);
    return place(pass, shape, __func__);
}

__attribute__((noreturn)) static void refuse_part(cs_tensor tensor)
{
    ce_misuse(NULL,
              "a tensor (%lld, %lld) that is kept is a part of a tensor of cs_pass_make, or belongs to a unit whose "
              "function has returned: only a whole tensor of this unit can be kept",
              (long long)cs_rows(tensor), (long long)cs_columns(tensor));
}

/* Returns the live tensor that contains the beginning of this tensor, or NULL if the tensor is not in the pass's block of
 * memory, for example if it belongs to the batch. */
static ce_live_tensor *containing(cs_pass *pass, cs_tensor tensor)
{
    uintptr_t address = (uintptr_t)tensor.data;
    if (address < pass->base || address >= pass->base + pass->peak)
        return NULL;
    int low = 0, high = pass->live_count - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (pass->base + pass->live[middle].offset <= address)
            low = middle;
        else
            high = middle - 1;
    }
    if (pass->live_count == 0)
        refuse_part(tensor);
    return &pass->live[low];
}

static ce_live_tensor *find(cs_pass *pass, cs_tensor tensor)
{
    ce_live_tensor *live = containing(pass, tensor);
    if (live && pass->base + live->offset != (uintptr_t)tensor.data)
        refuse_part(tensor);
    return live;
}

static void drop(cs_pass *pass, ce_live_tensor *tensor, int references)
{
    tensor->references -= references;
    CE_ASSERT(tensor->references >= 0);
    if (tensor->references > 0)
        return;
    int at = (int)(tensor - pass->live);
    memmove(tensor, tensor + 1, (size_t)(pass->live_count - at - 1) * sizeof *tensor);
    pass->live_count--;
}

void ce_pass_hold(cs_pass *pass, cs_tensor tensor)
{
    ce_live_tensor *live = find(pass, tensor);
    if (live)
        live->references++;
    pass->check.output = tensor;
}

bool ce_pass_outlives(cs_pass *pass, cs_tensor tensor)
{
    const ce_live_tensor *live = find(pass, tensor);
    return live && live->references > live->young;
}

void ce_pass_let_go(cs_pass *pass, cs_tensor tensor)
{
    ce_live_tensor *live = find(pass, tensor);
    if (live)
        drop(pass, live, 1);
}

void cs_pass_keep(cs_pass *pass, cs_tensor tensor)
{
    CE_GIVEN(pass);
    check_in_unit(pass, __func__);
    if (pass->info.mode == CE_PASS_EVALUATION)
        return;
    CE_MUST_HOLD(pass->kept, pass->kept_capacity, pass->kept_count + 1);
    pass->kept[pass->kept_count++] = tensor;
    ce_pass_hold(pass, tensor);
}

cs_tensor cs_pass_take(cs_pass *pass)
{
    CE_GIVEN(pass);
    check_in_unit(pass, __func__);
    if (pass->kept_count <= (pass->unit ? pass->unit->kept_before : 0))
        ce_misuse(__func__,
                  "no tensor is left that this unit's forward has kept: backward takes as many as forward keeps");
    cs_tensor tensor = pass->kept[--pass->kept_count];
    ce_live_tensor *live = find(pass, tensor);
    if (live)
        live->young++; /* The reference that cs_pass_keep added ends when this unit's backward returns. */
    return tensor;
}

/* ---- tensor parallelism: tensors that have only this rank's terms ---- */

static size_t bytes_of(cs_tensor x)
{
    return (size_t)cs_count(x) * cs_dtype_bytes(x.dtype);
}

void ce_pass_partial(cs_pass *pass, cs_tensor x, const cs_param *with)
{
    if (pass->shape.exchange.size <= 1)
        return;
    ce_live_tensor *live = find(pass, x);
    CE_ASSERT(live);
    live->terms = with;
    live->owed = bytes_of(x);
}

/* Notes that the terms of x, a tensor or some of its rows, are added up now. */
static void take_terms(cs_pass *pass, cs_tensor x)
{
    ce_live_tensor *live = containing(pass, x);
    if (!live || live->owed < bytes_of(x))
        ce_misuse(NULL,
                  "a tensor (%lld, %lld) is added up over %d ranks, and no layer has said that it has only the "
                  "terms of one rank (ce_pass_partial)",
                  (long long)cs_rows(x), (long long)cs_columns(x), ce_pass_ranks(pass));
    live->owed -= bytes_of(x);
}

/* Ends the process if a tensor still has the terms of one rank only when a unit's forward or backward returns. */
static void check_terms(const cs_pass *pass, const ce_live_tensor *live)
{
    if (live->owed > 0)
        ce_misuse(NULL,
                  "a result of %s has only the terms of one of %d ranks: nothing has added up %zu bytes of them before "
                  "the forward or backward of its unit returned (ce_pass_sum_rows)",
                  live->terms->name, ce_pass_ranks(pass), live->owed);
}

static const char *const way_names[] = { "forward", "backward", "forward again (recomputation)" };

void ce_pass_enter(cs_pass *pass, cs_unit *unit, ce_pass_way way)
{
    CE_ASSERT(!pass->in_unit);
    pass->in_unit = true;
    pass->unit = unit;
    pass->way = way;
    pass->made = 0;
    if (unit && way == CE_PASS_FORWARD)
        unit->kept_before = pass->kept_count;
    ce_pass_turn(pass, way);
    if (unit && !(unit->kind->forward && unit->kind->backward))
        ce_misuse(NULL, "forward and backward of its kind must not be NULL");
}

void ce_pass_turn(const cs_pass *pass, ce_pass_way way)
{
    ce_misuse_enter(pass->unit ? ce_unit_label(pass->unit) : NULL, way_names[way]);
}

/* Ends the process if backward has not taken all tensors that the unit's forward has kept. */
static void check_taken(const cs_pass *pass)
{
    int left = pass->unit && pass->way == CE_PASS_BACKWARD ? pass->kept_count - pass->unit->kept_before : 0;
    if (left > 0)
        ce_misuse(NULL,
                  "it has not taken %d of the tensors that forward has kept: each cs_pass_keep needs one cs_pass_take",
                  left);
}

void ce_pass_leave(cs_pass *pass)
{
    CE_ASSERT(pass->in_unit);
    check_taken(pass);
    ce_pass_check_leave(pass);
    for (int i = pass->live_count - 1; i >= 0; i--) {
        int young = pass->live[i].young;
        check_terms(pass, &pass->live[i]);
        pass->live[i].young = 0;
        drop(pass, &pass->live[i], young);
    }
    pass->in_unit = false;
    pass->unit = NULL;
    ce_misuse_enter(NULL, NULL);
}

int ce_pass_mark(const cs_pass *pass)
{
    return pass->kept_count;
}

void ce_pass_rewind(cs_pass *pass, int mark)
{
    while (pass->kept_count > mark)
        ce_pass_let_go(pass, pass->kept[--pass->kept_count]);
}
