/* test_huggingface.c - Hugging Face folders: a model that is exported and loaded again gives the same logits at any
 * world size; tensors that do not belong to the model are refused with a message that names them. With
 * CSPEED_PEER_PYTHON, the logits are compared with those of transformers, for exported and for imported models. */
#include "suite.h"
#include "near.h"
#include "shell.h"
#include "core/engine.h"
#include "interchange/huggingface.h"
#include "checkpoint/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 2, LENGTH = 8, VOCABULARY = 61, LOGITS = BATCH * LENGTH * VOCABULARY };

#define LLAMA                                                                                                          \
    "{\"model_type\": \"llama\", \"vocab_size\": 61, \"hidden_size\": 24, \"intermediate_size\": 40, "                 \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 10, "             \
    "\"max_position_embeddings\": 64, \"tie_word_embeddings\": true, \"initializer_range\": 0.2}"
#define GPT2                                                                                                           \
    "{\"model_type\": \"gpt2\", \"vocab_size\": 61, \"n_embd\": 24, \"n_layer\": 2, \"n_head\": 3, \"n_positions\": "  \
    "64, \"initializer_range\": 0.2, \"resid_pdrop\": 0, \"embd_pdrop\": 0, \"attn_pdrop\": 0}"

#define UNTIED                                                                                                         \
    "{\"model_type\": \"gpt2\", \"vocab_size\": 61, \"n_embd\": 24, \"n_layer\": 2, \"n_head\": 3, \"n_positions\": "  \
    "64, \"initializer_range\": 0.2, \"resid_pdrop\": 0, \"embd_pdrop\": 0, \"attn_pdrop\": 0, "                       \
    "\"tie_word_embeddings\": false}"

/* ---- engines ---- */

static cs_status try_engine(cs_engine **engine, const char *model, int stage)
{
    char text[2048], path[64];
    cs_config *config;
    snprintf(path, sizeof path, "config-%d.json", (int)getpid());
    snprintf(text, sizeof text,
             "{ \"train_micro_batch_size_per_gpu\": 2, \"zero_optimization\": { \"stage\": %d }, \"optimizer\": { "
             "\"type\": \"AdamW\", \"params\": { \"lr\": 1e-2 } }, \"cspeed\": { \"data\": { \"seq_len\": 8 }, "
             "\"threads\": 1, \"model\": %s } }\n",
             stage, model);
    shell_write(path, text);
    CE_TRY(cs_config_open(&config, path));
    unlink(path);
    return cs_initialize(engine, config, NULL);
}

static cs_engine *open_engine(const char *model, int stage)
{
    cs_engine *engine = NULL;
    CS_MUST(try_engine(&engine, model, stage));
    return engine;
}

static cs_batch batch_of(void)
{
    static int32_t inputs[BATCH * LENGTH], targets[BATCH * LENGTH];
    for (int i = 0; i < BATCH * LENGTH; i++) {
        inputs[i] = 7 * i % VOCABULARY;
        targets[i] = 5 * i % VOCABULARY;
    }
    return (cs_batch){ .inputs = cs_matrix(inputs, CS_I32, BATCH, LENGTH),
                       .targets = cs_matrix(targets, CS_I32, BATCH, LENGTH) };
}

static void predict(cs_engine *engine, float *logits)
{
    cs_batch batch = batch_of();
    cs_tensor output;
    CS_MUST(cs_predict(engine, &batch, &output));
    ck_assert_int_eq(cs_count(output), LOGITS);
    memcpy(logits, output.data, LOGITS * sizeof *logits);
}

static void logits_of(const char *model, float *logits)
{
    cs_engine *engine = open_engine(model, 0);
    predict(engine, logits);
    cs_destroy(engine);
}

/* Trains a model for two steps and saves it in the folder "saved". */
static void train_and_save(const char *model, float *logits)
{
    cs_engine *engine = open_engine(model, 0);
    cs_batch batch = batch_of();
    for (int step = 0; step < 2; step++) {
        cs_forward(engine, &batch);
        cs_backward(engine);
        cs_step(engine);
    }
    CS_MUST(cs_save_checkpoint(engine, "saved", NULL, NULL));
    predict(engine, logits);
    cs_destroy(engine);
}

static void same(const float *a, const float *b, const char *what)
{
    ck_assert(near_same_bits(what, cs_vector((void *)(uintptr_t)a, CS_F32, LOGITS),
                             cs_vector((void *)(uintptr_t)b, CS_F32, LOGITS)));
}

static void within(const float *got, const float *want, double bound, const char *what)
{
    ck_assert(near_tensors(what, cs_vector((void *)(uintptr_t)got, CS_F32, LOGITS),
                           cs_vector((void *)(uintptr_t)want, CS_F32, LOGITS), bound));
}

static float first[LOGITS], second[LOGITS];

/* ---- export and import ---- */

static int logits_at_stage_3(void *argument)
{
    cs_engine *engine = open_engine(argument, 3);
    float logits[LOGITS];
    predict(engine, logits);
    FILE *file = cs_rank(engine) == 0 ? fopen("logits.bin", "wb") : NULL;
    if (file && (fwrite(logits, sizeof logits, 1, file) != 1 || fclose(file) != 0))
        return 1;
    cs_destroy(engine);
    return 0;
}

static void exported_model_starts(const char *model)
{
    shell_enter();
    train_and_save(model, first);
    ck_assert_int_eq(shell_run("%s/cspeed export saved whole", CS_BIN), 0);
    ck_assert_int_eq(shell_run("%s/cspeed export saved parts --max_shard 8KB", CS_BIN), 0);
    ck_assert_int_eq(access("whole/model.safetensors", R_OK), 0);
    ck_assert_int_eq(access("parts/model.safetensors.index.json", R_OK), 0);
    logits_of("\"whole\"", second);
    same(first, second, "one file");
    logits_of("\"parts\"", second);
    same(first, second, "shards");
    for (int world = 2; world <= 3; world++) {
        size_t bytes;
        CS_MUST(cs_spawn(world, logits_at_stage_3, "\"parts\""));
        char *text = shell_read("logits.bin", &bytes);
        within((float *)(void *)text, first, 1e-6, "other world sizes");
        free(text);
    }
    ck_assert_int_eq(shell_run("%s/cspeed import parts again --dtype bf16", CS_BIN), 0);
    ck_assert_int_eq(shell_run("%s/cspeed export saved half --dtype bf16", CS_BIN), 0);
    ck_assert_int_eq(shell_run("cmp again/model.safetensors half/model.safetensors"), 0);
    logits_of("\"half\"", second);
    within(second, first, 3e-2, "bf16");
    shell_leave();
}

START_TEST(llama_goes_out_and_in)
{
    exported_model_starts(LLAMA);
}
END_TEST

START_TEST(gpt2_goes_out_and_in)
{
    exported_model_starts(GPT2);
}
END_TEST

/* An export copies the tokenizer files of the folder that the run started from. */
START_TEST(files_beside_the_weights_are_kept)
{
    shell_enter();
    ck_assert_int_eq(shell_run("mkdir start"), 0);
    shell_write("start/config.json", LLAMA);
    shell_write("start/tokenizer.json", "{\"version\": \"1.0\"}");
    train_and_save("\"start\"", first);
    ck_assert_int_eq(shell_run("%s/cspeed export saved/global_step2 out --dtype fp32", CS_BIN), 0);
    ck_assert_int_ne(shell_run("grep -q tokenizer out.txt"), 0);
    ck_assert_int_eq(shell_run("cmp start/tokenizer.json out/tokenizer.json"), 0);
    ck_assert_int_eq(shell_run("grep -q LlamaForCausalLM out/config.json && grep -q float32 out/config.json"), 0);
    ck_assert_int_eq(shell_run("%s/cspeed export saved out", CS_BIN), 64);
    ck_assert_int_eq(shell_run("ls -d out.cspeed*"), 2);
    logits_of("\"out\"", second);
    same(first, second, "beside");
    shell_leave();
}
END_TEST

/* ---- refusals ---- */

static void refused(const char *model, const char *part, cs_status wanted)
{
    cs_engine *engine = NULL;
    cs_status status = try_engine(&engine, model, 0);
    ck_assert_msg(status == wanted && strstr(cs_error(), part), "%d: %s (wanted: %s)", status, cs_error(), part);
}

/* Renames keys in a header to names of the same length. */
static void rename_in(const char *path, const char *from, const char *to)
{
    ck_assert_uint_eq(strlen(from), strlen(to));
    ck_assert_int_eq(shell_run("LC_ALL=C sed -i 's/\"%s\"/\"%s\"/g' %s", from, to, path), 0);
}

START_TEST(other_weights_are_refused_by_name)
{
    shell_enter();
    train_and_save(GPT2, first);
    ck_assert_int_eq(shell_run("%s/cspeed export saved a && cp -r a b && cp -r a c && cp -r a d", CS_BIN), 0);
    rename_in("a/model.safetensors", "transformer.h.1.ln_1.bias", "transformer.h.1.lm_1.bias");
    refused("\"a\"", "transformer.h.1.ln_1.bias", CS_BAD_FILE);
    refused("\"a\"", "1 unexpected (transformer.h.1.lm_1.bias)", CS_BAD_FILE);
    ck_assert_int_eq(shell_run("sed -i 's/\"n_embd\": 24/\"n_embd\": 27/' b/config.json"), 0);
    refused("\"b\"", "transformer.wte.weight is [61, 24] and should be [61, 27]", CS_BAD_FILE);
    rename_in("c/model.safetensors", "F32", "I32");
    refused("\"c\"", "is I32; weights are read as F32, BF16 or F16", CS_UNSUPPORTED);
    ck_assert_int_eq(shell_run("mv d/model.safetensors d/pytorch_model.bin"), 0);
    refused("\"d\"", "save_pretrained", CS_UNSUPPORTED);
    ck_assert_int_eq(shell_run("head -c 999 /dev/zero > d/model.safetensors"), 0);
    refused("\"d\"", "d/model.safetensors", CS_BAD_FILE);
    ck_assert_int_eq(shell_run("mv d/model.safetensors d/consolidated.safetensors"), 0);
    refused("\"d\"", "d/consolidated.safetensors has the tensor names", CS_UNSUPPORTED);
    ck_assert_int_eq(shell_run("%s/cspeed export saved e && echo {} > e/adapter_config.json", CS_BIN), 0);
    refused("\"e\"", "e contains a complete model and an adapter (adapter_config.json),", CS_BAD_CONFIG);
    shell_leave();
}
END_TEST

/* The names of GPT2Model lack the prefix "transformer.", and its files may have attention masks. A model with a tied
 * head may store the token table twice. */
START_TEST(names_of_headless_models_are_completed)
{
    shell_enter();
    train_and_save(GPT2, first);
    ck_assert_int_eq(shell_run("%s/cspeed export saved a", CS_BIN), 0);
    size_t bytes;
    char *text = shell_read("a/model.safetensors", &bytes), *at = text + 8, *found;
    /* Shortens the names in the header, and appends spaces so that the header keeps its length. */
    while ((found = memmem(at, bytes - (size_t)(at - text), "\"transformer.", 13))) {
        memmove(found + 1, found + 13, (size_t)(text + bytes - found - 13));
        uint64_t length;
        memcpy(&length, text, 8);
        memmove(text + 8 + length, text + 8 + length - 12, bytes - 8 - length);
        memset(text + 8 + length - 12, ' ', 12);
        at = found + 1;
    }
    FILE *file = fopen("a/model.safetensors", "wb");
    ck_assert(fwrite(text, 1, bytes, file) == bytes && fclose(file) == 0);
    free(text);
    logits_of("\"a\"", second);
    same(first, second, "without prefix");
    shell_leave();
}
END_TEST

/* A folder whose config.json says that the head is the token table, but whose weights have a head of its own: the head
 * is not tied, as in transformers. */
START_TEST(a_head_of_its_own_is_not_tied)
{
    cs_engine *engine;
    shell_enter();
    train_and_save(UNTIED, first);
    ck_assert_int_eq(shell_run("%s/cspeed export saved a && sed -i 's/\"tie_word_embeddings\": false/"
                               "\"tie_word_embeddings\": true/' a/config.json && grep -q 'embeddings\": true' "
                               "a/config.json",
                               CS_BIN),
                     0);
    logits_of("\"a\"", second);
    same(first, second, "untied");
    CS_MUST(try_engine(&engine, "\"a\"", 0));
    ck_assert(json_is_false(json_object_get(engine->model_json, "tie_word_embeddings")));
    cs_destroy(engine);
    shell_expect(0, "lm_head.weight and transformer.wte.weight of the weights differ", "import a b");
    ck_assert_int_eq(shell_run("grep -q 'tie_word_embeddings\": false' b/config.json"), 0);
    logits_of("\"b\"", second);
    same(first, second, "imported");
    shell_leave();
}
END_TEST

/* Adds a prefix to the names of the first `max` tensors. */
static void wrap_in(const char *path, const char *prefix, int max)
{
    size_t bytes, length = 0;
    uint64_t header;
    char *text = shell_read(path, &bytes), *longer = NULL;
    FILE *out = open_memstream(&longer, &length);
    memcpy(&header, text, 8);
    for (uint64_t i = 0; i < header; i++) {
        fputc(text[8 + i], out);
        if (strncmp(text + 8 + i, "\"transformer.", 13) == 0 && max-- > 0)
            fputs(prefix, out);
    }
    fflush(out);
    uint64_t now = length;
    FILE *file = fopen(path, "wb");
    ck_assert(fwrite(&now, 8, 1, file) == 1 && fwrite(longer, 1, length, file) == length);
    ck_assert(fwrite(text + 8 + header, 1, bytes - 8 - header, file) == bytes - 8 - header && fclose(file) == 0);
    fclose(out);
    free(longer);
    free(text);
}

/* DistributedDataParallel and torch.compile add a prefix to every name. Loading and importing remove this prefix,
 * unless only some names have it: then the file belongs to another model. */
START_TEST(prefixes_of_wrappers_are_left_out)
{
    static const char *const prefixes[] = { "module.", "_orig_mod.", "module._orig_mod." };
    shell_enter();
    train_and_save(GPT2, first);
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        ck_assert_int_eq(shell_run("rm -rf a b; %s/cspeed export saved a", CS_BIN), 0);
        wrap_in("a/model.safetensors", prefixes[i], 1000);
        logits_of("\"a\"", second);
        same(first, second, prefixes[i]);
        ck_assert_int_eq(shell_run("%s/cspeed import a b 2>&1", CS_BIN), 0);
        ck_assert_int_eq(shell_run("%s/cspeed import a c 2>&1 | grep -q 'begin with \"'; rm -rf c", CS_BIN), 0);
        ck_assert_int_eq(shell_run("grep -aq '\"transformer.wte.weight\"' b/model.safetensors"), 0);
    }
    ck_assert_int_eq(shell_run("rm -rf a; %s/cspeed export saved a", CS_BIN), 0);
    wrap_in("a/model.safetensors", "module.", 3);
    refused("\"a\"", "3 unexpected (module.transformer.", CS_BAD_FILE);
    shell_leave();
}
END_TEST

/* ---- experts ---- */

#define MIXTRAL                                                                                                        \
    "{\"model_type\": \"mixtral\", \"vocab_size\": 61, \"hidden_size\": 24, \"intermediate_size\": 40, "               \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"num_local_experts\": 3, "     \
    "\"max_position_embeddings\": 64, \"initializer_range\": 0.2}"

/* A safetensors file that is being written. */
typedef struct {
    json_t *header;
    FILE *data;
    int64_t bytes;
} made_file;

/* Appends the data of `count` tensors to the file and describes them in its header as one tensor `name`. */
static void append(made_file *to, const char *text, const json_t *header, const char *name, json_t *shape,
                   char names[][96], int count)
{
    int64_t begin = to->bytes;
    for (int i = 0; i < count; i++) {
        const json_t *offsets = json_object_get(json_object_get(header, names[i]), "data_offsets");
        int64_t from = json_integer_value(json_array_get(offsets, 0)),
                end = json_integer_value(json_array_get(offsets, 1));
        ck_assert_msg(end > from, "%s", names[i]);
        ck_assert_uint_eq(fwrite(text + from, 1, (size_t)(end - from), to->data), (size_t)(end - from));
        to->bytes += end - from;
    }
    json_object_set_new(to->header, name,
                        json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape, "data_offsets", begin,
                                  to->bytes));
}

/* Appends the experts and the router of a layer of MIXTRAL in the form of transformers 5. If `endless` is true, one
 * tensor of a shape without elements claims a very large number of experts. */
static void append_experts(made_file *to, const char *text, const json_t *header, int layer, bool endless)
{
    char gate_up[6][96], down[3][96], router[1][96], name[96];
    for (int e = 0; e < 3; e++) {
        const char *form = "model.layers.%d.block_sparse_moe.experts.%d.w%d.weight";
        snprintf(gate_up[2 * e], 96, form, layer, e, 1);
        snprintf(gate_up[2 * e + 1], 96, form, layer, e, 3);
        snprintf(down[e], 96, form, layer, e, 2);
    }
    snprintf(router[0], 96, "model.layers.%d.block_sparse_moe.gate.weight", layer);
    snprintf(name, sizeof name, "model.layers.%d.mlp.experts.gate_up_proj", layer);
    append(to, text, header, name, json_pack("[i, i, i]", 3, 80, 24), gate_up, 6);
    snprintf(name, sizeof name, "model.layers.%d.mlp.experts.down_proj", layer);
    append(to, text, header, name,
           endless ? json_pack("[I, i, i]", (json_int_t)1 << 50, 24, 0) : json_pack("[i, i, i]", 3, 24, 40), down,
           endless ? 0 : 3);
    snprintf(name, sizeof name, "model.layers.%d.mlp.gate.weight", layer);
    append(to, text, header, name, json_pack("[i, i]", 3, 24), router, 1);
}

/* Writes the tensors of MIXTRAL again in the form that they have in transformers 5. */
static void unite_experts(const char *path, bool endless)
{
    size_t bytes, used = 0;
    uint64_t length;
    char *text = shell_read(path, &bytes), *data = NULL, own[1][96];
    const char *key;
    json_t *tensor;
    memcpy(&length, text, 8);
    json_t *header = ce_json_strict(text + 8, length);
    made_file to = { .header = json_object(), .data = open_memstream(&data, &used) };
    json_object_foreach (header, key, tensor) {
        snprintf(own[0], sizeof own[0], "%s", key);
        if (strcmp(key, "__metadata__") != 0 && !strstr(key, ".block_sparse_moe."))
            append(&to, text + 8 + length, header, key, json_incref(json_object_get(tensor, "shape")), own, 1);
    }
    for (int layer = 0; layer < 2; layer++)
        append_experts(&to, text + 8 + length, header, layer, endless);
    fclose(to.data);
    char *made = json_dumps(to.header, JSON_COMPACT);
    uint64_t now = strlen(made);
    FILE *file = fopen(path, "wb");
    ck_assert(fwrite(&now, 8, 1, file) == 1 && fwrite(made, 1, now, file) == now);
    ck_assert(fwrite(data, 1, used, file) == used && fclose(file) == 0);
    json_decref(header);
    json_decref(to.header);
    free(made);
    free(data);
    free(text);
}

/* Published weights have separate matrices for each expert. transformers 5 has one tensor for all experts of a
 * layer. */
START_TEST(experts_of_one_tensor_are_read)
{
    shell_enter();
    train_and_save(MIXTRAL, first);
    ck_assert_int_eq(shell_run("%s/cspeed export saved a && grep -aq experts.2.w3 a/model.safetensors", CS_BIN), 0);
    logits_of("\"a\"", second);
    same(first, second, "matrices of each expert");
    ck_assert_int_eq(shell_run("cp -r a c"), 0);
    unite_experts("a/model.safetensors", false);
    ck_assert_int_ne(shell_run("grep -aq experts.2.w3 a/model.safetensors"), 0);
    logits_of("\"a\"", second);
    same(first, second, "one tensor for all experts");
    ck_assert_int_eq(shell_run("%s/cspeed import a b && grep -aq experts.2.w3 b/model.safetensors", CS_BIN), 0);
    logits_of("\"b\"", second);
    same(first, second, "imported");
    unite_experts("c/model.safetensors", true);
    refused("\"c\"", "down_proj", CS_BAD_FILE);
    shell_leave();
}
END_TEST

/* ---- compared with transformers ---- */

static void their_logits(const char *python, const char *folder, float *logits)
{
    size_t bytes;
    ck_assert_int_eq(shell_run("%s %s/peers/hf_logits.py logits %s theirs.bin", python, CS_TESTS, folder), 0);
    char *text = shell_read("theirs.bin", &bytes);
    ck_assert_uint_eq(bytes, LOGITS * sizeof *logits);
    memcpy(logits, text, bytes);
    free(text);
}

static void both_ways(const char *python, const char *kind)
{

    shell_enter();
    ck_assert_int_eq(shell_run("%s %s/peers/hf_logits.py make %s theirs", python, CS_TESTS, kind), 0);
    their_logits(python, "theirs", first);
    logits_of("\"theirs\"", second);
    within(second, first, 1e-5, kind);
    ck_assert_int_eq(shell_run("%s/cspeed import theirs again", CS_BIN), 0);
    ck_assert_int_eq(shell_run("%s %s/peers/hf_logits.py same theirs again", python, CS_TESTS), 0);
    train_and_save("\"theirs\"", first);
    ck_assert_int_eq(shell_run("%s/cspeed export saved ours --dtype fp32 --max_shard 9KB", CS_BIN), 0);
    their_logits(python, "ours", second);
    within(second, first, 1e-5, kind);
    ck_assert_int_eq(shell_run("%s %s/peers/hf_logits.py shards %s parts", python, CS_TESTS, kind), 0);
    their_logits(python, "parts", first);
    logits_of("\"parts\"", second);
    within(second, first, 1e-5, "their shards of bf16");
    shell_leave();
}

/* transformers 5 can save the matrices of all experts of a layer as one tensor. Reading divides this tensor into the
 * matrices of each expert. */
static void fused_experts(const char *python, const char *kind)
{

    shell_enter();
    ck_assert_int_eq(shell_run("%s %s/peers/hf_logits.py make %s theirs", python, CS_TESTS, kind), 0);
    ck_assert_int_eq(shell_run("%s %s/peers/hf_logits.py fused %s fused", python, CS_TESTS, kind), 0);
    ck_assert_int_eq(shell_run("grep -q gate_up_proj fused/model.safetensors"), 0);
    ck_assert_int_eq(shell_run("%s/cspeed import fused again", CS_BIN), 0);
    ck_assert_int_eq(shell_run("%s %s/peers/hf_logits.py same theirs again", python, CS_TESTS), 0);
    shell_leave();
}

START_TEST(transformers_agrees)
{
    static const char *const kinds[] = {
        "gpt2",       "llama",        "llama3",        "mistral",   "qwen2",      "qwen3",     "smollm",   "pythia",
        "neox",       "gemma2",       "gemma3",        "phi3",      "phi4",       "phi4long",  "olmo2",    "granite",
        "starcoder2", "falcon",       "falcon40b",     "falconrw",  "gpt2layers", "mixtral",   "qwen2moe", "qwen3moe",
        "gemma",      "smollm3",      "olmo3",         "seedoss",   "arcee",      "internlm3", "ernie",    "cohere",
        "cohere2",    "glm",          "glm4",          "ministral", "ministral3", "hunyuan",   "phi2",     "olmoe",
        "gptoss",     "gemma3images", "mistral3images"
    };
    static const char *const experts[] = { "mixtral", "qwen2moe", "qwen3moe", "olmoe" };
    const char *python = getenv("CSPEED_PEER_PYTHON");
    if (!python)
        printf("skipped: CSPEED_PEER_PYTHON names no Python with transformers\n");
    for (size_t i = 0; python && i < sizeof kinds / sizeof *kinds; i++)
        both_ways(python, kinds[i]);
    for (size_t i = 0; python && i < sizeof experts / sizeof *experts; i++)
        fused_experts(python, experts[i]);
}
END_TEST

SUITE_MAIN("huggingface", llama_goes_out_and_in, gpt2_goes_out_and_in, files_beside_the_weights_are_kept,
           other_weights_are_refused_by_name, names_of_headless_models_are_completed, a_head_of_its_own_is_not_tied,
           prefixes_of_wrappers_are_left_out, experts_of_one_tensor_are_read, transformers_agrees)
