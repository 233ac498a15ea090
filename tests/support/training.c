/* training.c - runs of the program train from a scratch folder, for tests of the programs. */
#include "training.h"

#include "shell.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const config_text =
    "// a byte-level GPT that trains in a second\n"
    "{ \"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 2,\n"
    "  \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 5e-3, \"weight_decay\": 0.1, }, },\n"
    "  \"scheduler\": { \"type\": \"WarmupCosineLR\",\n"
    "    \"params\": { \"warmup_num_steps\": 4, \"total_num_steps\": 24 } },\n"
    "  \"%s\": { \"enabled\": true%s }, \"zero_optimization\": { \"stage\": %d },\n"
    "  \"cspeed\": { \"steps\": 24, \"seed\": 5, \"output\": \"out\", \"save_interval\": 6,\n"
    "    \"eval_interval\": 12, \"eval_batches\": 2,\n"
    "    \"data\": { \"train\": \"data/train-*.bin\", \"valid\": \"data/valid.bin\", \"seq_len\": 32 },\n"
    "    \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 32,\n"
    "               \"n_positions\": 32, \"vocab_size\": 256,\n"
    "               \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1, \"attn_pdrop\": 0.1 } } }\n";

void training_config(const char *precision, const char *more, int stage)
{
    char text[4096];
    snprintf(text, sizeof text, config_text, precision, more, stage);
    shell_write("config.json", text);
}

void training_text(const char *path, int lines)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < lines; i++)
        fprintf(file, "%d green bottles hanging on the wall, and if %d of them should fall\n", i * 37 % 101, i % 7);
    ck_assert_int_eq(fclose(file), 0);
}

void training_prepare(void)
{
    shell_enter();
    training_text("song.txt", 400);
    ck_assert_int_eq(shell_run("%s/pack --output data song.txt", CS_BIN), 0);
}

void training_expect(int code, int got)
{
    if (code != got) {
        char *out = shell_read("out.txt", NULL);
        ck_abort_msg("exit code %d, not %d; it printed:\n%s", got, code, out);
    }
}

int training_says(const char *words)
{
    char *out = shell_read("out.txt", NULL);
    int found = strstr(out, words) != NULL;
    if (!found)
        fprintf(stderr, "--- not said: %s\n%s\n---\n", words, out);
    free(out);
    return found;
}

int training_says_nothing_of(const char *words)
{
    return !shell_says(words);
}

int training_try(int ranks, const char *arguments)
{
    return shell_run("'%s/cspeed' --num_gpus %d --oversubscribe train --config %s", CS_BIN, ranks, arguments);
}

void training_run(int ranks, const char *arguments)
{
    char line[4096];
    snprintf(line, sizeof line, "config.json %s", arguments);
    training_expect(0, training_try(ranks, line));
}

void training_losses(const char *path, double *losses, int count)
{
    char *text = shell_read(path, NULL), *at = text;
    for (int i = 0; i < count; i++) {
        at = strstr(at, "\"loss\": ");
        ck_assert_msg(at != NULL, "%s has %d losses, not %d", path, i, count);
        losses[i] = strtod(at + strlen("\"loss\": "), &at);
    }
    free(text);
}

double training_last_number(const char *path, const char *name)
{
    char *text = shell_read(path, NULL), *at = text, *last = NULL;
    size_t length = strlen(name);
    while ((at = strstr(at, name)))
        last = at += length;
    ck_assert_msg(last != NULL, "%s has no %s", path, name);
    double value = atof(last + 2);
    free(text);
    return value;
}

int training_lines(const char *path)
{
    char *text = shell_read(path, NULL);
    int lines = 0;
    for (char *at = text; *at; at++)
        lines += *at == '\n';
    free(text);
    return lines;
}
