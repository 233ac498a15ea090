/* test_entropy.c - the head and its loss, computed in chunks of rows: loss, hits and gradients compared with loops in
 * double precision. */
#include "near.h"
#include "reference.h"
#include "suite.h"
#include "cspeed/layer.h"
#include "unit/pass.h"
#include "unit/unit.h"

#include <stdlib.h>
#include <string.h>

/* If `chunk_bytes` is 0, a chunk has 64 rows, so the rows form four chunks; the last chunk has 8 rows. */
enum { ROWS = 200, WIDTH = 24, CLASSES = 61, HELD = 64 };
static const cs_tensor absent;

typedef struct {
    cs_tensor x, weight, bias, targets, dloss; /* inputs */
    /* outputs; evaluated: losses of an evaluation; block: memory of the pass */
    cs_tensor loss, hits, dx, dweight, dbias, evaluated, block;
} head_case;

static void declare(cs_unit *unit, const void *sizes)
{
    (void)sizes;
    cs_linear_declare(cs_unit_self(unit, sizeof(cs_linear)), unit, "head", WIDTH, HELD, (cs_init){ CS_ZEROS, 0 },
                      CS_OUT_IN, CS_BIAS);
}

/* Sets the unit's parameters and gradients to the tensors of the case. */
static cs_linear *attach(cs_unit *unit, const head_case *on)
{
    cs_linear *head = cs_unit_self(unit, sizeof *head);
    head->weight->value = near_at(on->weight);
    head->bias->value = near_at(on->bias);
    head->weight->gradient->data = near_at(on->dweight).data;
    head->bias->gradient->data = near_at(on->dbias).data;
    ce_unit_set_unwritten(unit, false);
    return head;
}

/* Runs forward and, in training, backward. */
static void run(cs_device *device, const head_case *on, ce_pass_mode mode, size_t chunk_bytes)
{
    static const cs_kind kind = { "head", declare, NULL, NULL, NULL };
    bool training = mode == CE_PASS_TRAINING;
    cs_model *model;
    cs_pass *pass;
    cs_dtype dtype = on->x.dtype;
    CS_MUST(cs_model_new(&model, WIDTH));
    cs_unit *unit = cs_model_add(model, &kind, "", NULL);
    cs_linear *head = attach(unit, on);
    CS_MUST(ce_pass_open(&pass, &(ce_pass_shape){ .device = device,
                                                  .dtype = dtype,
                                                  .products = dtype,
                                                  .block = near_at(on->block).data,
                                                  .block_bytes = (size_t)cs_count(on->block) * sizeof(float),
                                                  .chunk_bytes = chunk_bytes }));
    ce_pass_begin(pass, &(ce_pass_batch_info){ .mode = mode,
                                               .batch = 1,
                                               .length = ROWS,
                                               .targets = near_at(on->targets),
                                               .hits = training ? absent : near_at(on->hits) });
    ce_pass_enter(pass, NULL, CE_PASS_FORWARD);
    if (training)
        ce_pass_weigh(pass, near_at(on->dloss));
    cs_entropy_forward(head, pass, near_at(on->x), CLASSES, near_at(training ? on->loss : on->evaluated));
    ce_pass_leave(pass);
    ce_pass_enter(pass, NULL, CE_PASS_FORWARD);
    if (training)
        cs_op_cast(cs_pass_stream(pass), near_at(on->dx), cs_entropy_backward(pass));
    ce_pass_leave(pass);
    near_fetch();
    ce_pass_end(pass);
    ce_pass_close(pass);
    cs_model_free(model);
}

static head_case new_case(cs_dtype dtype)
{
    head_case on = {
        .x = near_random(dtype, ROWS, WIDTH, 1, 1),
        .weight = near_random(dtype, HELD, WIDTH, 2, 1),
        .bias = near_random(dtype, HELD, 1, 3, 1),
        .targets = near_new(CS_I32, ROWS, 1),
        .dloss = near_random(CS_F32, ROWS, 1, 4, 1),
        .loss = near_new(CS_F32, ROWS, 1),
        .hits = near_new(CS_F32, ROWS, 1),
        .dx = near_new(dtype, ROWS, WIDTH),
        .dweight = near_random(CS_F32, HELD, WIDTH, 5, 1),
        .dbias = near_random(CS_F32, HELD, 1, 6, 1),
        .evaluated = near_new(CS_F32, ROWS, 1),
        .block = near_new(CS_F32, 2 * ROWS, HELD + WIDTH),
    };
    on.bias = cs_vector(on.bias.data, dtype, HELD);
    on.dbias = cs_vector(on.dbias.data, CS_F32, HELD);
    for (int i = 0; i < ROWS; i++)
        ((int32_t *)on.targets.data)[i] = i % 4 == 1 ? -1 : i * 131 % CLASSES;
    return on;
}

static void free_case(const head_case *on)
{
    cs_tensor all[] = { on->x,    on->weight, on->bias,    on->targets, on->dloss,     on->loss,
                        on->hits, on->dx,     on->dweight, on->dbias,   on->evaluated, on->block };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        near_free(all[i]);
}

/* The wanted outputs of the case, in double precision. */
typedef struct {
    double loss[ROWS], hits[ROWS], dx[ROWS * WIDTH], dweight[HELD * WIDTH], dbias[HELD];
} expected;

static void expect_row(expected *e, int row, const head_case *on, const double *x, const double *weight,
                       const double *bias)
{
    int target = ((const int32_t *)on->targets.data)[row], largest = 0;
    double logits[CLASSES], grad[CLASSES] = { 0 }, lse;
    for (int v = 0; v < CLASSES; v++) {
        logits[v] = bias[v];
        for (int c = 0; c < WIDTH; c++)
            logits[v] += x[row * WIDTH + c] * weight[v * WIDTH + c];
        largest = logits[v] > logits[largest] ? v : largest;
    }
    e->loss[row] = reference_cross_entropy(&lse, logits, CLASSES, target);
    e->hits[row] = target == largest;
    reference_cross_entropy_grad(grad, near_element(on->dloss, row), logits, CLASSES, target);
    for (int v = 0; v < CLASSES; v++) {
        e->dbias[v] += grad[v];
        for (int c = 0; c < WIDTH; c++) {
            e->dx[row * WIDTH + c] += grad[v] * weight[v * WIDTH + c];
            e->dweight[v * WIDTH + c] += grad[v] * x[row * WIDTH + c];
        }
    }
}

/* Returns the wanted outputs; the caller frees them. The wanted gradients of the parameters are the gradients that the
 * case has at first plus the gradients of all rows. */
static expected *expect(const head_case *on)
{
    expected *e = calloc(1, sizeof *e);
    double *x = near_doubles(on->x), *weight = near_doubles(on->weight), *bias = near_doubles(on->bias);
    ck_assert_ptr_nonnull(e);
    for (int i = 0; i < HELD * WIDTH; i++)
        e->dweight[i] = near_element(on->dweight, i);
    for (int i = 0; i < HELD; i++)
        e->dbias[i] = near_element(on->dbias, i);
    for (int row = 0; row < ROWS; row++)
        expect_row(e, row, on, x, weight, bias);
    free(x), free(weight), free(bias);
    return e;
}

static void check(cs_device *device, cs_dtype dtype, size_t chunk_bytes)
{
    double bound = dtype == CS_F32 ? 1e-5 : 2e-2; /* 16-bit logits and their gradients are rounded */
    head_case on = new_case(dtype);
    expected *e = expect(&on);
    run(device, &on, CE_PASS_EVALUATION, chunk_bytes);
    run(device, &on, CE_PASS_TRAINING, chunk_bytes);
    ck_assert(near_all("loss", on.loss, e->loss, bound));
    ck_assert(near_all("dx", on.dx, e->dx, bound));
    ck_assert(near_all("dweight", on.dweight, e->dweight, bound));
    ck_assert(near_all("dbias", on.dbias, e->dbias, bound));
    ck_assert(near_same_bits("loss of an evaluation", on.evaluated, on.loss));
    ck_assert(dtype != CS_F32 || near_all("hits", on.hits, e->hits, 0));
    free(e);
    free_case(&on);
}

START_TEST(chunks_equal_loops)
{
    cs_device *device = near_open(near_threads(2));
    for (int chunked = 0; chunked <= 1; chunked++) {
        check(device, CS_F32, chunked ? 0 : 1 << 20);
        check(device, CS_BF16, chunked ? 0 : 1 << 20);
        check(device, CS_F16, chunked ? 0 : 1 << 20);
    }
    near_close();
}
END_TEST

/* The head needs no other memory of the pass than the gradient of x and one chunk of logits. */
START_TEST(logits_take_one_chunk)
{
    cs_device *device = near_open(1);
    head_case on = new_case(CS_F32);
    on.block.shape[0] = 1;
    on.block.shape[1] = ROWS * WIDTH + 64 * HELD;
    run(device, &on, CE_PASS_TRAINING, 0);
    on.block.shape[0] = 2 * ROWS;
    on.block.shape[1] = HELD + WIDTH;
    free_case(&on);
    near_close();
}
END_TEST

SUITE_MAIN("entropy", chunks_equal_loops, logits_take_one_chunk)
