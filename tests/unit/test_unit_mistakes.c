/* test_unit_mistakes.c - mistakes inside the functions of a unit: each ends the process with exit code 70 and a sentence that
 * names the unit, the pass, the operation and the argument. */
#include "cspeed/layer.h"
#include "endings.h"
#include "suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 8, WIDTH = 4, CLASSES = 3 };

/* IN_FIRST: the mistake is in the first unit's forward, in place of the copy of its result to y */
typedef enum { IN_DECLARE, IN_FIRST, IN_FORWARD, IN_BACKWARD, IN_DX } place;
typedef void mistake(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y);

static struct {
    place where;
    mistake *make;
    int32_t target;
} now;
static cs_linear linear;
static const cs_tensor absent;

static void maybe(place where, cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    if (now.make && now.where == where)
        now.make(unit, pass, x, y);
}

/* ---- a model of two units; the mistakes are in the second one, whose input is (8, 4) ---- */

static void first_declare(cs_unit *unit, const void *sizes)
{
    (void)sizes;
    cs_linear_declare(cs_unit_self(unit, sizeof linear), unit, "in", WIDTH, WIDTH, (cs_init){ CS_NORMAL, 1 }, CS_OUT_IN,
                      CS_BIAS);
}

static void first_forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    cs_tensor h = cs_linear_forward(cs_unit_self(unit, sizeof linear), pass, x);
    if (now.where == IN_FIRST)
        now.make(unit, pass, h, y);
    else
        cs_op_cast(cs_pass_stream(pass), y, h);
}

static void first_backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    (void)dx;
    cs_linear_backward(cs_unit_self(unit, sizeof linear), pass, dy);
}

static const cs_kind first = { "first", first_declare, first_forward, first_backward, NULL };

typedef struct {
    cs_param *weight;
} last_unit;

static void declare(cs_unit *unit, const void *sizes)
{
    last_unit *self = cs_unit_self(unit, sizeof *self);
    (void)sizes;
    self->weight = cs_unit_param(unit, "w", WIDTH, CLASSES, (cs_init){ CS_NORMAL, 0.5f });
    maybe(IN_DECLARE, unit, NULL, absent, absent);
}

static void forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    last_unit *self = cs_unit_self(unit, sizeof *self);
    cs_tensor logits = cs_pass_make(pass, CS_F32, cs_rows(x), CLASSES);
    cs_op_matmul(cs_pass_stream(pass), logits, x, self->weight->value, absent, CS_IN_OUT);
    maybe(IN_FORWARD, unit, pass, x, y);
    cs_op_cross_entropy(cs_pass_stream(pass), y, logits, cs_pass_targets(pass), CLASSES, cs_pass_dloss(pass));
    cs_pass_keep(pass, x);
    cs_pass_keep(pass, logits);
}

static void backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    last_unit *self = cs_unit_self(unit, sizeof *self);
    cs_tensor dlogits = cs_pass_take(pass), x = cs_pass_take(pass);
    maybe(IN_BACKWARD, unit, pass, dy, dx);
    cs_op_matmul_grad_weight(cs_pass_stream(pass), self->weight->grad, absent, x, dlogits, CS_IN_OUT);
    if (now.where == IN_DX)
        now.make(unit, pass, dlogits, dx);
    else
        cs_op_matmul_grad_input(cs_pass_stream(pass), dx, dlogits, self->weight->value, CS_IN_OUT);
}

static const cs_kind last = { "last", declare, forward, backward, NULL };

static void train_a_step(void)
{
    cs_config *config;
    cs_model *model;
    cs_engine *engine;
    float inputs[ROWS * WIDTH];
    int32_t targets[ROWS];
    for (int i = 0; i < ROWS * WIDTH; i++)
        inputs[i] = (float)(i % 7) / 7;
    for (int i = 0; i < ROWS; i++)
        targets[i] = i % CLASSES;
    targets[5] += now.target;
    endings_must(cs_config_open(&config, "{\"train_micro_batch_size_per_gpu\": 8, \"optimizer\": {\"type\": \"SGD\", "
                                         "\"params\": {\"lr\": 0.5}}, \"cspeed\": {\"device\": \"cpu\"}}"));
    endings_must(cs_model_new(&model, WIDTH));
    cs_model_classifies(model, WIDTH);
    cs_model_add(model, &first, "first", NULL);
    cs_model_add(model, &last, "block.1", NULL);
    endings_must(cs_initialize(&engine, config, model));
    cs_forward(engine, &(cs_batch){ .inputs = cs_matrix(inputs, CS_F32, ROWS, WIDTH),
                                    .targets = cs_matrix(targets, CS_I32, ROWS, 1) });
    cs_backward(engine);
    cs_step(engine);
    cs_destroy(engine);
}

/* ---- the mistakes ---- */

#define MISTAKE(name)                                                                                                  \
    static void name(__attribute__((unused)) cs_unit *unit, __attribute__((unused)) cs_pass *pass,                     \
                     __attribute__((unused)) cs_tensor x, __attribute__((unused)) cs_tensor y)
#define STREAM cs_pass_stream(pass)

static cs_tensor make(cs_pass *pass, int64_t rows, int64_t columns)
{
    return cs_pass_make(pass, CS_F32, rows, columns);
}

MISTAKE(weight_shape)
{
    cs_op_matmul(STREAM, make(pass, ROWS, 5), x, make(pass, 5, 3), absent, CS_IN_OUT);
}
MISTAKE(weight_absent)
{
    cs_op_matmul(STREAM, make(pass, ROWS, 5), x, absent, absent, CS_OUT_IN);
}
MISTAKE(weight_type)
{
    cs_op_matmul(STREAM, make(pass, ROWS, 5), x, cs_pass_make(pass, CS_BF16, 4, 5), absent, CS_IN_OUT);
}
MISTAKE(result_type)
{
    cs_op_matmul(STREAM, cs_pass_make(pass, CS_I32, ROWS, 5), x, make(pass, 4, 5), absent, CS_IN_OUT);
}
MISTAKE(result_rows)
{
    cs_op_matmul(STREAM, make(pass, 3, 5), x, make(pass, 4, 5), absent, CS_IN_OUT);
}
MISTAKE(bias_length)
{
    cs_op_matmul(STREAM, make(pass, ROWS, 5), x, make(pass, 4, 5), make(pass, 1, 4), CS_IN_OUT);
}
MISTAKE(matmul_columns)
{
    cs_op_matmul_columns(STREAM, make(pass, ROWS, 6), 2, x, make(pass, 4, 5), absent, CS_IN_OUT);
}
MISTAKE(gradient_shape)
{
    cs_op_matmul_grad_weight(STREAM, make(pass, 3, 4), absent, make(pass, ROWS, 4), make(pass, ROWS, 3), CS_IN_OUT);
}
MISTAKE(gradient_type)
{
    cs_op_matmul_grad_weight(STREAM, cs_pass_make(pass, CS_BF16, 4, 3), absent, make(pass, ROWS, 4),
                             make(pass, ROWS, 3), CS_IN_OUT);
}
MISTAKE(gelu_shape)
{
    cs_op_gelu(STREAM, make(pass, ROWS, 5), x);
}
MISTAKE(integers)
{
    cs_op_gelu(STREAM, y, cs_pass_targets(pass));
}
MISTAKE(swiglu_shape)
{
    cs_op_swiglu(STREAM, make(pass, ROWS, 4), x);
}
MISTAKE(add_shape)
{
    cs_op_add(STREAM, x, x, make(pass, ROWS, 3));
}
MISTAKE(sum_shape)
{
    cs_op_sum(STREAM, make(pass, 1, 3), x, 1);
}
MISTAKE(softmax_bias)
{
    cs_op_softmax(STREAM, x, x, (cs_softmax_scores){ .bias = make(pass, 1, 3) });
}
MISTAKE(transposed_items)
{
    cs_op_transpose(STREAM, make(pass, ROWS, 4), x, 1, ROWS, 3);
}
MISTAKE(batch_of_products)
{
    cs_op_matmul_batch(STREAM, make(pass, ROWS, 2), x, make(pass, ROWS, 2), (cs_matrices){ .count = 3 });
}
MISTAKE(values_of_attention)
{
    cs_op_attend(STREAM, x, make(pass, ROWS, 4), make(pass, ROWS, 4), x, x, make(pass, 4, 4), 2,
                 (cs_softmax_scores){ 0 });
}
MISTAKE(kernel_larger_than_image)
{
    cs_op_patches(STREAM, x, x, (cs_patches){ .size = { 2, 2 }, .channels = 1, .kernel = { 3, 3 } });
}
MISTAKE(divergence_target)
{
    cs_op_divergence(STREAM, make(pass, ROWS, 1), x, make(pass, ROWS, 3));
}
MISTAKE(norm_statistics)
{
    cs_op_norm(STREAM, x, make(pass, ROWS, 1), x, make(pass, 1, 4), make(pass, 1, 4), 1e-5f);
}
MISTAKE(rms_group)
{
    cs_op_rms(STREAM, x, make(pass, ROWS, 2), x, make(pass, 1, 4), 0, 1e-5f);
}
MISTAKE(heads)
{
    cs_op_attention(STREAM, make(pass, ROWS, 4), make(pass, 3, 8), make(pass, ROWS, 12),
                    (cs_heads){ .queries = 3, .keys = 3 }, (cs_dropout){ 0 });
}
MISTAKE(heads_of_keys)
{
    cs_op_attention(STREAM, make(pass, ROWS, 4), make(pass, 3, 8), make(pass, ROWS, 12),
                    (cs_heads){ .queries = 3, .keys = 2 }, (cs_dropout){ 0 });
}
MISTAKE(projection)
{
    cs_op_attention(STREAM, make(pass, ROWS, 4), make(pass, 2, 8), make(pass, ROWS, 11),
                    (cs_heads){ .queries = 2, .keys = 2 }, (cs_dropout){ 0 });
}
MISTAKE(dropout_rate)
{
    cs_op_dropout(STREAM, x, x, (cs_dropout){ .rate = 1.5f });
}
MISTAKE(dropout_keys)
{
    cs_op_dropout(STREAM, x, x, (cs_dropout){ .rate = 0.5f, .batch = ROWS });
}
MISTAKE(activation_function)
{
    cs_op_activation(STREAM, x, x, (cs_activation)99);
}
MISTAKE(cap)
{
    cs_op_softcap(STREAM, x, x, 0);
}
MISTAKE(classes)
{
    cs_op_cross_entropy(STREAM, y, make(pass, ROWS, 3), cs_pass_targets(pass), 4, absent);
}
MISTAKE(error_targets)
{
    cs_op_squared_error(STREAM, y, x, cs_pass_targets(pass));
}
MISTAKE(fill_absent)
{
    cs_op_fill(STREAM, absent, 1);
}
MISTAKE(cast_count)
{
    cs_op_cast(STREAM, make(pass, ROWS, 3), x);
}
MISTAKE(columns_outside)
{
    cs_op_take_columns(STREAM, make(pass, ROWS, 3), x, 2, 1);
}
MISTAKE(no_stream)
{
    cs_op_gelu(NULL, x, x);
}
MISTAKE(dimensions)
{
    cs_op_gelu(STREAM, x, (cs_tensor){ x.data, CS_F32, 7, { 8, 4 }, false });
}
MISTAKE(rows_outside)
{
    cs_matrix_rows(x, 6, 3);
}
MISTAKE(tokens_of_a_table)
{
    cs_op_embed(STREAM, x, make(pass, 1, ROWS), make(pass, 5, 4), CS_WHOLE_TABLE, absent, absent);
}
MISTAKE(take_in_forward)
{
    cs_pass_take(pass);
}
MISTAKE(one_take_too_many)
{
    cs_pass_take(pass);
}
MISTAKE(keep_in_backward)
{
    cs_pass_keep(pass, x);
}
MISTAKE(one_keep_too_many)
{
    cs_pass_keep(pass, x);
}
MISTAKE(keep_a_part)
{
    cs_pass_keep(pass, cs_matrix_rows(make(pass, ROWS, 4), 2, 2));
}
MISTAKE(make_when_computing)
{
    if (!cs_pass_measuring(pass))
        make(pass, 1000, 1000);
}
MISTAKE(no_pass)
{
    make(NULL, 1, 1);
}
MISTAKE(no_text)
{
    cs_pass_start(pass, 0);
}
MISTAKE(share_nothing)
{
    cs_unit_share(unit, unit, "w");
}
MISTAKE(name_null)
{
    cs_unit_param(unit, NULL, 1, 1, (cs_init){ CS_ZEROS, 0 });
}
MISTAKE(bad_init)
{
    cs_unit_param(unit, "v", 1, 1, (cs_init){ CS_NORMAL, NAN });
}

MISTAKE(write_nothing)
{
}
MISTAKE(write_some_rows)
{
    cs_op_cast(STREAM, cs_matrix_rows(y, 0, 5), cs_matrix_rows(x, 0, 5));
}
MISTAKE(write_of_unwritten)
{
    cs_op_scale(STREAM, y, make(pass, ROWS, WIDTH), 2);
}
MISTAKE(keep_unwritten)
{
    cs_tensor z = make(pass, 2, 3);
    if (!cs_pass_measuring(pass))
        cs_pass_keep(pass, z);
}
MISTAKE(make_when_measuring)
{
    if (cs_pass_measuring(pass))
        make(pass, 10, 10);
}

static const struct {
    place where;
    mistake *make;
    const char *says;
} mistakes[] = {
    { IN_FORWARD, weight_shape, "unit block.1, forward: cs_op_matmul: w is (5, 3), and (4, 5) is needed" },
    { IN_BACKWARD, weight_shape, "unit block.1, backward: cs_op_matmul: " },
    { IN_FORWARD, weight_absent, "cs_op_matmul: w is absent" },
    { IN_FORWARD, weight_type, "cs_op_matmul: w is CS_BF16, and CS_F32 is needed" },
    { IN_FORWARD, result_type, "cs_op_matmul: y is CS_I32, and CS_F32 is needed" },
    { IN_FORWARD, result_rows, "cs_op_matmul: y is (3, 5), and 8 rows are needed" },
    { IN_FORWARD, bias_length, "cs_op_matmul: bias is (1, 4), and 5 elements are needed" },
    { IN_FORWARD, matmul_columns, "cs_op_matmul_columns: columns 2 to 7 are needed, and the matrix has 6 columns" },
    { IN_BACKWARD, gradient_shape,
      "unit block.1, backward: cs_op_matmul_grad_weight: dw is (3, 4), and (4, 3) is needed" },
    { IN_BACKWARD, gradient_type, "cs_op_matmul_grad_weight: dw is CS_BF16, and CS_F32 is needed" },
    { IN_FORWARD, gelu_shape, "cs_op_gelu: y is (8, 5), and (8, 4) is needed" },
    { IN_FORWARD, integers, "cs_op_gelu: x is CS_I32, and CS_F32, CS_BF16 or CS_F16 is needed" },
    { IN_FORWARD, swiglu_shape, "cs_op_swiglu: x is (8, 4), and (8, 8) is needed" },
    { IN_FORWARD, add_shape, "cs_op_add: b is (8, 3), and (8, 4), (1, 4), (8, 1) or (1, 1) is needed" },
    { IN_FORWARD, sum_shape, "cs_op_sum: y is (1, 3), and (8, 1) or (1, 4) is needed" },
    { IN_FORWARD, softmax_bias, "cs_op_softmax: scores.bias is (1, 3), and 4 columns are needed" },
    { IN_FORWARD, transposed_items, "cs_op_transpose: x has 32 elements, which are not 1 matrices of 8 rows and 3" },
    { IN_FORWARD, batch_of_products, "cs_op_matmul_batch: a has 8 rows, which are not those of 3 matrices" },
    { IN_FORWARD, values_of_attention, "cs_op_attend: v is (4, 4), and 8 rows are needed" },
    { IN_FORWARD, kernel_larger_than_image, "cs_op_patches: the kernel is larger than the image on axis 0" },
    { IN_FORWARD, divergence_target, "cs_op_divergence: target is (8, 3), and (8, 4) is needed" },
    { IN_FORWARD, norm_statistics, "cs_op_norm: stats is (8, 1), and (8, 2) is needed" },
    { IN_FORWARD, rms_group, "cs_op_rms: x has 4 columns, and 2 groups of 4 columns from column 0 on are needed" },
    { IN_FORWARD, heads, "cs_op_attention: y has 4 columns, which are not divisible by 3 heads" },
    { IN_FORWARD, heads_of_keys, "cs_op_attention: heads.queries is 3, and a multiple of heads.keys, 2, is needed" },
    { IN_FORWARD, projection, "cs_op_attention: qkv is (8, 11), and (8, 12) is needed" },
    { IN_FORWARD, dropout_rate, "cs_op_dropout: dropout.rate is 1.5" },
    { IN_FORWARD, dropout_keys, "cs_op_dropout: dropout.keys is NULL" },
    { IN_FORWARD, activation_function, "cs_op_activation: function is 99" },
    { IN_FORWARD, cap, "cs_op_softcap: cap is 0" },
    { IN_FORWARD, classes, "cs_op_cross_entropy: classes is 4, and logits has 3 columns" },
    { IN_FORWARD, error_targets, "cs_op_squared_error: target is CS_I32, and CS_F32 is needed" },
    { IN_FORWARD, fill_absent, "cs_op_fill: y is absent" },
    { IN_FORWARD, cast_count, "cs_op_cast: y is (8, 3), and 32 elements are needed" },
    { IN_FORWARD, columns_outside, "cs_op_take_columns: y has 4 columns, and 3 columns from column 2 on are needed" },
    { IN_FORWARD, no_stream, "unit block.1, forward: cs_op_gelu: the stream is NULL" },
    { IN_FORWARD, dimensions, "cs_op_gelu: x has 7 dimensions" },
    { IN_FORWARD, rows_outside, "unit block.1, forward: cs_matrix_rows: 3 rows from row 6 on are needed" },
    { IN_FORWARD, tokens_of_a_table, "cs_op_embed: tokens is CS_F32, and CS_I32 is needed" },
    { IN_FORWARD, take_in_forward, "unit block.1, forward: cs_pass_take: no tensor is left" },
    { IN_BACKWARD, one_take_too_many, "unit block.1, backward: cs_pass_take: no tensor is left" },
    { IN_BACKWARD, keep_in_backward, "unit block.1, backward: it has not taken 1 of the tensors" },
    { IN_FORWARD, one_keep_too_many, "unit block.1, backward: it has not taken 1 of the tensors" },
    { IN_FORWARD, keep_a_part, "unit block.1, forward: a tensor (2, 4) that is kept is a part" },
    { IN_FORWARD, make_when_computing, "unit block.1, forward: cs_pass_make: this tensor needs byte" },
    { IN_FORWARD, no_pass, "unit block.1, forward: cs_pass_make: pass is NULL" },
    { IN_FORWARD, no_text, "unit block.1, forward: cs_pass_start: sample 0 of 8 continues no text" },
    { IN_FIRST, write_nothing, "unit first, forward: its output y (8, 4) has 32 elements that were not written" },
    { IN_FIRST, write_some_rows,
      "has 12 elements that were not written, or were computed from memory that was not written; "
      "the first is in row 5, column 0" },
    { IN_FIRST, write_of_unwritten, "unit first, forward: its output y (8, 4) has 32 elements" },
    { IN_DX, write_nothing, "unit block.1, backward: the gradient dx (8, 4) has 32 elements that were not written" },
    { IN_FORWARD, keep_unwritten, "unit block.1, forward: a tensor that it keeps (2, 3) has 6 elements" },
    { IN_FORWARD, make_when_measuring, "unit block.1, forward: its tensors have " },
    { IN_BACKWARD, make_when_measuring, "unit block.1, backward: its tensors have " },
    { IN_DECLARE, share_nothing, "unit block.1, declare: cs_unit_share: unit block.1 does not come before" },
    { IN_DECLARE, name_null, "unit block.1, declare: cs_unit_param: name is NULL" },
    { IN_DECLARE, bad_init, "unit block.1, declare: parameter block.1.v: init.std is nan" },
};

static void play(const void *scene, int index)
{
    int number = *(const int *)scene;
    (void)index;
    now.where = mistakes[number].where;
    now.make = mistakes[number].make;
    train_a_step();
}

START_TEST(a_mistake_in_a_unit_is_a_sentence)
{
    for (int i = 0; i < (int)(sizeof mistakes / sizeof *mistakes); i++) {
        ending end;
        endings_perform(&end, 1, play, &i);
        endings_expect(&end, 70, mistakes[i].says);
        ck_assert_msg(!strstr(end.said, ".c:"), "the path of a source file: %s", end.said);
    }
}
END_TEST

/* ---- data ---- */

static void play_data(const void *scene, int index)
{
    (void)index;
    now.make = NULL;
    now.target = *(const int32_t *)scene;
    train_a_step();
}

START_TEST(a_target_out_of_range_is_named)
{
    ending end;
    int32_t by = 1;
    endings_perform(&end, 1, play_data, &by);
    endings_expect(&end, 70,
                   "unit block.1, forward: cs_op_cross_entropy: the target of row 5 is 3, and 0 to 2 are possible, or "
                   "less for no target (1 of 8 rows are wrong)");
}
END_TEST

SUITE_MAIN("unit_mistakes", a_mistake_in_a_unit_is_a_sentence, a_target_out_of_range_is_named)
