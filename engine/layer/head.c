/* head.c - the head of a language model, with a table of its own or with the table of the embedding. With tensor
 * parallelism the ranks divide the vocabulary. */
#include "layer/linear.h"
#include "base/misuse.h"
#include "unit/pass.h"
#include "unit/unit.h"

static void declare(cs_linear *head, cs_unit *unit, const char *name, int64_t inputs, int64_t outputs, cs_init init,
                    cs_with_bias bias)
{
    ce_cut_part rows = ce_cut_share(outputs, unit->model->tp);
    cs_linear_declare(head, unit, name, inputs, outputs, init, CS_OUT_IN, bias);
    ce_linear_cut_outputs(head, unit, &rows, 1);
}

void cs_head_declare(cs_linear *head, cs_unit *unit, const char *name, int64_t inputs, int64_t outputs, cs_init init)
{
    CE_GIVEN(head, unit);
    declare(head, unit, name, inputs, outputs, init, CS_NO_BIAS);
    head->weight->padded = true;
}

void cs_head_declare_biased(cs_linear *head, cs_unit *unit, const char *name, int64_t inputs, int64_t outputs,
                            cs_init init)
{
    CE_GIVEN(head, unit);
    declare(head, unit, name, inputs, outputs, init, CS_BIAS);
}

void cs_head_share(cs_linear *head, cs_unit *unit, cs_unit *owner, const char *name)
{
    CE_GIVEN(head, unit);
    cs_param *table = cs_unit_share(unit, owner, name);
    const ce_cut *cut = &((const ce_unit_shared *)table)->entry->cut;
    *head = (cs_linear){ .weight = table,
                         .layout = CS_OUT_IN,
                         .outputs = cs_rows(table->value),
                         .cut = unit->model->tp.size > 1 ? CS_CUT_OUTPUTS : CS_CUT_NOTHING,
                         .first = cut->part[0].from,
                         .whole = cut->whole[0] };
    head->weight->padded = true;
}

/* Returns the columns of all ranks. Ranks may have different numbers of columns; the tensors that they exchange have as
 * many columns as the rank with the most. */
static cs_tensor gather_columns(const cs_linear *head, cs_pass *pass, cs_tensor own)
{
    cs_stream *stream = cs_pass_stream(pass);
    int64_t rows = cs_rows(own), ranks = ce_pass_ranks(pass), widest = ce_divide_up(head->whole, ranks);
    cs_tensor sent = cs_pass_make(pass, own.dtype, rows, widest);
    cs_tensor received = cs_pass_make(pass, own.dtype, ranks * rows, widest);
    cs_tensor all = cs_pass_make(pass, own.dtype, rows, head->whole);
    cs_op_fill(stream, sent, 0);
    cs_op_add_columns(stream, sent, 0, own, 1);
    ce_pass_gather(pass, received, sent);
    cs_op_fill(stream, all, 0);
    for (int64_t rank = 0; rank < ranks; rank++) {
        ce_range share = ce_range_part(head->whole, rank, ranks);
        cs_tensor part = cs_pass_make(pass, own.dtype, rows, ce_range_length(share));
        cs_op_take_columns(stream, part, cs_matrix_rows(received, rank * rows, rows), 0, 1);
        cs_op_add_columns(stream, all, share.from, part, 1);
    }
    return all;
}

/* The rows that pad the table on the device have no column in the result. */
cs_tensor cs_head_predict(const cs_linear *head, cs_pass *pass, cs_tensor x, float cap)
{
    CE_GIVEN(head, pass);
    cs_tensor logits = cs_linear_forward(head, pass, x);
    if (cap > 0)
        cs_op_softcap(cs_pass_stream(pass), logits, logits, cap);
    return head->cut == CS_CUT_NOTHING ? logits : gather_columns(head, pass, logits);
}
