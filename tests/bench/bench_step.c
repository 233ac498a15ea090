/* bench_step.c - one optimizer step: tokens/s, share of the matrix roof, time of each phase, memory.
 *
 *     bench_step [--rounds N] [--steps N] [--vocabulary N] [--precision fp32|bf16] [--seq 256|64] [--layout 1x2|2x1]
 *                [--stage 0|3] [--products auto|fixed|native|sgemm|packed]
 *     bench_step --device cuda [--model NAME] [--rounds N] [--steps N] [--vocabulary N] [--batch N]
 *                [--graphs on|off|both]
 *
 * On the CPU the model is GPT-2 124M. If no option selects workloads, these run: bf16 and fp32, micro-batches of 4 x
 * 256 and 4 x 64, 1 rank x 2 threads and 2 ranks x 1 thread, stages 0 and 3. On a GPU the models of the table below run
 * in bf16 on one rank. The times of the phases are measured in a second run, in which each phase waits for the device.
 * --batch replaces the micro-batch of the table. --graphs sets cspeed.cuda_graphs; `both` runs each workload with and
 * without graphs. It needs enough steps, because a graph is captured in the second step. The roof is the rate that this
 * machine's matrix library reaches in the same run.
 *
 * If CSPEED_PEER_PYTHON names a Python that has torch, each round also runs tests/peers/gpt2_torch.py or step_cuda.py
 * on the same work, alternately, and the ratio is printed with its spread. */
#include "bench.h"
#include "cspeed/cspeed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_STEPS = 64, MOST_ROUNDS = 16 };

/* The sizes are those of the models' config.json; dropout is off. */
typedef struct {
    const char *name;
    int vocabulary;
    const char *json;
} shape;

#define LLAMA(width, layers, heads, keys, inner, tied)                                                                 \
    "\"model_type\": \"llama\", \"hidden_size\": " #width ", \"num_hidden_layers\": " #layers                          \
    ", \"num_attention_heads\": " #heads ", \"num_key_value_heads\": " #keys ", \"intermediate_size\": " #inner        \
    ", \"tie_word_embeddings\": " #tied ", \"rms_norm_eps\": 1e-5, \"rope_theta\": 500000.0, "                         \
    "\"max_position_embeddings\": 8192"

/* How a CPU multiplies matrices: cspeed.products. */
static const char *products = "auto";

/* The CPU runs only the first one. --vocabulary replaces the vocabulary of all. */
static shape models[] = {
    { "gpt2", 50304, "\"model_type\": \"gpt2\", \"resid_pdrop\": 0, \"embd_pdrop\": 0, \"attn_pdrop\": 0" },
    { "gpt2-xl", 50304,
      "\"model_type\": \"gpt2\", \"n_embd\": 1600, \"n_layer\": 48, \"n_head\": 25, \"resid_pdrop\": 0, "
      "\"embd_pdrop\": 0, \"attn_pdrop\": 0" },
    { "llama-1b", 128256, LLAMA(2048, 16, 32, 8, 8192, true) },
    { "llama-3b", 128256, LLAMA(3072, 28, 24, 8, 8192, true) },
    { "llama-8b", 128256, LLAMA(4096, 32, 32, 8, 14336, false) },
};

typedef struct {
    const shape *model;
    const char *device, *precision;
    int batch, length, ranks, threads, stage, steps;
    bool pure;   /* bf16 moments and no fp32 masters */
    bool phases; /* each waits for the device */
    bool graphs; /* cspeed.cuda_graphs */
} workload;

typedef struct {
    double seconds[MOST_STEPS];
    cs_phase_seconds phases[MOST_STEPS];
    double peak_share;
    cs_memory memory;
} measurement;

typedef struct {
    const workload *work;
    measurement *outcome;
    const char *config;
} order;

static const char *const text =
    "{ \"train_micro_batch_size_per_gpu\": %d, \"gradient_accumulation_steps\": 1, \"gradient_clipping\": 1.0,\n"
    "  \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 3e-4, \"betas\": [0.9, 0.95], \"weight_decay\": 0.1 "
    "} },\n"
    "  \"bf16\": { \"enabled\": %s, \"bf16_master_weights_and_grads\": %s, \"bf16_optimizer_states\": %s },\n"
    "  \"zero_optimization\": { \"stage\": %d }, \"wall_clock_breakdown\": %s, \"steps_per_print\": 1000000,\n"
    "  \"cspeed\": { \"steps\": %d, \"seed\": 1, \"threads\": %d, \"device\": \"%s\", \"cuda_graphs\": %s,\n"
    "    \"products\": \"%s\",\n"
    "    \"data\": { \"seq_len\": %d },\n"
    "    \"model\": { \"vocab_size\": %d, %s } } }\n";

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

static void write_config(const workload *work, char *path)
{
    strcpy(path, "/tmp/cspeed-bench-XXXXXX");
    int handle = mkstemp(path);
    FILE *file = handle < 0 ? NULL : fdopen(handle, "w");
    if (!file ||
        fprintf(file, text, work->batch / work->ranks, truth(strcmp(work->precision, "bf16") == 0), truth(work->pure),
                truth(work->pure), work->stage, truth(work->phases), work->steps, work->threads, work->device,
                truth(work->graphs), products, work->length, work->model->vocabulary, work->model->json) < 0 ||
        fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

/* Called while the next step runs, so that reading the numbers does not make the device wait. */
static void note(cs_engine *engine, measurement *outcome, int step)
{
    if (cs_rank(engine) != 0)
        return;
    cs_metrics m = cs_last_step(engine);
    outcome->seconds[step] = m.step_seconds;
    outcome->phases[step] = cs_phases(engine);
    outcome->peak_share = m.peak_share;
    outcome->memory = cs_memory_of(engine);
}

static int run(void *argument)
{
    const order *given = argument;
    const workload *work = given->work;
    cs_config *config;
    cs_engine *engine;
    CS_MUST(cs_config_open(&config, given->config));
    CS_MUST(cs_initialize(&engine, config, NULL));
    int64_t rows = work->batch / work->ranks, count = rows * work->length;
    int32_t *tokens = malloc((size_t)count * 2 * sizeof *tokens);
    unsigned short state[3] = { 1, 2, (unsigned short)cs_rank(engine) };
    cs_batch batch = { .inputs = cs_matrix(tokens, CS_I32, rows, work->length),
                       .targets = cs_matrix(tokens + count, CS_I32, rows, work->length) };
    for (int64_t i = 0; i < 2 * count; i++)
        tokens[i] = (int32_t)(erand48(state) * work->model->vocabulary);
    for (int step = 0; step < work->steps; step++) {
        cs_forward(engine, &batch);
        cs_backward(engine);
        if (step > 0)
            note(engine, given->outcome, step - 1);
        cs_step(engine);
    }
    note(engine, given->outcome, work->steps - 1);
    free(tokens);
    cs_destroy(engine);
    return 0;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* Returns the tokens per second of the median step. The first step, which warms up, is excluded. */
static double train(const workload *work, measurement *shared)
{
    char config[64];
    write_config(work, config);
    order given = { work, shared, config };
    cs_status status = cs_spawn(work->ranks, run, &given);
    unlink(config);
    CS_MUST(status);
    double seconds[MOST_STEPS];
    memcpy(seconds, shared->seconds, sizeof seconds);
    return work->batch * work->length / median(seconds + 1, work->steps - 1);
}

/* Returns the tokens per second that PyTorch reaches; 0: it is not available. */
static double train_peer_with(const workload *work, const char *script, const char *more)
{
    const char *python = getenv("CSPEED_PEER_PYTHON");
    char command[2048], line[1024];
    double rate = 0;
    if (!python)
        return 0;
    snprintf(command, sizeof command,
             "%s %s/peers/%s --model %s --dtype %s --batch %d --seq %d --steps %d --vocabulary %d "
             "%s",
             python, CS_TESTS, script, work->model->name, work->precision, work->batch, work->length, work->steps,
             work->model->vocabulary, more);
    FILE *pipe = popen(command, "r");
    while (pipe && fgets(line, sizeof line, pipe)) {
        const char *at = strstr(line, "tokens_per_s=");
        rate = at ? fmax(rate, atof(at + 13)) : rate;
    }
    if (pipe)
        pclose(pipe);
    return rate;
}

static double train_peer_cpu(const workload *work, const char *allocator)
{
    char more[128];
    snprintf(more, sizeof more, "--ranks %d --threads %d --allocator %s", work->ranks, work->threads, allocator);
    return train_peer_with(work, "gpt2_torch.py", more);
}

static double train_peer(const workload *work)
{
    if (strcmp(work->device, "cuda") == 0)
        return train_peer_with(work, "step_cuda.py", work->pure ? "--pure" : "");
    return fmax(train_peer_cpu(work, "default"), train_peer_cpu(work, "tuned"));
}

static void report(const workload *work, const measurement *o, double *ours, double *theirs, int rounds)
{
    const cs_phase_seconds *p = &o->phases[work->steps - 1];
    const cs_memory *m = &o->memory;
    double ratio[MOST_ROUNDS];
    for (int i = 0; i < rounds; i++)
        ratio[i] = theirs[i] > 0 ? ours[i] / theirs[i] : 0;
    double torch = theirs[0];
    printf("%-8s %-5s %d x %-4d %d x %d  stage %d  %7.1f tok/s  %3.0f%% of roof  fwd %6.0f  bwd %6.0f  step %5.0f ms  "
           "%5.0f "
           "+ %4.0f MB",
           work->model->name, work->precision, work->batch, work->length, work->ranks, work->threads, work->stage,
           median(ours, rounds), 100 * o->peak_share, 1e3 * p->forward, 1e3 * p->backward, 1e3 * p->step,
           1e-6 * (double)(m->values + m->gradients + m->masters + m->slots),
           1e-6 * (double)(m->value_rows + m->gradient_rows + m->activations + m->workspace));
    if (work->graphs)
        printf("  graphs");
    if (torch > 0) {
        double middle = median(ratio, rounds);
        printf("  torch %7.1f tok/s  ratio %.2f (%.2f - %.2f)", median(theirs, rounds), middle, ratio[0],
               ratio[rounds - 1]);
    }
    printf("\n");
    fflush(stdout);
}

typedef struct {
    const char *device, *model, *precision, *layout, *graphs;
    int length, stage, rounds, steps, batch; /* batch 0: the table's */
} selection;

static bool chosen(const selection *choice, const workload *work)
{
    char layout[32];
    snprintf(layout, sizeof layout, "%dx%d", work->ranks, work->threads);
    return (!choice->model || strcmp(choice->model, work->model->name) == 0) &&
           (!choice->precision || strcmp(choice->precision, work->precision) == 0) &&
           (!choice->length || choice->length == work->length) &&
           (!choice->layout || strcmp(choice->layout, layout) == 0) &&
           (choice->stage < 0 || choice->stage == work->stage);
}

static void bench(const selection *choice, const workload *work, measurement *shared)
{
    double ours[MOST_ROUNDS], theirs[MOST_ROUNDS];
    if (!chosen(choice, work))
        return;
    for (int round = 0; round < choice->rounds; round++) {
        ours[round] = train(work, shared);
        theirs[round] = work->stage == 0 ? train_peer(work) : 0;
    }
    if (strcmp(work->device, "cuda") == 0) {
        workload phases = *work;
        double share = shared->peak_share;
        phases.phases = true;
        train(&phases, shared);
        shared->peak_share = share;
    }
    report(work, shared, ours, theirs, choice->rounds);
}

static selection read_choice(int argc, char **argv)
{
    selection choice = { .device = "cpu", .graphs = "off", .stage = -1, .rounds = 1, .steps = 4 };
    int vocabulary = 0;
    bench_arguments(argc, argv,
                    (const bench_option[]){
                        { "--device", .word = &choice.device, .choices = "cpu|cuda" },
                        { "--model", .word = &choice.model, .choices = "gpt2|gpt2-xl|llama-1b|llama-3b|llama-8b" },
                        { "--precision", .word = &choice.precision, .choices = "fp32|bf16" },
                        { "--layout", .word = &choice.layout, .choices = "1x2|2x1" },
                        { "--products", .word = &products, .choices = "auto|fixed|native|sgemm|packed" },
                        { "--graphs", .word = &choice.graphs, .choices = "on|off|both" },
                        { "--vocabulary", .number = &vocabulary, .min = 2, .max = 1 << 24 },
                        { "--seq", .number = &choice.length, .min = 1, .max = 1 << 20 },
                        { "--batch", .number = &choice.batch, .min = 1, .max = 1 << 16 },
                        { "--stage", .number = &choice.stage, .min = 0, .max = 3 },
                        { "--steps", .number = &choice.steps, .min = 2, .max = MOST_STEPS },
                        { "--rounds", .number = &choice.rounds, .min = 1, .max = MOST_ROUNDS },
                        { .name = NULL } });
    for (size_t i = 0; vocabulary && i < sizeof models / sizeof *models; i++)
        models[i].vocabulary = vocabulary;
    return choice;
}

static void bench_cpu(const selection *choice, measurement *shared)
{
    static const char *const precisions[] = { "fp32", "bf16" };
    static const int lengths[] = { 256, 64 }, stages[] = { 0, 3 };
    for (int p = 0; p < 2; p++)
        for (int l = 0; l < 2; l++)
            for (int ranks = 1; ranks <= 2; ranks++)
                for (int s = 0; s < 2; s++)
                    bench(choice,
                          &(workload){ &models[0], "cpu", precisions[p], 4, lengths[l], ranks, 3 - ranks, stages[s],
                                       choice->steps, false, false, false },
                          shared);
}

static void bench_gpu(const selection *choice, measurement *shared)
{
    static const int batches[] = { 32, 8, 8, 4, 2 }, lengths[] = { 1024, 1024, 2048, 2048, 2048 };
    bool both = strcmp(choice->graphs, "both") == 0, on = strcmp(choice->graphs, "on") == 0;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        workload work = {
            &models[i], "cuda", "bf16",        choice->batch ? choice->batch : batches[i], lengths[i], 1,
            1,          0,      choice->steps, strcmp(models[i].name, "llama-8b") == 0,    false,      on
        };
        bench(choice, &work, shared);
        work.graphs = true;
        if (both)
            bench(choice, &work, shared);
    }
}

int main(int argc, char **argv)
{
    selection choice = read_choice(argc, argv);
    measurement *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    printf("ranks x threads; median of %d steps after the first, %d round%s\n", choice.steps - 1, choice.rounds,
           choice.rounds > 1 ? "s" : "");
    if (strcmp(choice.device, "cuda") == 0)
        bench_gpu(&choice, shared);
    else
        bench_cpu(&choice, shared);
    munmap(shared, sizeof *shared);
    return 0;
}
