/* test_methods.c - the methods of matrix products on CPUs, and the key cspeed.products. Rank 0 measures the methods,
 * and all ranks use the choice of rank 0. The choice is stored in a cache and in checkpoints. The key can set the
 * method; a method that a CPU lacks is refused. */
#include "shell.h"
#include "suite.h"
#include "training.h"

#include <stdio.h>
#include <sys/stat.h>

/* A model whose products are large enough to be measured. */
static const char *const config_text =
    "{ \"train_micro_batch_size_per_gpu\": 4, \"%s\": { \"enabled\": true },\n"
    "  \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 1e-3 } },\n"
    "  \"cspeed\": { \"steps\": 2, \"seed\": 5, \"output\": \"out\", \"save_interval\": 1, \"eval_interval\": 0,\n"
    "    \"data\": { \"train\": \"data/train-*.bin\", \"seq_len\": 128 },\n"
    "    \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 2, \"n_embd\": 256,\n"
    "               \"n_positions\": 128, \"vocab_size\": 256 } } }\n";

static void prepare(const char *precision)
{
    char text[4096];
    FILE *file;
    shell_enter();
    ck_assert_ptr_nonnull(file = fopen("song.txt", "w"));
    for (int i = 0; i < 400; i++)
        fprintf(file, "%d green bottles hanging on the wall, and if %d of them should fall\n", i * 37 % 101, i % 7);
    fclose(file);
    ck_assert_int_eq(shell_run("%s/pack --output data song.txt", CS_BIN), 0);
    snprintf(text, sizeof text, config_text, precision);
    shell_write("config.json", text);
}

static void says(const char *words)
{
    char *out = shell_read("out.txt", NULL);
    ck_assert_msg(strstr(out, words) != NULL, "not said: %s; it printed:\n%s", words, out);
    free(out);
}

/* Trains with two ranks, each of which first runs `environment`, a shell command. Returns the exit code. */
static int train(const char *environment, const char *arguments)
{
    return shell_run("XDG_CACHE_HOME=$PWD/cache %s/cspeed --num_gpus 2 --oversubscribe run sh -c '%s exec %s/train "
                     "--config config.json %s'",
                     CS_BIN, environment, CS_BIN, arguments);
}

/* Sets `text` to the methods in the manifest of a checkpoint. */
static void recorded(char text[256], const char *tag)
{
    char path[256];
    snprintf(path, sizeof path, "out/%s/manifest.json", tag);
    char *manifest = shell_read(path, NULL), *at = strstr(manifest, "\"products\": \"");
    ck_assert_msg(at != NULL, "%s records no methods", path);
    snprintf(text, 256, "%.*s", (int)strcspn(at + 13, "\""), at + 13);
    free(manifest);
}

static void expect_recorded(const char *tag, const char *want)
{
    char got[256];
    recorded(got, tag);
    ck_assert_str_eq(got, want);
}

/* Returns the percentage in "N % of the roof" in out.txt. The roof is the greatest measured speed of matrix
 * products. */
static int share_of_roof(void)
{
    int share = -1;
    char *out = shell_read("out.txt", NULL), *at = strstr(out, " % of the roof");
    while (at && at > out && at[-1] >= '0' && at[-1] <= '9')
        at--;
    ck_assert_int_eq(at ? sscanf(at, "%d", &share) : 0, 1);
    free(out);
    return share;
}

/* A measurement is stored in the cache only if the speed of the products is at least 65 % of the roof. On a busy
 * machine the speed may be lower; then every start measures again. */
START_TEST(methods_are_measured_once_and_kept)
{
    char first[256], second[256];
    prepare("bf16");
    training_expect(0, train("", "--fresh"));
    says("products: bf16: ");
    says("measured now (cspeed.products)");
    int share = share_of_roof();
    recorded(first, "global_step2");
    training_expect(0, train("", "--fresh"));
    recorded(second, "global_step2");
    if (share > 65) {
        says("measured before (cspeed.products)");
        ck_assert_str_eq(first, second);
    } else if (share < 65)
        says("measured now (cspeed.products)");
    /* The cache cannot be written, so every start measures. */
    ck_assert_int_eq(shell_run("rm -rf cache && touch cache"), 0);
    training_expect(0, train("", "--fresh"));
    says("measured now (cspeed.products)");
    ck_assert(!shell_says("cannot be written"));
    shell_leave();
}
END_TEST

/* A run whose method is set by cspeed.products saves this method in its checkpoint. A run that continues from the
 * checkpoint, without the key, uses the same method. */
static void resume_keeps(const char *precision, const char *method)
{
    char set[128], want[128];
    snprintf(set, sizeof set, "--fresh --set cspeed.products=%s", method);
    snprintf(want, sizeof want, "%s: others %s", precision, method);
    training_expect(0, train("", set));
    ck_assert(!shell_says("products: "));
    expect_recorded("global_step2", want);
    training_expect(0, train("", "--steps 3"));
    if (shell_says("as in the checkpoint"))
        expect_recorded("global_step3", want);
    else
        ck_assert(!shell_says("the checkpoint was made"));
}

START_TEST(a_resume_keeps_the_methods_of_the_checkpoint)
{
    prepare("bf16");
    resume_keeps("bf16", "fixed");
    resume_keeps("bf16", "sgemm");
    training_expect(0, train("", "--steps 4 --set cspeed.products=fixed"));
    says("the checkpoint was made with other methods of products: sgemm for ");
    says("cspeed.products asks for fixed for ");
    expect_recorded("global_step4", "bf16: others fixed");
    shell_leave();
}
END_TEST

static const char no_bf16[] = "export ONEDNN_MAX_CPU_ISA=AVX2;",
                  narrow_1[] = "[ $RANK = 0 ] || export ONEDNN_MAX_CPU_ISA=AVX2;";

/* Returns whether `cspeed report` prints a speed of native bf16 products. */
static bool has_native(void)
{
    training_expect(0, shell_run("%s/cspeed report", CS_BIN));
    char *out = shell_read("out.txt", NULL), *line = strstr(out, "bf16 products");
    ck_assert_ptr_nonnull(line);
    line[strcspn(line, "\n")] = 0;
    bool has = strstr(line, " native ") && !strstr(line, "no native");
    free(out);
    return has;
}

START_TEST(a_method_that_a_cpu_lacks_is_not_used)
{
    prepare("bf16");
    ck_assert_int_ne(0, train(no_bf16, "--fresh --set cspeed.products=native"));
    says(
        "not supported: cspeed.products \"native\", because oneDNN has no products of this type for the CPU of this rank");
    training_expect(0, train(no_bf16, "--fresh"));
    ck_assert(!shell_says("native for"));
    if (!has_native()) {
        printf("native products are not run: this CPU has none in bf16\n");
        shell_leave();
        return;
    }
    ck_assert_int_ne(0, train(narrow_1, "--fresh --set cspeed.products=native"));
    says("not supported: cspeed.products \"native\"");
    training_expect(0, train(narrow_1, "--fresh"));
    says("matrix products are converted to fp32, because the CPU of another rank has no native products of this type");
    ck_assert(!shell_says("native for"));
    training_expect(0, train("", "--fresh --set cspeed.products=native"));
    says("bf16 matrices are multiplied in bf16;");
    training_expect(0, train(no_bf16, "--steps 3"));
    says("the checkpoint was made with methods of products that the CPU of a rank does not have: native for ");
    shell_leave();
}
END_TEST

START_TEST(small_models_and_the_old_name)
{
    char methods[256];
    prepare("fp16");
    training_expect(0, train("", "--fresh --set cspeed.data.seq_len=8"));
    ck_assert(!shell_says("products: "));
    recorded(methods, "global_step2");
    ck_assert_msg(strncmp(methods, "fp16: others ", 13) == 0, "%s", methods);
    ck_assert_int_ne(0, train("", "--fresh --set cspeed.bf16_products=fp32"));
    says("not supported: cspeed.bf16_products, because its name is cspeed.products now");
    shell_leave();
}
END_TEST

SUITE_MAIN("methods", methods_are_measured_once_and_kept, a_resume_keeps_the_methods_of_the_checkpoint,
           a_method_that_a_cpu_lacks_is_not_used, small_models_and_the_old_name)
