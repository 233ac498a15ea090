/* train_npy.c - a perceptron or a convolutional network on NumPy arrays: regression with the squared or the absolute
 * error, or classification.
 *
 *     cspeed --num_gpus 2 train_npy --inputs x.npy --targets y.npy --loss mse|mae|cross_entropy --epochs 20
 *     cspeed --num_gpus 2 train_npy --model convnet --inputs images.npy --targets digits.npy --loss cross_entropy
 *
 * x.npy is (N, F) in float32, or (N, H, W) for a convnet. y.npy is (N, C) in float32; for cross_entropy it is (N) in
 * int64 or int32, with classes from 0. Arrays are little-endian and in C order, as np.save writes them. Two threads
 * fill the next batches during a step. After each epoch rank 0 prints the mean loss of the epoch's last step. At the
 * end it prints the accuracy over all samples, a ratio of counts that are summed over all ranks. */
#include "convolution.h"
#include "npy.h"

#include "cspeed/cspeed.h"
#include "cspeed/layer.h"
#include "cspeed/loader.h"
#include "cspeed/options.h"
#include "cspeed/sampler.h"

#include <math.h>
#include <unistd.h>

/* The values of model_kind and loss_kind have the order of the choices of the options --model and --loss. */
typedef enum { PERCEPTRON, CONVNET } model_kind;
typedef enum { MSE, MAE, CROSS_ENTROPY } loss_kind;

/* ---- the units ---- */

typedef struct {
    int64_t inputs, outputs;
    loss_kind loss;
} layer_sizes;

typedef struct {
    cs_linear linear;
    layer_sizes sizes;
} layer;

static void declare(cs_unit *unit, const void *given)
{
    const layer_sizes *sizes = given;
    layer *self = cs_unit_self(unit, sizeof *self);
    self->sizes = *sizes;
    cs_linear_declare(&self->linear, unit, "linear", sizes->inputs, sizes->outputs,
                      (cs_init){ CS_NORMAL, 1 / sqrtf((float)sizes->inputs) }, CS_IN_OUT, CS_BIAS);
}

static void hidden_forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    const layer *self = cs_unit_self(unit, sizeof *self);
    cs_tensor cast = cs_pass_make(pass, cs_pass_dtype(pass), cs_rows(x), cs_columns(x));
    cs_op_cast(cs_pass_stream(pass), cast, x);
    cs_tensor h = cs_linear_forward(&self->linear, pass, cast);
    cs_op_gelu(cs_pass_stream(pass), y, h);
    cs_pass_keep(pass, h);
}

static void hidden_backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    const layer *self = cs_unit_self(unit, sizeof *self);
    cs_tensor h = cs_pass_take(pass), dh = cs_pass_like(pass, h);
    cs_op_gelu_grad(cs_pass_stream(pass), dh, dy, h);
    if (dx.data)
        cs_op_cast(cs_pass_stream(pass), dx, cs_linear_backward(&self->linear, pass, dh));
    else
        cs_linear_backward_weights(&self->linear, pass, dh);
}

static void output_predict(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor *output)
{
    const layer *self = cs_unit_self(unit, sizeof *self);
    *output = cs_linear_forward(&self->linear, pass, x);
}

/* The operation cross-entropy replaces the logits by their gradient in forward, so that backward only computes the
 * gradients of the linear layer. */
static void output_forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    const layer *self = cs_unit_self(unit, sizeof *self);
    cs_stream *stream = cs_pass_stream(pass);
    cs_tensor guess, targets = cs_pass_targets(pass), hits = cs_pass_hits(pass);
    output_predict(unit, pass, x, &guess);
    if (hits.data && self->sizes.loss == CROSS_ENTROPY)
        cs_op_hits(stream, hits, guess, targets, self->sizes.outputs);
    if (self->sizes.loss == CROSS_ENTROPY)
        cs_op_cross_entropy(stream, y, guess, targets, self->sizes.outputs, cs_pass_dloss(pass));
    else
        (self->sizes.loss == MSE ? cs_op_squared_error : cs_op_absolute_error)(stream, y, guess, targets);
    cs_pass_keep(pass, guess);
}

static void output_backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    const layer *self = cs_unit_self(unit, sizeof *self);
    cs_stream *stream = cs_pass_stream(pass);
    cs_tensor guess = cs_pass_take(pass), dguess = guess;
    if (self->sizes.loss != CROSS_ENTROPY) {
        dguess = cs_pass_like(pass, guess);
        (self->sizes.loss == MSE ? cs_op_squared_error_grad : cs_op_absolute_error_grad)(stream, dguess, dy, guess,
                                                                                         cs_pass_targets(pass));
    }
    cs_op_cast(stream, dx, cs_linear_backward(&self->linear, pass, dguess));
}

static const cs_kind hidden_kind = { "hidden layer", declare, hidden_forward, hidden_backward, NULL };
static const cs_kind output_kind = { "output and loss", declare, output_forward, output_backward, output_predict };

/* ---- the data and the training ---- */

typedef struct {
    const char *config, *inputs, *targets;
    int model, loss;
    int64_t epochs, width;
} settings;

typedef struct {
    array x, y;
    loss_kind loss;
    int64_t outputs;
} data_set;

static data_set open_data(const settings *given)
{
    data_set all = { read_array(given->inputs), read_array(given->targets), (loss_kind)given->loss, 0 };
    bool classes = all.loss == CROSS_ENTROPY;
    if (strcmp(all.x.type, "<f4") != 0)
        refuse(given->inputs, "inputs are float32: x.astype('<f4') makes them so");
    if (given->model == CONVNET && (all.x.height % 4 != 0 || all.x.width % 4 != 0))
        refuse(given->inputs, "a convnet needs images (N, H, W) with H and W divisible by 4");
    if ((strcmp(all.y.type, "<f4") == 0) == classes || (classes && all.y.columns != 1))
        refuse(given->targets, classes
                                   ? "classes are a vector of int32 or int64"
                                   : "targets of mse and mae are float32; those of --loss cross_entropy are classes");
    if (all.x.rows != all.y.rows)
        refuse(given->targets, "it has another number of rows than the inputs, and each sample needs its target");
    all.outputs = classes ? 1 : all.y.columns;
    for (int64_t i = 0; classes && i < all.y.rows; i++) {
        int64_t class = whole_at(&all.y, i);
        if (class < 0 || class > 1000000)
            refuse(given->targets, "a class is not between 0 and 1000000");
        all.outputs = class + 1 > all.outputs ? class + 1 : all.outputs;
    }
    return all;
}

/* Copies the samples with the numbers [from, from + rows) of this rank's share of the epoch to the batch. */
static void fill(const data_set *all, const cs_sampler *sampler, int64_t from, cs_batch *batch)
{
    for (int64_t b = 0; b < batch->inputs.shape[0]; b++) {
        int64_t sample = cs_sampler_at(sampler, (from + b) % cs_sampler_count(sampler));
        float *inputs = (float *)batch->inputs.data + b * all->x.columns;
        memcpy(inputs, all->x.data + sample * all->x.columns * 4, (size_t)all->x.columns * 4);
        if (all->loss == CROSS_ENTROPY)
            ((int32_t *)batch->targets.data)[b] = (int32_t)whole_at(&all->y, sample);
        for (int64_t c = 0; all->loss != CROSS_ENTROPY && c < all->outputs; c++)
            ((float *)batch->targets.data)[b * all->outputs + c] = number_at(&all->y, sample * all->outputs + c);
    }
}

static cs_model *build_model(const data_set *all, model_kind kind, int64_t width)
{
    cs_model *model;
    convnet_sizes sizes = { all->x.height, all->x.width, { 8, 16 }, width };
    CS_MUST(cs_model_new(&model, width));
    if (all->loss == CROSS_ENTROPY)
        cs_model_classifies(model, all->x.columns);
    else
        cs_model_floats(model, all->x.columns, all->outputs);
    if (kind == CONVNET)
        cs_model_add(model, &convnet_kind, "features", &sizes);
    else
        cs_model_add(model, &hidden_kind, "hidden.0", &(layer_sizes){ all->x.columns, width, all->loss });
    cs_model_add(model, &hidden_kind, "hidden.1", &(layer_sizes){ width, width, all->loss });
    cs_model_add(model, &output_kind, "output", &(layer_sizes){ width, all->outputs, all->loss });
    return model;
}

/* Returns a batch whose tensors are in `memory`: first the inputs, then the targets. `memory` has batch_bytes bytes. */
static cs_batch batch_in(const data_set *all, int64_t rows, void *memory)
{
    bool classes = all->loss == CROSS_ENTROPY;
    int64_t columns = classes ? 1 : all->outputs;
    return (cs_batch){ .inputs = cs_matrix(memory, CS_F32, rows, all->x.columns),
                       .targets = cs_matrix((float *)memory + rows * all->x.columns, classes ? CS_I32 : CS_F32, rows,
                                            columns) };
}

static size_t batch_bytes(const data_set *all, int64_t rows)
{
    return (size_t)(rows * (all->x.columns + all->outputs)) * sizeof(float);
}

/* What the loader's threads need to fill batch `index` of the training. */
typedef struct {
    const data_set *all;
    cs_sampler sampler;
    int64_t rows, steps; /* rows of a batch; steps of an epoch */
} epochs_of;

static void fill_ahead(void *argument, int64_t index, void *memory)
{
    const epochs_of *self = argument;
    cs_sampler sampler = self->sampler;
    cs_batch batch = batch_in(self->all, self->rows, memory);
    sampler.epoch = index / self->steps;
    fill(self->all, &sampler, index % self->steps * self->rows, &batch);
}

static void train(cs_engine *engine, const data_set *all, int64_t rows, int64_t epochs)
{
    cs_sampler sampler = { .count = all->x.rows, .rank = cs_lane(engine), .size = cs_lanes(engine), .shuffle = true };
    epochs_of self = { all, sampler, rows, (cs_sampler_count(&sampler) + rows - 1) / rows };
    cs_loader *loader;
    CS_MUST(cs_loader_open(&loader, &(cs_loader_settings){ .fill = fill_ahead,
                                                           .argument = &self,
                                                           .bytes = batch_bytes(all, rows),
                                                           .workers = 2,
                                                           .count = epochs * self.steps }));
    for (int64_t epoch = 0; epoch < epochs; epoch++) {
        for (int64_t step = 0; step < self.steps; step++) {
            cs_batch batch = batch_in(all, rows, cs_loader_next(loader));
            cs_forward(engine, &batch);
            cs_backward(engine);
            cs_step(engine);
        }
        if (cs_rank(engine) == 0)
            printf("epoch %" PRId64 "  loss %.5f\n", epoch, (double)cs_loss(engine));
    }
    cs_loader_close(loader);
}

static int64_t count_hits(const data_set *all, const cs_sampler *sampler, int64_t from, cs_tensor logits)
{
    int64_t hits = 0;
    for (int64_t b = 0; b < cs_rows(logits) && from + b < cs_sampler_count(sampler); b++) {
        int64_t best = 0;
        for (int64_t c = 1; c < all->outputs; c++)
            if (cs_element(logits, b * all->outputs + c) > cs_element(logits, b * all->outputs + best))
                best = c;
        hits += best == whole_at(&all->y, cs_sampler_at(sampler, from + b));
    }
    return hits;
}

/* Prints the share of samples that are predicted correctly. Each sample counts once. The number of correct predictions
 * of all lanes is divided by the number of samples of all lanes. cs_predict is collective, so every rank calls it as
 * often as rank 0, which has the most samples. */
static void print_accuracy(cs_engine *engine, const data_set *all, int64_t rows)
{
    cs_sampler sampler = {
        .count = all->x.rows, .rank = cs_lane(engine), .size = cs_lanes(engine), .end = CS_SAMPLER_EXACT
    };
    cs_sampler first = sampler;
    first.rank = 0;
    int64_t hits = 0, sum = 0;
    void *memory = calloc(1, batch_bytes(all, rows));
    cs_batch batch = batch_in(all, rows, memory);
    if (!memory)
        exit(1);
    for (int64_t from = 0; from < cs_sampler_count(&first); from += rows) {
        cs_tensor logits;
        if (cs_sampler_count(&sampler) > 0)
            fill(all, &sampler, from, &batch);
        CS_MUST(cs_predict(engine, &batch, &logits));
        hits += count_hits(all, &sampler, from, logits);
    }
    char text[32], *texts;
    snprintf(text, sizeof text, "%" PRId64 "\n", hits);
    texts = cs_gather(engine, cs_leads_lane(engine) ? text : "");
    for (char *at = texts; at && *at; at = strchr(at, '\n') + 1)
        sum += strtoll(at, NULL, 10);
    if (cs_rank(engine) == 0)
        printf("accuracy %.4f (%" PRId64 " of %" PRId64 ")\n", (double)sum / (double)all->x.rows, sum, all->x.rows);
    free(texts);
    free(memory);
}

int main(int count, char **argument)
{
    static const cs_option table[] = {
        { CS_OPTION(TEXT, "inputs", settings, inputs, "X.npy", "(N, F) float32, or images (N, H, W)") },
        { CS_OPTION(TEXT, "targets", settings, targets, "Y.npy", "(N, C) float32, or (N) int64 or int32 classes") },
        { CS_OPTION(CHOICE, "model", settings, model, "perceptron|convnet", "the model (perceptron)") },
        { CS_OPTION(CHOICE, "loss", settings, loss, "mse|mae|cross_entropy", "what is minimised (mse)") },
        { CS_OPTION(WHOLE, "epochs", settings, epochs, "N", "passes over the data (10)"), .min = 1, .max = 1e6 },
        { CS_OPTION(WHOLE, "width", settings, width, "N", "of the hidden layers (64)"), .min = 1, .max = 65536 },
        { CS_OPTION(TEXT, "config", settings, config, "FILE", "the configuration (configs/train_npy.json)") },
        { .names = "help h", .kind = CS_OPTION_HELP, .text = "this text" },
    };
    static const cs_options_form form = {
        .usage = "usage: train_npy --inputs X.npy --targets Y.npy [options]\n\n",
        .what = "flag",
        .hint = "try --help",
        CS_OPTIONS_TABLE(table),
    };
    static const char usual[] = "configs/train_npy.json";
    settings given = { .config = usual, .epochs = 10, .width = 64 };
    cs_config *config;
    cs_engine *engine;
    (void)count;
    cs_options_main(&form, &given, argument);
    if (!given.inputs || !given.targets) {
        if (cs_launched_rank() == 0)
            fprintf(stderr, "train_npy: --inputs X.npy and --targets Y.npy are needed; try --help\n");
        return CS_OPTIONS_WRONG;
    }
    data_set all = open_data(&given);
    if (given.config == usual && access(usual, F_OK) != 0)
        cs_must(CS_NOT_FOUND,
                "there is no configs/train_npy.json in this folder: start train_npy in the source tree of "
                "cspeed, or give --config FILE; {\"train_micro_batch_size_per_gpu\": 32} in a file is enough");
    CS_MUST(cs_config_open(&config, given.config));
    CS_MUST(cs_initialize(&engine, config, build_model(&all, (model_kind)given.model, given.width)));
    int64_t rows = cs_config_get_int(config, "train_micro_batch_size_per_gpu");
    train(engine, &all, rows, given.epochs);
    if (all.loss == CROSS_ENTROPY)
        print_accuracy(engine, &all, rows);
    free(all.x.data);
    free(all.y.data);
    cs_destroy(engine);
    return 0;
}
