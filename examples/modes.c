/* modes.c - the classic ways in which data-parallel replicas share the work of a step, each in some 30 lines:
 *
 *     cspeed --num_gpus 4 modes --mode ddp                 # every rank is a worker; gradients are all-reduced
 *     cspeed --num_gpus 4 modes --mode ps --servers 2      # parameter servers; 2 of the 4 ranks are servers
 *     cspeed --num_gpus 4 modes --mode async --staleness 3 # a server applies each worker's gradient when it arrives
 *     modes --mode dp --threads 4                          # PyTorch's DataParallel: replicas are threads of one process
 *     cspeed --num_gpus 4 modes --compare 8,64,512         # samples per second of each mode, by samples per worker
 *
 * The model is a linear regression with INPUTS weights and the squared error, trained by gradient descent. A step gives
 * the same bits in the modes ddp, ps and dp with the same number of workers, because gradients are always added in the
 * order of a balanced binary tree. In the mode async the order depends on time, and so does the result. */
#include "cspeed/comm.h"
#include "cspeed/options.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { INPUTS = 1024, POOL = 512, MAX_RANKS = 64, MAX_SIZES = 16 };
enum { DDP, PS, ASYNC, DP, MODES };
static const char *const names[MODES] = { "ddp", "ps", "async", "dp" };

typedef struct {
    int mode;
    int64_t samples, steps, servers, staleness, threads;
    double rate;
    const char *compare;
} settings;

typedef struct {
    settings given;
    cs_comm *comm;   /* all ranks */
    cs_comm *team;   /* the workers; on a server a comm without ranks */
    int workers;     /* number of workers: the first ranks, or the threads of the mode dp */
    float *weights;  /* [INPUTS] */
    float *gradient; /* [INPUTS] sum over this worker's samples */
    float loss;      /* sum of this worker's squared errors in the last step */
    /* [workers + servers] bytes that this rank has sent to each other rank, with cs_comm_send and cs_comm_isend */
    int64_t sent[MAX_RANKS];
    int64_t ahead[MAX_RANKS]; /* async, on a server: ahead[k] steps began k steps ahead of the slowest worker */
} training;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- the model ---- */

/* The samples; the targets are a fixed linear function of the values. */
static float values[POOL][INPUTS], targets[POOL];

static void fill(void)
{
    unsigned short state[3] = { 7, 0, 0 };
    for (int s = 0; s < POOL; s++)
        for (int i = 0; i < INPUTS; i++) {
            values[s][i] = (float)erand48(state) - 0.5f;
            targets[s] += values[s][i] * (float)(i % 7 - 3);
        }
}

/* Sums the gradients of `count` samples, beginning with sample number `first`. Returns the sum of the squared errors. */
static float compute(float *gradient, const float *weights, int64_t first, int64_t count)
{
    float loss = 0;
    memset(gradient, 0, INPUTS * sizeof *gradient);
    for (int64_t s = first; s < first + count; s++) {
        const float *x = values[s % POOL];
        float error = -targets[s % POOL];
        for (int i = 0; i < INPUTS; i++)
            error += weights[i] * x[i];
        for (int i = 0; i < INPUTS; i++)
            gradient[i] += error * x[i];
        loss += error * error;
    }
    return loss;
}

/* Moves `count` weights against the sum of the gradients of `samples` samples. */
static void descend(float *weights, const float *gradient, int64_t count, double rate, int64_t samples)
{
    float scale = (float)(rate / (double)samples);
    for (int64_t i = 0; i < count; i++)
        weights[i] -= scale * gradient[i];
}

/* Adds the rows of data[rows][count] into the first row, in the order of a balanced binary tree. */
static void add_rows(float *data, int rows, int64_t count)
{
    for (int width = 1; width < rows; width *= 2)
        for (int row = 0; row + width < rows; row += 2 * width)
            for (int64_t i = 0; i < count; i++)
                data[row * count + i] += data[(row + width) * count + i];
}

/* The worker's samples of one step begin here. */
static int64_t first_sample(const training *t, int64_t step, int worker)
{
    return (step * t->workers + worker) * t->given.samples;
}

/* ---- ddp: all workers add their gradients and make the same update ---- */

static void step_ddp(training *t, int64_t step)
{
    t->loss = compute(t->gradient, t->weights, first_sample(t, step, cs_comm_rank(t->team)), t->given.samples);
    cs_comm_all_reduce(t->team, t->gradient, INPUTS, CS_F32, CS_SUM);
    descend(t->weights, t->gradient, INPUTS, t->given.rate, t->given.samples * t->workers);
}

/* ---- ps: each server has a range of the weights ---- */

/* A server's range of the weights: `*count` weights, beginning with the one whose number is returned. */
static int64_t range(const training *t, int server, int64_t *count)
{
    int64_t first = INPUTS * server / t->given.servers;
    *count = INPUTS * (server + 1) / t->given.servers - first;
    return first;
}

static void send(training *t, const float *data, int64_t count, int to)
{
    t->sent[to] += count * (int64_t)sizeof *data;
    cs_comm_send(t->comm, data, (size_t)count * sizeof *data, to);
}

static void work_ps(training *t, int64_t step)
{
    t->loss = compute(t->gradient, t->weights, first_sample(t, step, cs_comm_rank(t->comm)), t->given.samples);
    for (int server = 0; server < t->given.servers; server++) {
        int64_t count, first = range(t, server, &count);
        send(t, t->gradient + first, count, t->workers + server);
    }
    for (int server = 0; server < t->given.servers; server++) {
        int64_t count, first = range(t, server, &count);
        cs_comm_receive(t->comm, t->weights + first, (size_t)count * sizeof(float), t->workers + server);
    }
}

/* `rows` has room for the gradients of all workers. */
static void serve_ps(training *t, float *rows)
{
    int64_t count, first = range(t, cs_comm_rank(t->comm) - t->workers, &count);
    for (int worker = 0; worker < t->workers; worker++)
        cs_comm_receive(t->comm, rows + worker * count, (size_t)count * sizeof *rows, worker);
    add_rows(rows, t->workers, count);
    descend(t->weights + first, rows, count, t->given.rate, t->given.samples * t->workers);
    for (int worker = 0; worker < t->workers; worker++)
        send(t, t->weights + first, count, worker);
}

/* ---- async: a server applies each gradient when it arrives ----
 *
 * Staleness is bounded as in the stale synchronous parallel model (Ho et al., NIPS 2013): a server counts the steps of
 * each worker, and gives no weights to a worker that would begin a step more than `staleness` steps ahead of the slowest
 * worker. The slowest worker never waits, so workers cannot wait for each other in a circle. */

static void work_async(training *t, int64_t step)
{
    t->loss = compute(t->gradient, t->weights, first_sample(t, step, cs_comm_rank(t->comm)), t->given.samples);
    for (int server = 0; server < t->given.servers; server++) {
        int64_t count, first = range(t, server, &count);
        size_t bytes = (size_t)count * sizeof(float);
        int to = t->workers + server;
        t->sent[to] += (int64_t)bytes;
        cs_work_wait(cs_comm_isend(t->comm, t->gradient + first, bytes, to));
        cs_work_wait(cs_comm_ireceive(t->comm, t->weights + first, bytes, to));
    }
}

static int64_t slowest(const int64_t *done, int workers)
{
    int64_t least = done[0];
    for (int worker = 1; worker < workers; worker++)
        least = done[worker] < least ? done[worker] : least;
    return least;
}

/* Sends the weights to every waiting worker that may begin its next step, and then expects that worker's next gradient
 * unless the worker has done all its steps. */
static void release(training *t, float *rows, cs_work **coming, const int64_t *done, bool *waits)
{
    int64_t count, first = range(t, cs_comm_rank(t->comm) - t->workers, &count), least = slowest(done, t->workers);
    for (int worker = 0; worker < t->workers; worker++) {
        if (!waits[worker] || done[worker] > least + t->given.staleness)
            continue;
        size_t bytes = (size_t)count * sizeof(float);
        waits[worker] = false;
        t->sent[worker] += (int64_t)bytes;
        cs_work_wait(cs_comm_isend(t->comm, t->weights + first, bytes, worker));
        if (done[worker] == t->given.steps)
            continue;
        t->ahead[done[worker] - least]++;
        coming[worker] = cs_comm_ireceive(t->comm, rows + worker * count, bytes, worker);
    }
}

/* Serves the workers until each has done all its steps. */
static void serve_async(training *t, float *rows)
{
    cs_work *coming[MAX_RANKS] = { NULL };
    int64_t done[MAX_RANKS] = { 0 }, count, first = range(t, cs_comm_rank(t->comm) - t->workers, &count);
    bool waits[MAX_RANKS] = { false };
    t->ahead[0] += t->workers; /* the first step of each worker */
    for (int worker = 0; worker < t->workers; worker++)
        coming[worker] = cs_comm_ireceive(t->comm, rows + worker * count, (size_t)count * sizeof *rows, worker);
    while (slowest(done, t->workers) < t->given.steps) {
        for (int worker = 0; worker < t->workers; worker++) {
            if (!coming[worker] || !cs_work_is_done(coming[worker]))
                continue;
            cs_work_wait(coming[worker]);
            coming[worker] = NULL;
            descend(t->weights + first, rows + worker * count, count, t->given.rate, t->given.samples * t->workers);
            done[worker]++;
            waits[worker] = true;
            release(t, rows, coming, done, waits);
        }
        nanosleep(&(struct timespec){ .tv_nsec = 20 * 1000 }, NULL);
    }
}

/* ---- dp: one process, a thread for each replica; the main thread is the master ---- */

typedef struct {
    const training *training;
    int64_t step;
    int replica;
    float weights[INPUTS], *gradient;
    float loss;
} replica;

static void *run_replica(void *argument)
{
    replica *own = argument;
    const training *t = own->training;
    memcpy(own->weights, t->weights, sizeof own->weights);
    own->loss = compute(own->gradient, own->weights, first_sample(t, own->step, own->replica), t->given.samples);
    return NULL;
}

/* As PyTorch does, the master copies the weights to all replicas in every step, and adds their gradients. */
static void step_dp(training *t, int64_t step, float *rows)
{
    static replica replicas[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    float losses[MAX_RANKS] = { 0 };
    for (int i = 0; i < t->workers; i++) {
        replicas[i].training = t;
        replicas[i].step = step;
        replicas[i].replica = i;
        replicas[i].gradient = rows + i * INPUTS;
        if (i > 0 && pthread_create(&threads[i], NULL, run_replica, &replicas[i]) != 0)
            cs_must(CS_NO_MEMORY, "modes: the system makes no more threads; give a smaller --threads");
    }
    run_replica(&replicas[0]);
    for (int i = 0; i < t->workers; i++) {
        if (i > 0)
            pthread_join(threads[i], NULL);
        losses[i] = replicas[i].loss;
    }
    add_rows(losses, t->workers, 1);
    t->loss = losses[0];
    add_rows(rows, t->workers, INPUTS);
    descend(t->weights, rows, INPUTS, t->given.rate, t->given.samples * t->workers);
}

/* ---- a training ---- */

/* Prints the mean squared error of a step over all workers, on rank 0. */
static void report(const training *t, int64_t step)
{
    float loss = t->loss;
    if (t->given.mode != DP)
        cs_comm_all_reduce(t->team, &loss, 1, CS_F32, CS_SUM);
    if (cs_comm_rank(t->comm) == 0)
        printf("step %" PRId64 "/%" PRId64 " | squared error %.9g\n", step + 1, t->given.steps,
               (double)loss / (double)(t->given.samples * t->workers));
}

static void run_steps(training *t, float *rows, bool quiet)
{
    bool works = t->given.mode == DP || cs_comm_rank(t->comm) < t->workers;
    if (t->given.mode == ASYNC && !works) {
        serve_async(t, rows);
        return;
    }
    for (int64_t step = 0; step < t->given.steps; step++) {
        if (t->given.mode == DDP)
            step_ddp(t, step);
        else if (t->given.mode == DP)
            step_dp(t, step, rows);
        else if (!works)
            serve_ps(t, rows);
        else if (t->given.mode == PS)
            work_ps(t, step);
        else
            work_async(t, step);
        if (!quiet && works && (step + 1) % 10 == 0)
            report(t, step);
    }
}

/* Runs a training with new weights and returns its duration in seconds. In the mode dp only rank 0 works. */
static double run(training *t, bool quiet)
{
    int size = cs_comm_size(t->comm), rank = cs_comm_rank(t->comm);
    bool serves = t->given.mode == PS || t->given.mode == ASYNC;
    t->workers = t->given.mode == DP ? (int)t->given.threads : serves ? size - (int)t->given.servers : size;
    CS_MUST(cs_comm_split(&t->team, t->comm, rank < t->workers ? 0 : -1, 0));
    float *rows = calloc((size_t)t->workers * INPUTS, sizeof *rows);
    if (!rows)
        cs_must(CS_NO_MEMORY, "modes: there is no memory for the gradients of all workers");
    memset(t->weights, 0, INPUTS * sizeof *t->weights);
    cs_comm_barrier(t->comm);
    double begun = seconds();
    if (t->given.mode != DP || rank == 0)
        run_steps(t, rows, quiet);
    cs_comm_barrier(t->comm);
    double taken = seconds() - begun;
    free(rows);
    cs_comm_close(t->team);
    return taken;
}

/* ---- what rank 0 prints after a training ---- */

static void print_traffic(training *t)
{
    static int64_t all[MAX_RANKS * MAX_RANKS];
    int size = cs_comm_size(t->comm);
    cs_comm_gather(t->comm, all, t->sent, MAX_RANKS, CS_I64, 0);
    if (cs_comm_rank(t->comm) != 0)
        return;
    printf("bytes sent from (row) to (column); the last %" PRId64 " ranks are servers:\n", t->given.servers);
    for (int from = 0; from < size; from++)
        for (int to = 0; to < size; to++)
            printf("%12" PRId64 "%s", all[from * MAX_RANKS + to], to + 1 < size ? "" : "\n");
}

static void print_ahead(training *t)
{
    cs_comm_broadcast(t->comm, t->ahead, MAX_RANKS, CS_I64, t->workers);
    for (int64_t k = 0; cs_comm_rank(t->comm) == 0 && k <= t->given.staleness; k++)
        printf("steps that began %" PRId64 " steps ahead of the slowest worker: %" PRId64 "\n", k, t->ahead[k]);
}

static void train(training *t)
{
    double taken = run(t, false);
    bool serves = t->given.mode == PS || t->given.mode == ASYNC;
    if (serves)
        print_traffic(t);
    if (t->given.mode == ASYNC)
        print_ahead(t);
    if (cs_comm_rank(t->comm) == 0)
        printf("%s, %d workers: %.0f samples/s\n", names[t->given.mode], t->workers,
               (double)(t->given.samples * t->given.steps * t->workers) / taken);
}

/* Prints a table of samples per second: a row for each mode, a column for each number of samples per worker. */
static void compare(training *t)
{
    int64_t sizes[MAX_SIZES];
    int count = 0;
    for (char *at = (char *)(size_t)t->given.compare; *at; count++) {
        char *end;
        sizes[count < MAX_SIZES ? count : 0] = strtoll(at, &end, 10);
        if (count == MAX_SIZES || end == at || (*end && *end != ',') || sizes[count] < 1)
            cs_must(CS_BAD_CONFIG, "modes: --compare needs at most 16 numbers above 0, such as 8,64,512");
        at = *end ? end + 1 : end;
    }
    bool first = cs_comm_rank(t->comm) == 0;
    if (first)
        printf("samples per second, by samples per worker\n%8s %8s", "mode", "workers");
    for (int i = 0; first && i < count; i++)
        printf("%12" PRId64 "%s", sizes[i], i + 1 < count ? "" : "\n");
    for (t->given.mode = 0; t->given.mode < MODES; t->given.mode++)
        for (int i = 0; i < count; i++) {
            t->given.samples = sizes[i];
            double taken = run(t, true);
            if (first && i == 0)
                printf("%8s %8d", names[t->given.mode], t->workers);
            if (first)
                printf("%12.0f%s", (double)(sizes[i] * t->given.steps * t->workers) / taken, i + 1 < count ? "" : "\n");
        }
}

int main(int count, char **argument)
{
    static const cs_option table[] = {
        { CS_OPTION(CHOICE, "mode", settings, mode, "ddp|ps|async|dp", "how replicas share the work of a step") },
        { CS_OPTION(WHOLE, "samples", settings, samples, "N", "samples of a worker in a step (64)"), .min = 1,
          .max = 1e6 },
        { CS_OPTION(WHOLE, "steps", settings, steps, "N", "steps (100)"), .min = 1, .max = 1e9 },
        { CS_OPTION(NUMBER, "rate", settings, rate, "X", "learning rate (1)") },
        { CS_OPTION(WHOLE, "servers", settings, servers, "N", "ps and async: number of servers (1)"), .min = 1,
          .max = 32 },
        { CS_OPTION(WHOLE, "staleness", settings, staleness, "N",
                    "async: how many steps a worker may be ahead of the slowest worker (0)"),
          .max = MAX_RANKS - 1 },
        { CS_OPTION(WHOLE, "threads", settings, threads, "N", "dp: number of replicas (2)"), .min = 1,
          .max = MAX_RANKS },
        { CS_OPTION(TEXT, "compare", settings, compare, "N,N,...", "measure all modes with these numbers of samples") },
        { .names = "help h", .kind = CS_OPTION_HELP, .text = "this text" },
    };
    static const cs_options_form form = {
        .usage = "usage: modes [options]\n\n", .what = "flag", .hint = "try --help", CS_OPTIONS_TABLE(table)
    };
    training t = { .given = { .samples = 64, .steps = 100, .rate = 1, .servers = 1, .threads = 2 } };
    cs_world world;
    (void)count;
    cs_options_main(&form, &t.given, argument);
    fill();
    CS_MUST(cs_world_read(&world));
    bool serves = t.given.compare || t.given.mode == PS || t.given.mode == ASYNC;
    if (world.size > MAX_RANKS || (serves && t.given.servers >= world.size))
        cs_must(CS_BAD_CONFIG, "modes: start at most 64 ranks, and with servers at least one rank more than --servers, "
                               "such as `cspeed --num_gpus 3 modes --mode ps`");
    CS_MUST(cs_comm_open(&t.comm, &world, &(cs_comm_settings){ .kind = "auto", .nonblocking = true }));
    t.weights = cs_comm_alloc(t.comm, INPUTS * sizeof *t.weights);
    t.gradient = cs_comm_alloc(t.comm, INPUTS * sizeof *t.gradient);
    if (t.given.compare)
        compare(&t);
    else
        train(&t);
    cs_comm_close(t.comm);
    return 0;
}
