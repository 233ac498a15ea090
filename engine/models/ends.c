/* ends.c - the first unit of a language model (the embedding) and the last one (the head with the loss). */
#include "models/ends.h"

/* ---- the embedding ---- */

static void embed_declare(cs_unit *unit, const void *sizes)
{
    const ce_ends_first *given = sizes;
    cs_embed_declare(cs_unit_self(unit, sizeof(cs_embed)), unit, given->tokens, given->positions, &given->wide);
}

static void embed_forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    cs_embed_forward(cs_unit_self(unit, sizeof(cs_embed)), pass, x, y);
}

static void embed_backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    (void)dx; /* Token ids have no gradient. */
    cs_embed_backward(cs_unit_self(unit, sizeof(cs_embed)), pass, dy);
}

void ce_ends_pad(cs_embed_sizes *sizes, const json_t *token)
{
    int64_t given = json_integer_value(token);
    sizes->has_padding = json_is_integer(token);
    sizes->padding = given < 0 ? sizes->vocabulary + given : given;
}

void ce_ends_check_pad(const json_t *token, const ce_family_input *input)
{
    if (token && !json_is_integer(token) && !json_is_null(token))
        ce_json_fault(input->doc, input->path, "pad_token_id must be the number of a token, or null");
}

/* ---- the head ---- */

typedef struct {
    ce_any_norm norm;
    cs_linear head;
    float scale, cap;
} head;

static void head_declare(cs_unit *unit, const void *sizes)
{
    const ce_ends_last *s = sizes;
    head *h = cs_unit_self(unit, sizeof *h);
    h->scale = s->scale;
    h->cap = s->cap;
    ce_any_norm_declare(&h->norm, unit, s->kind, s->norm, s->width, s->epsilon);
    if (s->owner)
        cs_head_share(&h->head, unit, s->owner, s->table);
    else
        (s->bias ? cs_head_declare_biased : cs_head_declare)(&h->head, unit, s->head ? s->head : "lm_head", s->width,
                                                             s->vocabulary, s->init);
}

/* Returns the head's table including the zero rows with which it is padded on the device. */
static cs_linear with_padding(const cs_linear *table)
{
    cs_linear padded = *table;
    padded.outputs = table->weight->held;
    return padded;
}

/* Returns the head's input after the norm. The factor of the logits is applied to this input, because it has fewer
 * elements than the logits. */
static cs_tensor normed(const head *h, cs_pass *pass, cs_tensor x)
{
    cs_tensor y = ce_any_norm_forward(&h->norm, pass, x);
    if (h->scale > 0)
        cs_op_scale(cs_pass_stream(pass), y, y, h->scale);
    return y;
}

static void head_predict(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor *output)
{
    const head *h = cs_unit_self(unit, sizeof *h);
    *output = cs_head_predict(&h->head, pass, normed(h, pass, x), h->cap);
}

static void head_forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    const head *h = cs_unit_self(unit, sizeof *h);
    cs_linear table = with_padding(&h->head);
    cs_entropy_forward_capped(&table, pass, normed(h, pass, x), h->head.outputs, h->cap, y);
    cs_experts_balance(unit, pass, y);
}

static void head_backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    (void)dy; /* Forward has computed the gradients already, so dy is not used. */
    const head *h = cs_unit_self(unit, sizeof *h);
    cs_tensor t = cs_entropy_backward(pass);
    if (h->scale > 0)
        cs_op_scale(cs_pass_stream(pass), t, t, h->scale);
    t = ce_any_norm_backward(&h->norm, pass, t);
    cs_op_cast(cs_pass_stream(pass), dx, t);
}

const cs_kind ce_ends_embedding = { "embedding", embed_declare, embed_forward, embed_backward, NULL };
const cs_kind ce_ends_head = { "head", head_declare, head_forward, head_backward, head_predict };
