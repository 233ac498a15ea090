/* bench_step.c - one optimizer step: tokens/s, CPU time, share of the matrix roof, time of each phase, memory.
 *
 *     bench_step [--model gpt2|llama-125m|llama-long] [--rounds N] [--steps N] [--accumulation N] [--vocabulary N]
 *                [--precision fp32|bf16] [--seq 64|256|2048|4096|8192] [--layout 1x2|2x1]
 *                [--stage 0,2,3] [--tp] [--products auto|fixed|native|sgemm|packed|tiles|x6|x3]
 *                [--peer torch|pure|compiled|deepspeed]
 *     bench_step --device cuda [--model NAME] [--rounds N] [--steps N] [--vocabulary N] [--batch N]
 *                [--graphs on|off|both]
 *
 * On the CPU the models are GPT-2 124M (tied head), a Llama of 124.7M (12 layers, 768 wide, 12 heads of queries and
 * 4 of keys, 2048 inside the feed-forward, vocabulary 32000, untied head), and for long sequences a Llama of 123.6M (12
 * heads of keys, vocabulary 50304, tied head). If no option selects workloads, these run: bf16 and fp32, 1 rank x 2
 * threads and 2 ranks x 1 thread, stages 0 and 3, micro-batches of 4 x 256 and 4 x 64; of the long model one sample of
 * 2,048, 4,096 and 8,192 tokens, on one rank. --batch replaces the number of samples. The stages of --stage run in turn
 * in each round, and in opposite order in every second round. The speed of each stage is divided by the speed of the
 * first stage in the same round. With --tp, workloads of 2 ranks also run with tensor parallelism over the ranks,
 * without and with sequence parallelism, as further stages.
 *
 * On a GPU the models of the table below run in bf16 on one rank. The times of the phases are measured in a second run,
 * in which each phase waits for the device. --batch replaces the micro-batch of the table. --graphs sets
 * cspeed.cuda_graphs; `both` runs each workload with and without graphs. A run with graphs needs more than two steps,
 * because a graph is captured in the second step.
 *
 * The roof is the rate that this machine's matrix library reaches in the same run. CPU time is the sum over all ranks
 * in the steps after the first. Peak memory is the greatest resident set of a rank; a page that several ranks share is
 * counted for each of them.
 *
 * If CSPEED_PEER_PYTHON names a Python that has torch, each round also runs a peer on the same work, and ratios are
 * printed with their spread. On a GPU the peer is tests/peers/step_cuda.py. On the CPU it is step_torch.py, at stage 0,
 * with the faster of two allocators (--peer pure: in bf16 with bf16 parameters and without fp32 copies; --peer
 * compiled: also with torch.compile), or deepspeed_cpu.py, at any stage, with the tuned allocator.
 * tests/peers/tp_same.py compares tensor parallelism. */
#include "bench.h"
#include "cspeed/cspeed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MAX_STEPS = 64, MAX_ROUNDS = 16, MAX_RANKS = 2, MAX_STAGES = 6 };

/* The sizes are those of the models' config.json; dropout is off. */
typedef struct {
    const char *name;
    int vocabulary;
    int batch, length; /* samples of a micro-batch on a GPU, and tokens of a sample; 0: the model is for the CPU only */
    int samples;       /* samples of a micro-batch on the CPU; 0: the model is for GPUs only */
    const int *lengths; /* tokens of a sample on the CPU; 0 ends the list */
    const char *json;
} shape;

#define LLAMA(width, layers, heads, keys, inner, tied)                                                                 \
    "\"model_type\": \"llama\", \"hidden_size\": " #width ", \"num_hidden_layers\": " #layers                          \
    ", \"num_attention_heads\": " #heads ", \"num_key_value_heads\": " #keys ", \"intermediate_size\": " #inner        \
    ", \"tie_word_embeddings\": " #tied ", \"rms_norm_eps\": 1e-5, \"rope_theta\": 500000.0, "                         \
    "\"max_position_embeddings\": 8192"

/* `products`: the value of cspeed.products. `peer_program`: the program with which a CPU run is compared. */
static const char *products = "auto", *peer_program = "torch";

static const int short_lengths[] = { 256, 64, 0 }, long_lengths[] = { 2048, 4096, 8192, 0 };

/* --vocabulary replaces the vocabulary of all models. */
static shape models[] = {
    { "gpt2", 50304, 32, 1024, 4, short_lengths,
      "\"model_type\": \"gpt2\", \"resid_pdrop\": 0, \"embd_pdrop\": 0, \"attn_pdrop\": 0" },
    { "gpt2-xl", 50304, 8, 1024, 0, NULL,
      "\"model_type\": \"gpt2\", \"n_embd\": 1600, \"n_layer\": 48, \"n_head\": 25, \"resid_pdrop\": 0, "
      "\"embd_pdrop\": 0, \"attn_pdrop\": 0" },
    { "llama-125m", 32000, 0, 0, 4, short_lengths, LLAMA(768, 12, 12, 4, 2048, false) },
    { "llama-long", 50304, 0, 0, 1, long_lengths, LLAMA(768, 12, 12, 12, 2048, true) },
    { "llama-1b", 128256, 8, 2048, 0, NULL, LLAMA(2048, 16, 32, 8, 8192, true) },
    { "llama-3b", 128256, 4, 2048, 0, NULL, LLAMA(3072, 28, 24, 8, 8192, true) },
    { "llama-8b", 128256, 2, 2048, 0, NULL, LLAMA(4096, 32, 32, 8, 14336, false) },
};

typedef struct {
    const shape *model;
    const char *device, *precision;
    int batch, length, ranks, threads, stage, steps, accumulation;
    int tp;        /* the value of cspeed.mesh.tp */
    bool sequence; /* the value of cspeed.mesh.sequence */
    bool pure;     /* true: bf16 moments and no fp32 masters */
    bool phases;   /* true: each phase waits for the device */
    bool graphs;   /* the value of cspeed.cuda_graphs */
} workload;

typedef struct {
    double seconds[MAX_STEPS];
    cs_phase_seconds phases[MAX_STEPS];
    double peak_share;
    double cpu[MAX_RANKS];  /* CPU seconds of each rank in the steps after the first */
    double peak[MAX_RANKS]; /* peak resident set of each rank, in MB */
    cs_memory memory;
} measurement;

/* The results of one run, of cspeed or of a peer. `rate` is 0 if there was no run. */
typedef struct {
    double rate;    /* tokens per second of the median step */
    double cpu;     /* CPU time of all ranks for each token, in milliseconds */
    double peak_mb; /* greatest resident set of a rank, in MB */
} figures;

typedef struct {
    const workload *work;
    measurement *outcome;
    const char *config;
} order;

static const char *const text =
    "{ \"train_micro_batch_size_per_gpu\": %d, \"gradient_accumulation_steps\": %d, \"gradient_clipping\": 1.0,\n"
    "  \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 3e-4, \"betas\": [0.9, 0.95], \"weight_decay\": 0.1 "
    "} },\n"
    "  \"bf16\": { \"enabled\": %s, \"bf16_master_weights_and_grads\": %s, \"bf16_optimizer_states\": %s },\n"
    "  \"zero_optimization\": { \"stage\": %d }, \"wall_clock_breakdown\": %s, \"steps_per_print\": 1000000,\n"
    "  \"cspeed\": { \"steps\": %d, \"seed\": 1, \"threads\": %d, \"device\": \"%s\", \"cuda_graphs\": %s,\n"
    "    \"products\": \"%s\", \"mesh\": { \"tp\": %d, \"sequence\": %s },\n"
    "    \"data\": { \"seq_len\": %d },\n"
    "    \"model\": { \"vocab_size\": %d, %s } } }\n";

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

/* Returns the number of samples of a micro-batch of one rank. The ranks of a tensor-parallel group have the same. */
static int samples_of(const workload *work)
{
    return work->batch * work->tp / work->ranks;
}

static void write_config(const workload *work, char *path)
{
    strcpy(path, "/tmp/cspeed-bench-XXXXXX");
    int handle = mkstemp(path);
    FILE *file = handle < 0 ? NULL : fdopen(handle, "w");
    if (!file ||
        fprintf(file, text, samples_of(work), work->accumulation, truth(strcmp(work->precision, "bf16") == 0),
                truth(work->pure), truth(work->pure), work->stage, truth(work->phases), work->steps, work->threads,
                work->device, truth(work->graphs), products, work->tp, truth(work->sequence), work->length,
                work->model->vocabulary, work->model->json) < 0 ||
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

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void step(cs_engine *engine, const order *given, const cs_batch *batch, int number)
{
    for (int micro = 0; micro < given->work->accumulation; micro++) {
        cs_forward(engine, batch);
        cs_backward(engine);
        if (number > 0 && micro == 0)
            note(engine, given->outcome, number - 1);
        cs_step(engine);
    }
}

static int run(void *argument)
{
    const order *given = argument;
    const workload *work = given->work;
    cs_config *config;
    cs_engine *engine;
    CS_MUST(cs_config_open(&config, given->config));
    CS_MUST(cs_initialize(&engine, config, NULL));
    int64_t rows = samples_of(work), count = rows * work->length;
    int32_t *tokens = malloc((size_t)count * 2 * sizeof *tokens);
    unsigned short state[3] = { 1, 2, (unsigned short)(cs_rank(engine) / work->tp) };
    cs_batch batch = { .inputs = cs_matrix(tokens, CS_I32, rows, work->length),
                       .targets = cs_matrix(tokens + count, CS_I32, rows, work->length) };
    double began = 0;
    struct rusage usage;
    for (int64_t i = 0; i < 2 * count; i++)
        tokens[i] = (int32_t)(erand48(state) * work->model->vocabulary);
    for (int number = 0; number < work->steps; number++) {
        began = number == 1 ? cpu_seconds() : began;
        step(engine, given, &batch, number);
    }
    note(engine, given->outcome, work->steps - 1);
    given->outcome->cpu[cs_rank(engine)] = cpu_seconds() - began;
    getrusage(RUSAGE_SELF, &usage);
    given->outcome->peak[cs_rank(engine)] = 1024e-6 * (double)usage.ru_maxrss;
    free(tokens);
    cs_destroy(engine);
    return 0;
}

static double median(double *values, int count)
{
    bench_sort(values, count);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static int tokens_of(const workload *work)
{
    return work->batch * work->length * work->accumulation;
}

/* The first step, which warms up, is excluded. */
static figures train(const workload *work, measurement *shared)
{
    char config[64];
    write_config(work, config);
    order given = { work, shared, config };
    memset(shared, 0, sizeof *shared);
    cs_status status = cs_spawn(work->ranks, run, &given);
    unlink(config);
    CS_MUST(status);
    double seconds[MAX_STEPS];
    memcpy(seconds, shared->seconds, sizeof seconds);
    return (figures){ tokens_of(work) / median(seconds + 1, work->steps - 1),
                      1e3 * (shared->cpu[0] + shared->cpu[1]) / (tokens_of(work) * (work->steps - 1)),
                      fmax(shared->peak[0], shared->peak[1]) };
}

static double number_after(const char *line, const char *name)
{
    const char *at = strstr(line, name);
    return at ? atof(at + strlen(name)) : 0;
}

static figures train_peer_with(const workload *work, const char *script, const char *more)
{
    const char *python = getenv("CSPEED_PEER_PYTHON");
    char command[2048], line[1024];
    figures result = { 0 };
    if (!python)
        return result;
    snprintf(command, sizeof command,
             "%s %s/peers/%s --model %s --dtype %s --batch %d --seq %d --steps %d --vocabulary %d %s", python, CS_TESTS,
             script, work->model->name, work->precision, work->batch, work->length, work->steps,
             work->model->vocabulary, more);
    FILE *pipe = popen(command, "r");
    while (pipe && fgets(line, sizeof line, pipe))
        if (strstr(line, "tokens_per_s="))
            result = (figures){ number_after(line, "tokens_per_s="), number_after(line, "cpu_ms_per_token="),
                                number_after(line, "peak_mb=") };
    if (pipe)
        pclose(pipe);
    return result;
}

static figures train_peer_cpu(const workload *work, const char *script, const char *how)
{
    char more[128];
    snprintf(more, sizeof more, "--ranks %d --threads %d --accumulation %d %s", work->ranks, work->threads,
             work->accumulation, how);
    return train_peer_with(work, script, more);
}

/* Returns the figures of the faster of two runs; peak_mb is the smaller of the two peaks. */
static figures better(figures a, figures b)
{
    figures fast = a.rate >= b.rate ? a : b;
    if (a.rate > 0 && b.rate > 0)
        fast.peak_mb = fmin(a.peak_mb, b.peak_mb);
    return fast;
}

/* Returns true if the chosen peer trains this workload. PyTorch has no ZeRO stages on CPUs. */
static bool has_peer(const workload *work)
{
    bool any_stage = strcmp(work->device, "cuda") == 0 || strcmp(peer_program, "deepspeed") == 0;
    return work->tp == 1 && (work->stage == 0 || any_stage);
}

static figures train_peer(const workload *work)
{
    char tuned[64];
    if (!has_peer(work))
        return (figures){ 0 };
    if (strcmp(work->device, "cuda") == 0)
        return train_peer_with(work, "step_cuda.py", work->pure ? "--pure" : "");
    snprintf(tuned, sizeof tuned, "--allocator tuned --stage %d", work->stage);
    if (strcmp(peer_program, "deepspeed") == 0)
        return train_peer_cpu(work, "deepspeed_cpu.py", tuned);
    bool pure = strcmp(peer_program, "pure") == 0 && strcmp(work->precision, "bf16") == 0;
    figures eager =
        better(train_peer_cpu(work, "step_torch.py", pure ? "--pure --allocator default" : "--allocator default"),
               train_peer_cpu(work, "step_torch.py", pure ? "--pure --allocator tuned" : "--allocator tuned"));
    if (strcmp(peer_program, "compiled") != 0)
        return eager;
    return better(eager, train_peer_cpu(work, "step_torch.py", "--allocator tuned --compile"));
}

/* ---- the report ---- */

/* All rounds of one workload. */
typedef struct {
    workload work;
    measurement outcome; /* measured in the last round */
    figures ours[MAX_ROUNDS], theirs[MAX_ROUNDS];
} series;

/* Prints the speed of `a` divided by the speed of `b`: the median and the range over the rounds. The speed is in tokens
 * per second, or, if `by_cpu` is true, in tokens per second of CPU time. */
static void print_ratio(const figures *a, const figures *b, bool by_cpu, int rounds)
{
    double ratio[MAX_ROUNDS];
    for (int i = 0; i < rounds; i++)
        ratio[i] = by_cpu ? b[i].cpu / a[i].cpu : a[i].rate / b[i].rate;
    double middle = median(ratio, rounds);
    printf("%.3f (%.3f - %.3f)", middle, ratio[0], ratio[rounds - 1]);
}

static figures middle_of(const figures *all, int rounds)
{
    double rate[MAX_ROUNDS], cpu[MAX_ROUNDS], peak = 0;
    for (int i = 0; i < rounds; i++) {
        rate[i] = all[i].rate;
        cpu[i] = all[i].cpu;
        peak = fmax(peak, all[i].peak_mb);
    }
    return (figures){ median(rate, rounds), median(cpu, rounds), peak };
}

static void print_peer(const series *s, int rounds)
{
    figures theirs = middle_of(s->theirs, rounds);
    for (int i = 0; i < rounds; i++)
        if (s->theirs[i].rate == 0) {
            printf("%s", getenv("CSPEED_PEER_PYTHON") && has_peer(&s->work) ? "  the peer printed no figures" : "");
            return;
        }
    printf("  peer %7.1f tok/s  %6.3f ms CPU/token  peak %5.0f MB  ratio ", theirs.rate, theirs.cpu, theirs.peak_mb);
    print_ratio(s->ours, s->theirs, false, rounds);
    if (theirs.cpu > 0) {
        printf("  by CPU time ");
        print_ratio(s->ours, s->theirs, true, rounds);
    }
}

static const char *kind_of(const workload *work)
{
    static const char *const stages[] = { "stage 0", "stage 1", "stage 2", "stage 3" };
    return work->sequence ? "tp with sequence" : work->tp > 1 ? "tp" : stages[work->stage];
}

static void report(const series *s, const series *first, int rounds)
{
    const workload *work = &s->work;
    const cs_phase_seconds *p = &s->outcome.phases[work->steps - 1];
    const cs_memory *m = &s->outcome.memory;
    figures ours = middle_of(s->ours, rounds);
    printf("%-10s %-5s %d x %d x %-4d %d x %d  %s  %7.1f tok/s  %6.3f ms CPU/token  peak %5.0f MB  %3.0f%% of roof  "
           "fwd %6.0f  bwd %6.0f (reduce %4.0f)  step %5.0f ms  %5.0f + %4.0f MB",
           work->model->name, work->precision, work->accumulation, work->batch, work->length, work->ranks,
           work->threads, kind_of(work), ours.rate, ours.cpu, ours.peak_mb, 100 * s->outcome.peak_share,
           1e3 * p->forward, 1e3 * p->backward, 1e3 * p->reduce, 1e3 * p->step,
           1e-6 * (double)(m->values + m->gradients + m->masters + m->slots - m->offloaded),
           1e-6 * (double)(m->value_rows + m->gradient_rows + m->activations + m->workspace));
    if (work->graphs)
        printf("  graphs");
    if (s != first) {
        printf("  of %s ", kind_of(&first->work));
        print_ratio(s->ours, first->ours, false, rounds);
    }
    print_peer(s, rounds);
    printf("\n");
    fflush(stdout);
}

typedef struct {
    const char *device, *model, *precision, *layout, *graphs, *stages;
    int length, rounds, steps, batch, accumulation; /* `batch` 0: the micro-batch of the table of models */
    bool tp;
} selection;

static bool chosen(const selection *choice, const workload *work)
{
    char layout[32];
    snprintf(layout, sizeof layout, "%dx%d", work->ranks, work->threads);
    return (!choice->model || strcmp(choice->model, work->model->name) == 0) &&
           (!choice->precision || strcmp(choice->precision, work->precision) == 0) &&
           (!choice->length || choice->length == work->length) &&
           (!choice->layout || strcmp(choice->layout, layout) == 0);
}

static void measure_phases(series *s, measurement *shared)
{
    workload phases = s->work;
    double share = shared->peak_share;
    phases.phases = true;
    train(&phases, shared);
    s->outcome = *shared;
    s->outcome.peak_share = share;
}

static int measured; /* number of workloads that the options chose */

/* Measures the workloads, one for each stage, in turn in each round, and prints the report. */
static void bench(const selection *choice, series *all, int stages, measurement *shared)
{
    if (!chosen(choice, &all->work))
        return;
    measured += stages;
    for (int round = 0; round < choice->rounds; round++)
        for (int at = 0; at < stages; at++) {
            series *s = &all[round % 2 ? stages - 1 - at : at];
            s->ours[round] = train(&s->work, shared);
            s->outcome = *shared;
            s->theirs[round] = train_peer(&s->work);
        }
    for (int at = 0; at < stages; at++) {
        if (strcmp(all->work.device, "cuda") == 0)
            measure_phases(&all[at], shared);
        report(&all[at], all, choice->rounds);
    }
}

static selection read_choice(int argc, char **argv)
{
    selection choice = {
        .device = "cpu", .graphs = "off", .stages = "0,3", .rounds = 1, .steps = 4, .accumulation = 1
    };
    int vocabulary = 0;
    bench_arguments(argc, argv,
                    (const bench_option[]){
                        { "--device", .word = &choice.device, .choices = "cpu|cuda" },
                        { "--model", .word = &choice.model,
                          .choices = "gpt2|gpt2-xl|llama-125m|llama-long|llama-1b|llama-3b|llama-8b" },
                        { "--precision", .word = &choice.precision, .choices = "fp32|bf16" },
                        { "--layout", .word = &choice.layout, .choices = "1x2|2x1" },
                        { "--products", .word = &products, .choices = "auto|fixed|native|sgemm|packed|tiles|x6|x3" },
                        { "--peer", .word = &peer_program, .choices = "torch|pure|compiled|deepspeed" },
                        { "--graphs", .word = &choice.graphs, .choices = "on|off|both" },
                        { "--stage", .word = &choice.stages, .choices = "0|1|2|3|0,1|0,2|0,3|2,3|0,2,3|0,1,2,3" },
                        { "--tp", .given = &choice.tp },
                        { "--vocabulary", .number = &vocabulary, .min = 2, .max = 1 << 24 },
                        { "--seq", .number = &choice.length, .min = 1, .max = 1 << 20 },
                        { "--batch", .number = &choice.batch, .min = 1, .max = 1 << 16 },
                        { "--accumulation", .number = &choice.accumulation, .min = 1, .max = 1 << 10 },
                        { "--steps", .number = &choice.steps, .min = 2, .max = MAX_STEPS },
                        { "--rounds", .number = &choice.rounds, .min = 1, .max = MAX_ROUNDS },
                        { .name = NULL } });
    for (size_t i = 0; vocabulary && i < sizeof models / sizeof *models; i++)
        models[i].vocabulary = vocabulary;
    return choice;
}

static void bench_stages(const selection *choice, workload work, measurement *shared)
{
    static series all[MAX_STAGES];
    int stages = 0;
    for (const char *at = choice->stages; *at; at++)
        if (*at != ',') {
            work.stage = *at - '0';
            all[stages++] = (series){ .work = work };
        }
    work.stage = 0;
    work.tp = work.ranks;
    for (int sequence = 0; sequence < 2 && choice->tp && work.ranks > 1; sequence++) {
        work.sequence = sequence;
        all[stages++] = (series){ .work = work };
    }
    bench(choice, all, stages, shared);
}

/* Measures the workloads of one model, precision and length. All ranks have the same number of samples. */
static void bench_layouts(const selection *choice, const shape *model, const char *precision, int length,
                          measurement *shared)
{
    int samples = choice->batch ? choice->batch : model->samples;
    for (int ranks = 1; ranks <= 2 && samples % ranks == 0; ranks++)
        bench_stages(choice,
                     (workload){ .model = model,
                                 .device = "cpu",
                                 .precision = precision,
                                 .batch = samples,
                                 .length = length,
                                 .ranks = ranks,
                                 .threads = 3 - ranks,
                                 .steps = choice->steps,
                                 .accumulation = choice->accumulation,
                                 .tp = 1 },
                     shared);
}

static void bench_cpu(const selection *choice, measurement *shared)
{
    static const char *const precisions[] = { "fp32", "bf16" };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (int p = 0; p < 2 && models[i].samples; p++)
            for (const int *length = models[i].lengths; *length; length++)
                bench_layouts(choice, &models[i], precisions[p], *length, shared);
}

static void bench_gpu(const selection *choice, measurement *shared)
{
    bool both = strcmp(choice->graphs, "both") == 0, on = strcmp(choice->graphs, "on") == 0;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        workload work = { .model = &models[i],
                          .device = "cuda",
                          .precision = "bf16",
                          .batch = choice->batch ? choice->batch : models[i].batch,
                          .length = models[i].length,
                          .ranks = 1,
                          .threads = 1,
                          .tp = 1,
                          .steps = choice->steps,
                          .accumulation = choice->accumulation,
                          .pure = strcmp(models[i].name, "llama-8b") == 0,
                          .graphs = on };
        if (!models[i].length)
            continue;
        bench(choice, &(series){ .work = work }, 1, shared);
        work.graphs = true;
        if (both)
            bench(choice, &(series){ .work = work }, 1, shared);
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
    bench_must_measure(measured > 0,
                       "the workloads of the device: on CPUs gpt2 and llama-125m in fp32 and bf16, --seq 256 "
                       "and 64, --layout 1x2 and 2x1, and llama-long with --seq 2048, 4096 and 8192, --layout 1x2; "
                       "on a GPU each model in bf16 with its own --seq");
    return 0;
}
