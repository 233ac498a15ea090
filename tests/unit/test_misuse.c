/* test_misuse.c - mistakes of a program with a model of its own, and with collectives: each ends with a sentence and exit
 * code 70, or with a status before the first step; and rows of a classifier without a target do not count. */
#include "core/engine.h"
#include "cspeed/comm.h"
#include "endings.h"
#include "pieces.h"
#include "runs.h"
#include "suite.h"
#include "unit/pass.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 4, CLASSES = 3, ROWS = 8 };

/* ---- a model of one unit, which a mistake changes ---- */

typedef struct {
    const char *unit, *name, *second;
    int64_t rows, columns;
    cs_init init;
    size_t more; /* bytes that forward asks for beyond those of declare */
} sizes;

static const sizes usual = { "u", "w", "v", WIDTH, CLASSES, { CS_NORMAL, 0.5f }, 0 };
static size_t asked_more;

typedef struct {
    cs_param *weight, *second;
} parts;

static void declare(cs_unit *unit, const void *given)
{
    const sizes *s = given;
    parts *self = cs_unit_self(unit, sizeof *self);
    asked_more = s->more;
    self->weight = cs_unit_param(unit, s->name, s->rows, s->columns, s->init);
    self->second = cs_unit_param(unit, s->second, WIDTH, 0, (cs_init){ CS_ZEROS, 0 });
}

static void forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    parts *self = cs_unit_self(unit, sizeof *self + asked_more);
    cs_tensor logits = cs_pass_make(pass, CS_F32, cs_rows(x), CLASSES);
    cs_op_matmul(cs_pass_stream(pass), logits, x, self->weight->value, (cs_tensor){ 0 }, CS_IN_OUT);
    cs_op_cross_entropy(cs_pass_stream(pass), y, logits, cs_pass_targets(pass), CLASSES, cs_pass_dloss(pass));
    cs_pass_keep(pass, x);
    cs_pass_keep(pass, logits);
}

static void backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    parts *self = cs_unit_self(unit, sizeof *self);
    cs_tensor dlogits = cs_pass_take(pass), x = cs_pass_take(pass);
    (void)dy, (void)dx;
    cs_op_matmul_grad_weight(cs_pass_stream(pass), self->weight->grad, (cs_tensor){ 0 }, x, dlogits, CS_IN_OUT);
}

static const cs_kind kind = { "classes", declare, forward, backward, NULL };

static cs_model *make(const sizes *first, const sizes *further)
{
    cs_model *model;
    CS_MUST(cs_model_new(&model, 1));
    cs_model_classifies(model, WIDTH);
    cs_model_add(model, &kind, first->unit, first);
    if (further)
        cs_model_add(model, &kind, further->unit, further);
    return model;
}

static const char config_text[] = "{\"train_micro_batch_size_per_gpu\": 8, \"optimizer\": {\"type\": \"SGD\", "
                                  "\"params\": {\"lr\": 0.5}}, \"cspeed\": {\"device\": \"cpu\", \"seed\": 5}}";

static cs_status open_engine(cs_engine **engine, cs_model *model)
{
    char path[] = "/tmp/cspeed-misuse-XXXXXX";
    cs_config *config;
    int file = mkstemp(path);
    ck_assert_int_eq(write(file, config_text, strlen(config_text)), (ssize_t)strlen(config_text));
    close(file);
    cs_status status = cs_config_open(&config, path);
    unlink(path);
    CS_MUST(status);
    return cs_initialize(engine, config, model);
}

/* ---- rows without a target ---- */

static const float *weights_of(cs_engine *engine)
{
    ce_shard_piece pieces[2];
    ck_assert_int_eq(pieces_take(engine, 0, pieces), 2);
    return pieces[0].master;
}

/* Returns the gradient of an element of the weights, from one step of SGD, and the loss and count of the step. */
static double step_of(const int32_t targets[ROWS], cs_metrics *metrics)
{
    float inputs[ROWS * WIDTH], before, after;
    cs_engine *engine;
    for (int i = 0; i < ROWS * WIDTH; i++)
        inputs[i] = (float)((i * 7 + 3) % 11) / 11 - 0.5f;
    endings_must(open_engine(&engine, make(&usual, NULL)));
    before = weights_of(engine)[1];
    cs_forward(engine, &(cs_batch){ .inputs = cs_matrix(inputs, CS_F32, ROWS, WIDTH),
                                    .targets = cs_matrix((void *)(size_t)targets, CS_I32, ROWS, 1) });
    cs_backward(engine);
    cs_step(engine);
    *metrics = cs_last_step(engine);
    after = weights_of(engine)[1];
    cs_destroy(engine);
    return (double)(before - after) / 0.5;
}

/* The loss is the mean over the rows that have a target, as with PyTorch's ignore_index: here of four of eight rows, which
 * are those of a batch in which each of them occurs twice. */
START_TEST(rows_without_a_target_do_not_count)
{
    cs_metrics half, none;
    int32_t some[ROWS], no[ROWS];
    for (int i = 0; i < ROWS; i++) {
        some[i] = i % 2 ? -1 : i / 2 % CLASSES;
        no[i] = -1;
    }
    double gradient = step_of(some, &half), loss = 0, wanted = 0;
    /* the model in double precision */
    cs_engine *engine;
    endings_must(open_engine(&engine, make(&usual, NULL)));
    const float *w = weights_of(engine);
    for (int row = 0; row < ROWS; row += 2) {
        double logit[CLASSES] = { 0 }, sum = 0;
        for (int c = 0; c < CLASSES; c++) {
            for (int i = 0; i < WIDTH; i++)
                logit[c] += ((double)(float)(((row * WIDTH + i) * 7 + 3) % 11) / 11 - 0.5) * (double)w[i * CLASSES + c];
            sum += exp(logit[c]);
        }
        double x0 = (double)((row * WIDTH * 7 + 3) % 11) / 11 - 0.5;
        loss += (log(sum) - logit[some[row]]) / 4;
        wanted += x0 * (exp(logit[1]) / sum - (some[row] == 1)) / 4;
    }
    cs_destroy(engine);
    ck_assert_msg(fabs(half.loss - loss) < 1e-6, "loss %.9g, not %.9g", half.loss, loss);
    ck_assert_msg(fabs(gradient - wanted) < 1e-6, "gradient %.9g, not %.9g", gradient, wanted);
    ck_assert_int_eq(half.tokens, 4);
    step_of(no, &none);
    ck_assert(isnan(none.loss));
}
END_TEST

/* ---- one process ---- */

static void initialize(const sizes *first, const sizes *further)
{
    cs_engine *engine;
    endings_must(open_engine(&engine, make(first, further)));
    float inputs[ROWS * WIDTH] = { 0 };
    int32_t targets[ROWS] = { 0 };
    cs_forward(engine, &(cs_batch){ .inputs = cs_matrix(inputs, CS_F32, ROWS, WIDTH),
                                    .targets = cs_matrix(targets, CS_I32, ROWS, 1) });
}

static cs_comm *alone(void)
{
    cs_comm *comm;
    endings_must(cs_comm_open(&comm, &(cs_world){ .size = 1, .local_size = 1 }, &(cs_comm_settings){ .kind = "self" }));
    return comm;
}

#define MODEL(...) initialize(&(const sizes){ __VA_ARGS__ }, NULL)
static char long_name[5000];
static float data[4];

static void another_self(void)
{
    MODEL("u", "w", "v", WIDTH, CLASSES, { CS_NORMAL, 0.5f }, 4048);
}
static void no_rows(void)
{
    MODEL("u", "w", "v", 0, CLASSES, { CS_NORMAL, 0.5f }, 0);
}
static void too_many_rows(void)
{
    MODEL("u", "w", "v", (int64_t)1 << 62, 8, { CS_NORMAL, 0.5f }, 0);
}
static void unknown_init(void)
{
    MODEL("u", "w", "v", WIDTH, CLASSES, { 77, 0.5f }, 0);
}
static void nan_init(void)
{
    MODEL("u", "w", "v", WIDTH, CLASSES, { CS_NORMAL, NAN }, 0);
}
static void negative_init(void)
{
    MODEL("u", "w", "v", WIDTH, CLASSES, { CS_UNIFORM, -1 }, 0);
}
static void name_twice(void)
{
    MODEL("u", "w", "w", WIDTH, CLASSES, { CS_NORMAL, 0.5f }, 0);
}
static void unit_twice(void)
{
    initialize(&usual, &usual);
}
static void no_text(void)
{
    MODEL("u", "w\xff", "v", WIDTH, CLASSES, { CS_NORMAL, 0.5f }, 0);
}
static void no_name(void)
{
    MODEL("", "", "v", WIDTH, CLASSES, { CS_NORMAL, 0.5f }, 0);
}
static void long_names(void)
{
    memset(long_name, 'n', sizeof long_name - 1);
    MODEL("u", long_name, "v", WIDTH, CLASSES, { CS_NORMAL, 0.5f }, 0);
}
static void wrong_type(void)
{
    cs_comm_all_reduce(alone(), data, 4, (cs_dtype)42, CS_SUM);
}
static void wrong_type_of_256(void)
{
    cs_comm_all_gather(alone(), data, data, 4, (cs_dtype)256);
}
static void wrong_operation(void)
{
    cs_comm_reduce_scatter(alone(), data, data, 4, CS_F32, (cs_reduce_op)42);
}
static void too_many(void)
{
    cs_comm_all_to_all(alone(), data, data, (int64_t)1 << 62, CS_F32);
}
static void too_few(void)
{
    cs_comm_gather(alone(), data, data, -1, CS_F32, 0);
}
static void too_few_of_a_rank(void)
{
    cs_comm_all_gather_v(alone(), data, data, &(int64_t){ -1 }, CS_F32);
}
static void no_root(void)
{
    cs_comm_broadcast(alone(), data, 4, CS_F32, 5);
}
static void no_peer(void)
{
    cs_comm_send(alone(), data, 4, -1);
}
static void to_itself(void)
{
    cs_comm_send(alone(), data, 4, 0);
}
static void dims(void)
{
    cs_count((cs_tensor){ data, CS_F32, 7, { 1 }, false });
}
static void type_of_tensor(void)
{
    cs_dtype_bytes((cs_dtype)99);
}
static void negative_tensor(void)
{
    cs_pass *pass;
    endings_must(ce_pass_open(&pass, &(ce_pass_shape){ .chunk_bytes = 1 }));
    ce_pass_enter(pass, NULL, CE_PASS_FORWARD);
    cs_pass_make(pass, CS_F32, -1, 4);
}

static const struct {
    void (*make)(void);
    int code;
    const char *says;
} mistakes[] = {
    { another_self, 70,
      "unit u, forward: cs_unit_self: unit u asks for 4064 bytes, and the first call has asked for 16" },
    { no_rows, 70, "parameter u.w: it cannot have 0 rows and 3 columns" },
    { too_many_rows, 70, "parameter u.w: it cannot have 4611686018427387904 rows and 8 columns" },
    { unknown_init, 70, "parameter u.w: init.how is 77" },
    { nan_init, 70, "parameter u.w: init.std is nan" },
    { negative_init, 70, "parameter u.w: init.std is -1" },
    { name_twice, 78, "two parameters of the model are named u.w" },
    { unit_twice, 78, "two parameters of the model are named u.v" },
    { no_text, 78, "is not a valid name of a tensor" },
    { no_name, 78, "\"\" is not a valid name of a tensor" },
    { long_names, 78, "is not a valid name of a tensor" },
    { wrong_type, 70, "all_reduce: the type is 42, which is none of cs_dtype" },
    { wrong_type_of_256, 70, "all_gather: the type is 256" },
    { wrong_operation, 70, "reduce_scatter: the operation is 42, which is none of cs_reduce_op" },
    { too_many, 70, "all_to_all: a count of 4611686018427387904 elements over 1 rank is not possible" },
    { too_few, 70, "gather: a count of -1 elements" },
    { too_few_of_a_rank, 70, "all_gather: a count of -1 elements" },
    { no_root, 70, "broadcast: the root 5 is none of the 1 rank of this comm" },
    { no_peer, 70, "send: the peer -1 is none of the 1 rank of this comm" },
    { to_itself, 70, "send: rank 0 sends no message to itself" },
    { dims, 70, "a tensor has 7 dimensions: 0 to 4 are possible" },
    { type_of_tensor, 70, "the type of a tensor or vector is 99" },
    { negative_tensor, 70, "cs_pass_make: a tensor cannot have the shape (-1, 4)" },
};

static void play_mistake(const void *scene, int index)
{
    (void)index;
    mistakes[*(const int *)scene].make();
}

START_TEST(a_mistake_is_a_sentence)
{
    for (int i = 0; i < (int)(sizeof mistakes / sizeof *mistakes); i++) {
        ending end;
        endings_perform(&end, 1, play_mistake, &i);
        endings_expect(&end, mistakes[i].code, mistakes[i].says);
    }
}
END_TEST

/* ---- two ranks ---- */

typedef struct {
    const char *transport;
    int number;
} case_of_two;

static void enter(int rank)
{
    char number[16];
    snprintf(number, sizeof number, "%d", rank);
    setenv("RANK", number, 1);
    setenv("LOCAL_RANK", number, 1);
    setenv("WORLD_SIZE", "2", 1);
    setenv("LOCAL_WORLD_SIZE", "2", 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
}

/* Each rank takes itself for the root, or the other one. */
static void play_roots(const void *scene, int rank)
{
    const case_of_two *given = scene;
    cs_world world;
    cs_comm *comm;
    int root = given->number % 2 ? rank : 1 - rank;
    float two[8] = { 0 };
    enter(rank);
    endings_must(cs_world_read(&world));
    endings_must(cs_comm_open(&comm, &world, &(cs_comm_settings){ .kind = given->transport, .call_seconds = 20 }));
    if (given->number / 2 == 0)
        cs_comm_broadcast(comm, two, 4, CS_F32, root);
    else if (given->number / 2 == 1)
        cs_comm_reduce(comm, two, 4, CS_F32, CS_SUM, root);
    else if (given->number / 2 == 2)
        cs_comm_scatter(comm, two, two + 4, 1, CS_F32, root);
    else
        cs_comm_gather(comm, two, two + 4, 1, CS_F32, root);
}

static void set_port(int number)
{
    char port[16];
    snprintf(port, sizeof port, "%d", 20000 + (getpid() + 97 * number) % 10000);
    setenv("MASTER_PORT", port, 1);
    setenv("CSPEED_JOB_ID", port, 1);
}

START_TEST(ranks_that_name_different_roots_end)
{
    static const char *const names[] = { "broadcast", "reduce", "scatter", "gather" };
    for (int tcp = 0; tcp < 2; tcp++)
        for (int number = 0; number < 8; number++) {
            case_of_two given = { tcp ? "tcp" : "shm", number };
            ending ends[2];
            set_port(8 * tcp + number);
            endings_perform(ends, 2, play_roots, &given);
            int told = ends[0].code == 76 ? 0 : 1; /* the other rank may notice first that this one has ended */
            endings_expect(&ends[told], 76, names[number / 2]);
            ck_assert_msg(ends[1 - told].code == 76 || ends[1 - told].code == 75, "%s", ends[1 - told].said);
            ck_assert_msg(strstr(ends[told].said, "calls") && strstr(ends[told].said, ", but rank"), "%s",
                          ends[told].said);
        }
}
END_TEST

static void play_models(const void *scene, int rank)
{
    static const sizes others[] = {
        { "u", "another", "v", WIDTH, CLASSES, { CS_NORMAL, 0.5f }, 0 },
        { "u", "w", "v", CLASSES, WIDTH, { CS_NORMAL, 0.5f }, 0 },
        { "u", "w", "v", WIDTH, CLASSES, { CS_UNIFORM, 0.5f }, 0 },
    };
    cs_engine *engine;
    enter(rank);
    endings_must(open_engine(&engine, make(rank ? &others[*(const int *)scene] : &usual, NULL)));
}

START_TEST(ranks_with_other_models_end)
{
    static const char *const says[] = {
        "parameter u.w: \"number 0, 4 x 3, first values 2 0.5, with decay\" on rank 0, nothing on rank 1",
        "parameter u.w: \"number 0, 4 x 3, first values 2 0.5, with decay\" on rank 0, \"number 0, 3 x 4",
        "on rank 0, \"number 0, 4 x 3, first values 3 0.5",
    };
    for (int i = 0; i < 3; i++) {
        ending ends[2];
        set_port(30 + i);
        endings_perform(ends, 2, play_models, &i);
        endings_expect(&ends[0], 76, says[i]);
        endings_expect(&ends[1], 76, says[i]);
    }
}
END_TEST

SUITE_MAIN("misuse", rows_without_a_target_do_not_count, a_mistake_is_a_sentence, ranks_that_name_different_roots_end,
           ranks_with_other_models_end)
