/* bench_generate.c - text generation with GPT-2 124M and random weights. Measures tokens per second while a prompt is
 * read, as a share of the matrix roof; then tokens per second that are generated, for one text and for eight texts
 * together, as a share of the bandwidth of a copy.
 *
 *     bench_generate [--precision bf16|fp32] [--threads N] [--prompt N] [--tokens N]
 *
 * One token reads every weight once, so the roof of one text is the copy's rate divided by the bytes of the weights.
 * The copy's rate counts the bytes that are read and the bytes that are written. The copy is measured both before and
 * after the generation, because other programs that use the memory change the copy's rate. Of every rate and every
 * roof, the greatest value of several rounds counts. */
#include "bench.h"
#include "base/clock.h"
#include "cspeed/cspeed.h"
#include "cspeed/ops.h"
#include "device/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 8, VOCABULARY = 50257, WIDTH = 768, LAYERS = 12, POSITIONS = 1024, COPIED = 32 << 20, ROUNDS = 5 };

static const char *precision = "bf16";
static int threads = 2, prompt = 512, tokens = 64;

typedef struct {
    double copy, products; /* greatest rates: bytes copied in a second, floating-point operations in a second */
} roofs;

static void raise_roofs(roofs *roof, cs_dtype dtype)
{
    cs_device *device;
    CS_MUST(ce_device_open(&device, &(ce_device_settings){ .kind = "cpu", .threads = threads, .local_ranks = 1 }));
    cs_stream *stream = ce_device_stream(device, CE_COMPUTE);
    float *memory = ce_device_alloc(device, 2 * COPIED * sizeof *memory);
    cs_tensor from = cs_vector(memory, CS_F32, COPIED), to = cs_vector(memory + COPIED, CS_F32, COPIED);
    cs_op_fill(stream, from, 1);
    cs_op_fill(stream, to, 1);
    for (int round = 0; round < ROUNDS; round++) {
        double started = ce_clock_seconds();
        cs_op_cast(stream, to, from);
        roof->copy = fmax(roof->copy, 2 * COPIED * sizeof *memory / (ce_clock_seconds() - started));
    }
    roof->products = fmax(roof->products, ce_device_roof(device, dtype));
    ce_device_free(device, memory);
    ce_device_close(device);
}

static cs_engine *open_model(void)
{
    char path[] = "/tmp/cspeed-bench-XXXXXX";
    int handle = mkstemp(path);
    FILE *file = handle < 0 ? NULL : fdopen(handle, "w");
    cs_config *config;
    cs_engine *engine;
    if (!file ||
        fprintf(file,
                "{ \"train_batch_size\": 1, \"bf16\": { \"enabled\": %s }, \"cspeed\": { \"threads\": %d, "
                "\"device\": \"cpu\", \"data\": { \"seq_len\": %d }, \"model\": { \"model_type\": \"gpt2\", "
                "\"vocab_size\": %d } } }",
                strcmp(precision, "bf16") == 0 ? "true" : "false", threads, POSITIONS, VOCABULARY) < 0 ||
        fclose(file) != 0) {
        perror(path);
        exit(1);
    }
    CS_MUST(cs_config_open(&config, path));
    unlink(path);
    CS_MUST(cs_initialize(&engine, config, NULL));
    return engine;
}

/* Generates `texts` texts together and returns the tokens per second of each text. */
static double decode_once(cs_engine *engine, int texts)
{
    cs_context *contexts[BATCH];
    int32_t last[BATCH] = { 0 };
    cs_tensor logits;
    for (int i = 0; i < texts; i++) {
        CS_MUST(cs_context_open(&contexts[i], engine, tokens + 2));
        CS_MUST(cs_context_read(contexts[i], last, 1, &logits));
    }
    CS_MUST(cs_contexts_step(contexts, texts, last, &logits));
    double started = ce_clock_seconds();
    for (int step = 0; step < tokens; step++)
        CS_MUST(cs_contexts_step(contexts, texts, last, &logits));
    double seconds = ce_clock_seconds() - started;
    for (int i = 0; i < texts; i++)
        cs_context_close(contexts[i]);
    return tokens / seconds;
}

static double decode(cs_engine *engine, int texts)
{
    double best = 0;
    for (int round = 0; round < ROUNDS; round++)
        best = fmax(best, decode_once(engine, texts));
    return best;
}

static double read_prompt(cs_engine *engine)
{
    int32_t *text = calloc((size_t)prompt, sizeof *text);
    double best = 0;
    cs_tensor logits;
    for (int i = 0; i < prompt; i++)
        text[i] = i * 31 % VOCABULARY;
    for (int round = 0; round < ROUNDS; round++) {
        cs_context *context;
        CS_MUST(cs_context_open(&context, engine, prompt));
        double started = ce_clock_seconds();
        CS_MUST(cs_context_read(context, text, prompt, &logits));
        double rate = prompt / (ce_clock_seconds() - started);
        best = rate > best ? rate : best;
        cs_context_close(context);
    }
    free(text);
    return best;
}

int main(int argc, char **argv)
{
    const bench_option options[] = { { .name = "--precision", .word = &precision, .choices = "bf16|fp32" },
                                     { .name = "--threads", .number = &threads, .min = 1, .max = 1024 },
                                     { .name = "--prompt", .number = &prompt, .min = 1, .max = POSITIONS },
                                     { .name = "--tokens", .number = &tokens, .min = 1, .max = POSITIONS - 2 },
                                     { .name = NULL } };
    bench_arguments(argc, argv, options);
    cs_dtype dtype = strcmp(precision, "bf16") == 0 ? CS_BF16 : CS_F32;
    roofs roof = { 0 };
    raise_roofs(&roof, dtype);
    cs_engine *engine = open_model();
    /* The embeddings of positions are not counted, because a token reads only one row of them. */
    double parameters = (double)cs_parameter_count(engine) - (double)POSITIONS * WIDTH;
    double bytes = parameters * (double)cs_dtype_bytes(dtype);
    /* the head is computed for the last token only; half of the keys are masked */
    double flops = 2 * (parameters - (double)VOCABULARY * WIDTH) + 2.0 * LAYERS * prompt * WIDTH;
    double read = read_prompt(engine), one = decode(engine, 1), many = decode(engine, BATCH);
    cs_destroy(engine);
    raise_roofs(&roof, dtype);
    roof.products = fmax(roof.products, read * flops);
    printf("gpt2 124M  %s  %d threads  copy %.1f GB/s  products %.0f GFLOP/s\n", precision, threads, roof.copy * 1e-9,
           roof.products * 1e-9);
    printf("prompt of %d     %8.1f tok/s  %3.0f%% of the matrix roof\n", prompt, read,
           100 * read * flops / roof.products);
    printf("one text          %8.1f tok/s  %3.0f%% of the copy's bandwidth\n", one, 100 * one * bytes / roof.copy);
    printf("%d texts together  %8.1f tok/s  %3.0f%% of the copy's bandwidth\n", BATCH, many * BATCH,
           100 * many * bytes / roof.copy);
    return 0;
}
