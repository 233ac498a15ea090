/* entropy.c - the head of a language model and its loss: a linear layer and softmax cross-entropy with the pass's
 * targets.
 *
 * Logits are by far the largest tensor of a language model (rows x vocabulary). So they are computed in chunks of rows,
 * and all chunks use the same memory. In training the weight of each row's loss is known before forward
 * (cs_pass_dloss). So forward replaces the logits of a chunk by their gradient, and computes from this gradient the
 * gradients of the head's parameters and of the head's input. Backward returns the gradient of the input. No product is
 * computed twice.
 *
 * In preference training the weights depend on the losses of all rows. Then the losses of all chunks are computed
 * first, then the weights, and then the gradients, for which the logits are computed again unless one chunk has all
 * rows.
 *
 * With tensor parallelism the ranks divide the vocabulary: each rank has some columns of the logits. A row's loss follows
 * from a few numbers of each rank (cs_op_entropy_facts), so logits are not exchanged. A loss with terms (label smoothing,
 * z-loss) is computed in the same way, also by one rank. */
#include "layer/linear.h"
#include "base/misuse.h"
#include "unit/pass.h"

/* The tensors of the head's products. x, dx and loss have all rows; logits and raw have the rows of one chunk. */
typedef struct {
    const cs_linear *head;
    cs_pass *pass;
    cs_tensor x, dx; /* dx is absent if no gradient is computed, but only the loss */
    cs_tensor weight, bias, logits, loss;
    cs_tensor raw;              /* logits before the soft cap; absent if there is no soft cap */
    cs_tensor facts, all_facts; /* facts about the logits of this rank, and of all ranks */
    int64_t classes;
    float cap;
    cs_entropy_terms terms;
} job;

/* Returns true if the loss follows from facts about the logits. */
static bool has_facts(const job *all)
{
    return ce_pass_ranks(all->pass) > 1 || all->terms.smoothing > 0 || all->terms.z_loss > 0;
}

static int64_t facts_of_row(const job *all)
{
    return all->terms.smoothing > 0 ? CS_ENTROPY_FACTS_SMOOTHED : CS_ENTROPY_FACTS;
}

/* Returns rows [from, from + count) of a tensor that has `columns` elements in each row. If `whole` is absent, the
 * result is absent. */
static cs_tensor rows_of(cs_tensor whole, int64_t from, int64_t count, int64_t columns)
{
    char *data = whole.data;
    if (!data)
        return whole;
    return cs_matrix(data + (size_t)(from * columns) * cs_dtype_bytes(whole.dtype), whole.dtype, count, columns);
}

static cs_tensor logits_of(const job *all, int64_t from, int64_t count)
{
    cs_tensor x = rows_of(all->x, from, count, cs_columns(all->x));
    cs_tensor logits = rows_of(all->logits, 0, count, cs_columns(all->logits));
    cs_tensor raw = rows_of(all->raw, 0, count, cs_columns(all->logits));
    cs_op_matmul(cs_pass_stream(all->pass), raw.data ? raw : logits, x, all->weight, all->bias, all->head->layout);
    if (raw.data)
        cs_op_softcap(cs_pass_stream(all->pass), logits, raw, all->cap);
    return logits;
}

/* Computes the losses of rows [from, from + count) and, if they are wanted, their hits. If `weighted` is true, replaces
 * the logits of these rows by their gradient. */
static void lose(const job *all, cs_tensor logits, int64_t from, int64_t count, bool weighted)
{
    cs_stream *stream = cs_pass_stream(all->pass);
    cs_tensor targets = rows_of(cs_pass_targets(all->pass), from, count, 1), none = { 0 };
    cs_tensor hits = rows_of(cs_pass_hits(all->pass), from, count, 1), loss = rows_of(all->loss, from, count, 1);
    cs_tensor dloss = weighted ? rows_of(cs_pass_dloss(all->pass), from, count, 1) : none;
    int ranks = ce_pass_ranks(all->pass);
    if (has_facts(all)) {
        cs_tensor facts = cs_matrix_rows(all->facts, 0, count);
        cs_tensor all_facts = ranks > 1 ? cs_matrix_rows(all->all_facts, 0, ranks * count) : facts;
        cs_op_entropy_facts(stream, facts, logits, targets, all->head->first, all->classes);
        ce_pass_gather(all->pass, all_facts, facts);
        cs_op_entropy_finish(stream, loss, hits, logits, targets, all->head->first, all->classes, dloss, all_facts,
                             all->terms);
        return;
    }
    if (hits.data)
        cs_op_hits(stream, hits, logits, targets, all->classes);
    cs_op_cross_entropy(stream, loss, logits, targets, all->classes, dloss);
}

static void grow(const job *all, cs_tensor logits, int64_t from, int64_t count)
{
    int64_t inputs = cs_columns(all->x);
    cs_tensor dx = rows_of(all->dx, from, count, inputs);
    cs_tensor raw = rows_of(all->raw, 0, count, cs_columns(all->logits));
    if (raw.data)
        cs_op_softcap_grad(cs_pass_stream(all->pass), logits, logits, raw, all->cap);
    ce_linear_grow(all->head, all->pass, rows_of(all->x, from, count, inputs), logits);
    cs_op_matmul_grad_input(cs_pass_stream(all->pass), dx, logits, all->weight, all->head->layout);
}

static void compute_chunk(const job *all, int64_t from, int64_t count)
{
    cs_tensor logits = logits_of(all, from, count);
    lose(all, logits, from, count, all->dx.data);
    if (all->dx.data)
        grow(all, logits, from, count);
}

static int64_t chunk_at(const job *all, int64_t from, int64_t chunk)
{
    int64_t left = cs_rows(all->x) - from;
    return left < chunk ? left : chunk;
}

/* Computes the losses of all rows, then their weights, then the gradients. */
static void weigh_then_grow(const job *all, int64_t chunk)
{
    int64_t rows = cs_rows(all->x);
    cs_tensor logits = all->logits;
    for (int64_t from = 0; from < rows; from += chunk) {
        logits = logits_of(all, from, chunk_at(all, from, chunk));
        lose(all, logits, from, chunk_at(all, from, chunk), false);
    }
    ce_pass_weigh_now(all->pass, all->loss);
    for (int64_t from = 0; from < rows; from += chunk) {
        if (chunk < rows)
            logits = logits_of(all, from, chunk_at(all, from, chunk));
        lose(all, logits, from, chunk_at(all, from, chunk), true);
        grow(all, logits, from, chunk_at(all, from, chunk));
    }
}

void cs_entropy_forward(const cs_linear *head, cs_pass *pass, cs_tensor x, int64_t classes, cs_tensor loss)
{
    CE_GIVEN(head, pass);
    cs_entropy_forward_capped(head, pass, x, classes, 0, loss);
}

/* Opens the tensors of one chunk, which must have the same number of rows on all ranks. */
static int64_t open_chunk(job *all)
{
    cs_pass *pass = all->pass;
    int ranks = ce_pass_ranks(pass);
    cs_dtype dtype = cs_pass_products(pass);
    int64_t outputs = all->head->outputs, widest = ranks > 1 ? ce_divide_up(all->head->whole, ranks) : outputs;
    int64_t chunk = cs_pass_chunk(pass, dtype, cs_rows(all->x), widest);
    all->logits = cs_pass_make(pass, dtype, chunk, outputs);
    if (all->cap > 0)
        all->raw = cs_pass_make(pass, dtype, chunk, outputs);
    if (has_facts(all))
        all->facts = cs_pass_make(pass, CS_F32, chunk, facts_of_row(all));
    if (ranks > 1)
        all->all_facts = cs_pass_make(pass, CS_F32, ranks * chunk, facts_of_row(all));
    return chunk;
}

void cs_entropy_forward_capped(const cs_linear *head, cs_pass *pass, cs_tensor x, int64_t classes, float cap,
                               cs_tensor loss)
{
    CE_GIVEN(head, pass);
    job all = { .head = head, .pass = pass, .loss = loss, .classes = classes, .cap = cap };
    all.x = ce_pass_gather_rows(pass, ce_linear_factor(pass, x));
    all.weight = ce_linear_weight(head, pass);
    all.bias = ce_linear_bias(head, pass);
    if (cs_pass_training(pass)) {
        all.dx = cs_pass_like(pass, all.x);
        all.terms = ce_pass_regular(pass, CE_REGULAR_ENTROPY)->entropy;
        all.terms.classes = ce_pass_ranks(pass) > 1 ? head->whole : classes;
        ce_pass_partial(pass, all.dx, head->weight);
    }
    int64_t rows = cs_rows(all.x), chunk = open_chunk(&all);
    if (ce_pass_weighs_later(pass))
        weigh_then_grow(&all, chunk);
    else
        for (int64_t from = 0; from < rows; from += chunk)
            compute_chunk(&all, from, chunk_at(&all, from, chunk));
    if (all.dx.data)
        cs_pass_keep(pass, ce_pass_sum_rows(pass, all.dx));
}

cs_tensor cs_entropy_backward(cs_pass *pass)
{
    CE_GIVEN(pass);
    return cs_pass_take(pass);
}
