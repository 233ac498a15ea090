/* test_layout_export.c - checkpoints that layouts of ranks have saved are exported as Hugging Face folders: the model of
 * the folder has the logits that transformers computes, from golden files; with CSPEED_PEER_PYTHON, transformers itself
 * reads what layouts have trained. */
#include "against.h"
#include "near.h"
#include "runs.h"
#include "shell.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 6, STEPS = 2, BATCH = 2, LENGTH = 8, LOGITS = BATCH * LENGTH * RUN_VOCABULARY };

typedef struct {
    int tp, lanes, stage;
    const char *rows; /* an assignment for sequence parallelism */
} layout;

#define SEQUENCE "cspeed.mesh.sequence=true"
#define NO_SEQUENCE "cspeed.mesh.sequence=false"

static const layout layouts[] = {
    { 2, 1, 0, SEQUENCE },
    { 3, 1, 2, NO_SEQUENCE },
    { 2, 2, 3, NO_SEQUENCE },
    { 4, 1, 1, NO_SEQUENCE },
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

typedef struct {
    const char *model; /* an assignment to cspeed.model */
    const layout *at;
    bool trains;   /* false: the run loads the checkpoint of "golden" */
    float *logits; /* after the training, in memory that the ranks and the test share */
} job;

static void predict(cs_engine *engine, float *logits)
{
    int32_t tokens[BATCH * LENGTH];
    cs_tensor output;
    for (int i = 0; i < BATCH * LENGTH; i++)
        tokens[i] = 7 * i % RUN_VOCABULARY; /* as tests/peers/hf_logits.py */
    cs_batch batch = { .inputs = cs_matrix(tokens, CS_I32, BATCH, LENGTH) };
    CS_MUST(cs_predict(engine, &batch, &output));
    if (cs_rank(engine) == 0)
        memcpy(logits, output.data, LOGITS * sizeof *logits);
}

/* Saves in the layout, and exports the checkpoint to the folder "exported". */
static int run(void *argument)
{
    const job *j = argument;
    char tp[32];
    const run_spec spec = { .stage = j->at->stage,
                            .precision = "fp32",
                            .steps = STEPS,
                            .micro = SAMPLES / j->at->lanes,
                            .set = { j->model, tp, j->at->rows } };
    snprintf(tp, sizeof tp, "cspeed.mesh.tp=%d", j->at->tp);
    cs_engine *engine = run_open(&spec, NULL);
    if (!j->trains)
        CS_MUST(cs_load_checkpoint(engine, "golden", "t", NULL, NULL));
    for (int step = 0; j->trains && step < STEPS; step++)
        run_step(engine, &spec);
    CS_MUST(cs_save_checkpoint(engine, "saved", "t", NULL));
    CS_MUST(cs_export(engine, "saved", "t", "exported"));
    if (j->trains)
        predict(engine, j->logits);
    cs_destroy(engine);
    return 0;
}

static void check_model(const char *golden, const char *model)
{
    char text[4096], *config = against_config(golden, model);
    snprintf(text, sizeof text, "cspeed.model=%s", config);
    free(config);
    shell_enter();
    against_save(golden, model, "golden");
    for (int i = 0; i < LAYOUTS; i++) {
        job j = { .model = text, .at = &layouts[i] };
        run_ranks(layouts[i].tp * layouts[i].lanes, run, &j);
        against_folder(golden, model, "exported", 1e-5);
        ck_assert_msg(shell_run("test ! -e first || cmp first/model.safetensors exported/model.safetensors") == 0,
                      "%s: layout %d exports other bytes than layout 0", model, i);
        ck_assert_int_eq(shell_run("rm -r saved; test -e first && rm -r exported || mv exported first"), 0);
    }
    shell_leave();
}

START_TEST(exports_have_the_logits_of_golden_files)
{
    static const char *const families[] = { "neox", "gem2", "gem3", "phi", "olmo", "granite", "star", "falo", "fals" };
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        check_model("families_tiny.golden", families[i]);
    static const char *const newer[] = { "gem1",  "smolw", "olm3", "seedo", "arcee", "intern",
                                         "ernie", "coh2",  "glm4", "huny",  "phi2" };
    for (size_t i = 0; i < sizeof newer / sizeof *newer; i++)
        check_model("families_newer.golden", newer[i]);
    check_model("llama_tiny.golden", "llama");
    check_model("llama_tiny.golden", "qwen3");
    check_model("experts_tiny.golden", "mix");
    check_model("experts_tiny.golden", "qms");
    check_model("experts_tiny.golden", "oss");
}
END_TEST

/* transformers makes a model; a layout trains it; transformers computes the logits of the export. */
static void train_theirs(const char *python, const char *kind, int number)
{

    job j = { .model = "cspeed.model=\"theirs\"",
              .at = &layouts[number % LAYOUTS],
              .trains = true,
              .logits = run_share(LOGITS * sizeof(float)) };
    size_t bytes;
    shell_enter();
    ck_assert_int_eq(shell_run("%s %s/peers/hf_logits.py make %s theirs", python, CS_TESTS, kind), 0);
    run_ranks(j.at->tp * j.at->lanes, run, &j);
    ck_assert_int_eq(shell_run("%s %s/peers/hf_logits.py logits exported theirs.bin", python, CS_TESTS), 0);
    float *theirs = (void *)shell_read("theirs.bin", &bytes);
    ck_assert_uint_eq(bytes, LOGITS * sizeof *theirs);
    ck_assert(near_tensors(kind, cs_vector(j.logits, CS_F32, LOGITS), cs_vector(theirs, CS_F32, LOGITS), 1e-5));
    free(theirs);
    run_unshare(j.logits, LOGITS * sizeof(float));
    shell_leave();
}

START_TEST(transformers_reads_exports)
{
    static const char *const kinds[] = { "gpt2",     "llama3",    "smollm",     "qwen2",    "qwen3",      "mistral",
                                         "pythia",   "neox",      "gemma2",     "gemma3",   "phi3",       "olmo2",
                                         "granite",  "falcon",    "falcon40b",  "falconrw", "starcoder2", "mixtral",
                                         "qwen2moe", "qwen3moe",  "gemma",      "smollm3",  "olmo3",      "seedoss",
                                         "arcee",    "internlm3", "ernie",      "cohere",   "cohere2",    "glm",
                                         "glm4",     "ministral", "ministral3", "hunyuan",  "phi2",       "olmoe",
                                         "gptoss" };
    const char *python = getenv("CSPEED_PEER_PYTHON");
    if (!python)
        printf("skipped: CSPEED_PEER_PYTHON names no Python with transformers\n");
    for (int i = 0; python && i < (int)(sizeof kinds / sizeof *kinds); i++)
        train_theirs(python, kinds[i], i);
}
END_TEST

SUITE_MAIN("layout_export", exports_have_the_logits_of_golden_files, transformers_reads_exports)
