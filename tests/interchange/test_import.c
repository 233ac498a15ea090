/* test_import.c - cspeed import: every element of an imported folder is checked. If the weights in a folder are not
 * those of the model in config.json, the message names the differing tensors, and no output remains. */
#include "shell.h"
#include "suite.h"

#include "base/must.h"
#include "interchange/huggingface.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Checks that neither the target folder nor a temporary folder exists. */
static void nothing_is_left(const char *out)
{
    ck_assert_int_ne(shell_run("ls -d %s*", out), 0);
}

/* ---- folders ---- */

#define CONFIG_KEYS                                                                                                    \
    "\"model_type\": \"gpt2\", \"vocab_size\": 5, \"n_positions\": 6, \"n_embd\": 4, \"n_layer\": 2, \"n_head\": 2"
#define CONFIG "{" CONFIG_KEYS "}"

enum { LAYERS = 2, WIDTH = 4 };

/* The parameters of a GPT-2. */
static const struct {
    const char *name; /* '#' stands for the layer's number; each layer has such a parameter */
    int rows, columns;
} sorts[] = {
    { "transformer.wte.weight", 5, WIDTH },
    { "transformer.wpe.weight", 6, WIDTH },
    { "transformer.h.#.ln_1.weight", WIDTH, 0 },
    { "transformer.h.#.ln_1.bias", WIDTH, 0 },
    { "transformer.h.#.attn.c_attn.weight", WIDTH, 3 * WIDTH },
    { "transformer.h.#.attn.c_attn.bias", 3 * WIDTH, 0 },
    { "transformer.h.#.attn.c_proj.weight", WIDTH, WIDTH },
    { "transformer.h.#.attn.c_proj.bias", WIDTH, 0 },
    { "transformer.h.#.ln_2.weight", WIDTH, 0 },
    { "transformer.h.#.ln_2.bias", WIDTH, 0 },
    { "transformer.h.#.mlp.c_fc.weight", WIDTH, 4 * WIDTH },
    { "transformer.h.#.mlp.c_fc.bias", 4 * WIDTH, 0 },
    { "transformer.h.#.mlp.c_proj.weight", 4 * WIDTH, WIDTH },
    { "transformer.h.#.mlp.c_proj.bias", WIDTH, 0 },
    { "transformer.ln_f.weight", WIDTH, 0 },
    { "transformer.ln_f.bias", WIDTH, 0 },
};
enum { SORTS = sizeof sorts / sizeof *sorts };

static int layers_of(int sort)
{
    return strchr(sorts[sort].name, '#') ? LAYERS : 1;
}

static int elements_of(int sort)
{
    return sorts[sort].rows * (sorts[sort].columns ? sorts[sort].columns : 1);
}

static const char *name_of(int sort, int layer)
{
    static char name[128];
    const char *hole = strchr(sorts[sort].name, '#');
    snprintf(name, sizeof name, "%s", sorts[sort].name);
    if (hole)
        snprintf(name, sizeof name, "%.*s%d%s", (int)(hole - sorts[sort].name), sorts[sort].name, layer, hole + 1);
    return name;
}

/* Returns a value that is exact in bf16, whose significand has eight bits. */
static float value_of(int sort, int layer, int element)
{
    return (float)((sort * 31 + layer * 53 + element * 7) % 251) - 125;
}

/* Makes a folder with the model's config.json and model.safetensors. */
static void write_folder(const char *folder)
{
    char path[64];
    json_t *head = json_object();
    int64_t at = 0;
    ck_assert_int_eq(shell_run("mkdir %s", folder), 0);
    snprintf(path, sizeof path, "%s/config.json", folder);
    shell_write(path, CONFIG);
    for (int i = 0; i < SORTS; i++)
        for (int layer = 0; layer < layers_of(i); layer++) {
            json_t *shape = json_pack("[i]", sorts[i].rows);
            int64_t end = at + 4 * elements_of(i);
            if (sorts[i].columns)
                json_array_append_new(shape, json_integer(sorts[i].columns));
            json_object_set_new(head, name_of(i, layer),
                                json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape, "data_offsets",
                                          (json_int_t)at, (json_int_t)end));
            at = end;
        }
    char *text = json_dumps(head, JSON_COMPACT);
    uint64_t bytes = strlen(text);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    FILE *file = fopen(path, "wb");
    ck_assert(fwrite(&bytes, sizeof bytes, 1, file) == 1 && fwrite(text, bytes, 1, file) == 1);
    for (int i = 0; i < SORTS; i++)
        for (int layer = 0; layer < layers_of(i); layer++)
            for (int element = 0; element < elements_of(i); element++)
                ck_assert_uint_eq(fwrite(&(float){ value_of(i, layer, element) }, 4, 1, file), 1);
    ck_assert_int_eq(fclose(file), 0);
    json_decref(head);
    free(text);
}

static void check_tensor(ce_source *source, int sort, int layer)
{
    const char *name = name_of(sort, layer);
    int64_t at = ce_source_find(source, name);
    float values[128];
    ck_assert_msg(at >= 0, "no %s", name);
    const ce_source_tensor *t = &source->tensors[at];
    ck_assert(t->dims == (sorts[sort].columns ? 2 : 1) && t->shape[0] == sorts[sort].rows);
    CS_MUST(source->read(source, at, (ce_range){ 0, elements_of(sort) }, values, CS_F32));
    for (int i = 0; i < elements_of(sort); i++)
        ck_assert_msg(values[i] == value_of(sort, layer, i), "%s[%d] is %g", name, i, (double)values[i]);
}

static void check_folder(const char *folder, cs_dtype dtype)
{
    ce_source source;
    CS_MUST(ce_huggingface_open(&source, folder));
    ck_assert_int_eq(source.count, 4 + 12 * LAYERS);
    ck_assert_int_eq(source.tensors[0].dtype, dtype);
    for (int i = 0; i < SORTS; i++)
        for (int layer = 0; layer < layers_of(i); layer++)
            check_tensor(&source, i, layer);
    ce_source_close(&source);
}

START_TEST(weights_get_another_type_or_division)
{
    shell_enter();
    write_folder("single");
    shell_expect(0, "28 tensors", "import single half --dtype bf16");
    shell_expect(0, "28 tensors", "import half wide --dtype fp32 --max_shard 1KB");
    check_folder("half", CS_BF16);
    check_folder("wide", CS_F32);
    json_t *config = json_load_file("half/config.json", 0, NULL);
    ck_assert_int_eq(json_integer_value(json_object_get(config, "n_positions")), 6);
    ck_assert_str_eq(json_string_value(json_object_get(config, "torch_dtype")), "bfloat16");
    json_decref(config);
    shell_expect(66, "nothing: no such file or folder; name a Hugging Face folder", "import nothing model");
    ck_assert_int_eq(shell_run("mkdir ours && echo global_step1 > ours/latest"), 0);
    shell_expect(66, "`cspeed export ours OUT`", "import ours model");
    shell_expect(64, "name what to read", "import single");
    shell_expect(66, "single/config.json", "import single/config.json model");
    nothing_is_left("model");
    shell_leave();
}
END_TEST

/* One message reports all differences, and nothing is written. */
START_TEST(weights_must_be_those_of_the_config)
{
    static const struct {
        const char *change; /* a sed expression that changes header or config to a text of the same length */
        int code;
        const char *words[3];
    } rows[] = {
        { "s/h.1.ln_1.bias/h.1.lm_1.bias/ model.safetensors",
          65,
          { "1 missing (transformer.h.1.ln_1.bias)", "1 unexpected (transformer.h.1.lm_1.bias)", "0 of another" } },
        { "s/\"n_layer\": 2/\"n_layer\": 3/ config.json",
          65,
          { "12 missing (transformer.h.2.ln_1.weight, ", "0 unexpected ()", "0 of another shape ()" } },
        { "s/\"n_layer\": 2/\"n_layer\": 1/ config.json",
          65,
          { "0 missing ()", "12 unexpected (transformer.h.1.ln_1.weight", "0 of another shape ()" } },
        { "s/\"vocab_size\": 5/\"vocab_size\": 8/ config.json",
          65,
          { "0 missing", "1 of another shape (transformer.wte.weight is [5, 4] and should be [8, 4])", "" } },
        { "s/\"n_embd\": 4/\"n_embd\": 6/ config.json",
          65,
          { "0 missing ()", "28 of another shape (", "transformer.wpe.weight is [6, 4] and should be [6, 6]" } },
        { "s/\"n_positions\"/\"n_positionz\"/ config.json",
          78,
          { "n_positionz", "n_positions", "--lenient ignores it" } },
        { "s/\"gpt2\"/\"bert\"/ config.json", 78, { "model_type \"bert\"", "qwen3", "" } },
        { "s/\"F32\"/\"I32\"/ model.safetensors", 78, { "is I32; weights are read as F32, BF16 or F16", "", "" } },
    };
    shell_enter();
    write_folder("right");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *file = strrchr(rows[i].change, ' ') + 1;
        ck_assert_int_eq(shell_run("rm -rf wrong && cp -r right wrong && LC_ALL=C sed -i '%.*s' wrong/%s",
                                   (int)(file - 1 - rows[i].change), rows[i].change, file),
                         0);
        for (int word = 0; word < 3; word++)
            shell_expect(rows[i].code, rows[i].words[word], "import wrong new");
        nothing_is_left("new");
    }
    shell_expect(0, "28 tensors", "import right new --dtype bf16");
    shell_expect(64, "new exists already:", "import right new");
    shell_leave();
}
END_TEST

/* A table and a tied head are one tensor. safetensors' save_model saves this tensor under one name only, the table's or
 * the head's. */
START_TEST(a_tied_head_is_the_table)
{
    shell_enter();
    write_folder("right");
    ck_assert_int_eq(
        shell_run("cp -r right alone && LC_ALL=C sed -i 's/\"transformer.wte.weight\":/\"lm_head.weight\"        :/'"
                  " alone/model.safetensors"),
        0);
    shell_expect(0, "28 tensors", "import alone new");
    check_folder("new", CS_F32);
    shell_write("alone/config.json", "{\"tie_word_embeddings\": false, " CONFIG_KEYS "}");
    shell_expect(65, "1 missing (transformer.wte.weight)", "import alone untied");
    nothing_is_left("untied");
    shell_leave();
}
END_TEST

/* A shard of the index is missing, a shard was cut, or the index names a shard in another folder. */
START_TEST(shards_must_be_there)
{
    shell_enter();
    write_folder("one");
    shell_expect(0, "28 tensors", "import one right --max_shard 1KB");
    ck_assert_int_eq(shell_run("cp -r right wrong && rm wrong/model-00002*"), 0);
    shell_expect(66, "model-00002-of-", "import wrong new");
    ck_assert_int_eq(shell_run("rm -r wrong && cp -r right wrong && truncate -s -1 wrong/model-00003*"), 0);
    shell_expect(65, "the file was truncated", "import wrong new");
    ck_assert_int_eq(shell_run("sed -i 's/\"model-00001/\"..\\/model-00001/' wrong/model.safetensors.index.json"), 0);
    shell_expect(65, "must name a .safetensors file in the same folder", "import wrong new");
    nothing_is_left("new");
    shell_leave();
}
END_TEST

/* The only set of weights of a folder is read, whatever its name is. Weights that are not read are refused by name. */
START_TEST(weights_of_other_names_are_read_or_refused)
{
    static const struct {
        const char
            *make; /* makes the folder "a", which has a config.json, from "one" or from "six", which has six shards */
        int code;
        const char *words;
    } rows[] = {
        { "cp six/model-0* a", 0,
          "a has neither model.safetensors nor an index: a/model-00001-of-00006.safetensors is" },
        { "cp one/model.safetensors a/model-00001-of-00001.safetensors", 0,
          "model-00001-of-00001.safetensors is read" },
        { "cp one/model.safetensors a/model.fp16.safetensors", 0, "a/model.fp16.safetensors is read" },
        { "cp one/model.safetensors a && touch a/pytorch_model.bin a/optimizer.pt a/model.gguf a/README.md", 0,
          "a: these files are not read: model.gguf, optimizer.pt, pytorch_model.bin" },
        { "cp six/model* one/model.safetensors a", 0, "not read: model-00001-of-00006.safetensors, model-00002-of-" },
        { "cp six/model-0* a && rm a/model-00003*", 65,
          "a contains only 5 of 6 shards, and model-00003-of-00006.safetensors is" },
        { "cp six/model-0* a && rm a/model-00006*", 65,
          "a contains only 5 of 6 shards, and model-00006-of-00006.safetensors is" },
        { "cp six/model-0* a && cp a/model-00001* a/model-00002-of-00006.safetensors", 65, "is in a/model-00001-of-0" },
        { "cp six/model-0* a && cp one/model.safetensors a/model.fp16.safetensors", 78,
          "several sets of weights and no model.safetensors (model-00001-of-00006.safetensors, model.fp16.safetensors)" },
        { "cp one/model.safetensors a/consolidated.safetensors", 78, "has the tensor names of Mistral's own programs" },
        { "cp one/model.safetensors a/adapter_model.safetensors", 78,
          "a/adapter_model.safetensors as a model, because" },
        { "touch a/adapter_model.bin", 78, "give --adapter a" },
        { "touch a/model.safetensors.incomplete", 65,
          "a/model.safetensors.incomplete is an incomplete download or copy, so a has no weights" },
        { "mkdir -p a/.cache/huggingface/download && touch a/.cache/huggingface/download/x.incomplete", 65,
          "so a has no weights that can be read: repeat it; `hf download MODEL --local-dir a` continues" },
        { "touch a/.model.safetensors.a8Xz3q", 65, "a/.model.safetensors.a8Xz3q is an incomplete download or copy," },
        { "cp one/model.safetensors a/._model.safetensors", 78, "a/._model.safetensors: weights are read from model." },
        { "cp six/model-0* a && for f in six/model-0*; do cp pointer a/._${f#six/}; done", 0,
          "not read: ._model-00001-of-00006.safetensors" },
        { "cp one/model.safetensors a/weights-of-it", 78, "a/weights-of-it is a file of safetensors whose name does" },
        { "ln -s ../one/model.safetensors a/linked", 78, "a/linked is a file of safetensors whose name does" },
        { "mkfifo a/pipe", 66, "a holds no weights: neither model.safetensors nor" },
        { "cp one/model.safetensors a/weights", 78, "a/weights: weights are read from model.safetensors" },
        { "printf 'PK\\3\\4........' > a/state", 78, "torch.load(sys.argv[1]" },
        { "touch a/pytorch_model.zip", 78, "a/pytorch_model.zip: archives are not read: unpack it" },
        { "touch a/model.tar.gz", 78, "a/model.tar.gz: archives are not read" },
        { "touch a/model.pt", 78, "torch.load(sys.argv[1]" },
        { "touch a/last.ckpt", 78, "torch.load(sys.argv[1]" },
        { "touch a/weights.npz", 78, "a/weights.npz: weights are read from" },
        { "touch a/weights.h5", 78, "a/weights.h5: weights are read from" },
        { "touch a/m.bin.zst", 78, "a/m.bin.zst: weights are read from" },
        { "touch a/optimizer.pt a/rng_state_0.pth", 66, "optimizer.pt in it is the state of a training: name the" },
        { "cp one/model.safetensors a/model.safetensors.bak", 78, "a/model.safetensors.bak: weights are read from" },
        { "touch a/model.onnx", 78, "a/model.onnx: weights are read from model.safetensors" },
        { "cp pointer a/model.safetensors", 65, "a pointer file of Git LFS, not the data; fetch the data: git lfs" },
        { "mkfifo a/model.safetensors", 65, "a/model.safetensors: not a regular file" },
        { "cp one/model.safetensors a && rm a/config.json && mkfifo a/config.json", 65,
          "a/config.json: not a regular" },
        { "touch a/Model.SafeTensors", 78, "a/Model.SafeTensors: weights are read from model.safetensors" },
        { "mkdir a/checkpoint-500 && cp one/model.safetensors a/checkpoint-500", 66,
          "a/checkpoint-500/model.safetensors is in a folder in it: name the folder that has the weights" },
        { "touch a/training_args.bin", 66, "training_args.bin in it is the state of a training" },
        { "true", 66, "a holds no weights: neither model.safetensors nor" },
    };
    shell_enter();
    write_folder("one");
    shell_expect(0, "28 tensors", "import one six --max_shard 500B");
    shell_write("pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_int_eq(shell_run("rm -rf a new && mkdir a && cp one/config.json a && %s", rows[i].make), 0);
        shell_expect(rows[i].code, rows[i].words, "import a new");
        if (rows[i].code == 0)
            check_folder("new", CS_F32);
        else
            nothing_is_left("new");
    }
    shell_leave();
}
END_TEST

/* A name that is no folder is looked up in the cache of the Hugging Face Hub. */
START_TEST(models_of_the_hub_are_found_in_its_cache)
{
    static const char *const places[][2] = { { "HF_HUB_CACHE", "" },
                                             { "HF_HOME", "hub/" },
                                             { "XDG_CACHE_HOME", "huggingface/hub/" } };
    shell_enter();
    write_folder("one");
    ck_assert_int_eq(unsetenv("HF_HUB_CACHE") | unsetenv("HUGGINGFACE_HUB_CACHE") | unsetenv("HF_HOME"), 0);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char place[256];
        snprintf(place, sizeof place, "cache%zu/%smodels--org--tiny", i, places[i][1]);
        ck_assert_int_eq(shell_run("rm -rf new; mkdir -p %s/refs %s/snapshots/1a && cp one/* %s/snapshots/1a && "
                                   "printf 1a > %s/refs/main",
                                   place, place, place, place),
                         0);
        snprintf(place, sizeof place, "cache%zu", i);
        ck_assert_int_eq(setenv(places[i][0], place, 1), 0);
        shell_expect(0, "28 tensors", "import org/tiny new");
        shell_expect(66, "`hf download org/other --local-dir other` makes the folder other", "import org/other newer");
        shell_expect(66, "`hf download org/other --local-dir other` makes the folder other", "eval org/other --data x");
        ck_assert_int_eq(unsetenv(places[i][0]), 0);
    }
    ck_assert_int_eq(setenv("HF_HUB_CACHE", "cache0", 1), 0);
    ck_assert_int_eq(shell_run("rm cache0/*/snapshots/1a/model.safetensors"), 0);
    shell_expect(66, "a folder of the Hugging Face cache, has no weights yet, and nothing is downloaded",
                 "import org/tiny newer");
    ck_assert_int_eq(unsetenv("HF_HUB_CACHE"), 0);
    shell_leave();
}
END_TEST

/* ---- other programs' files ---- */

START_TEST(others_are_refused_with_a_command)
{
    static const struct {
        /* The file `path` has the content `start`. Importing the file prints `words`; importing its folder prints
         * `folder_words`. */
        const char *path, *start, *words;
        const char *folder_words;
    } rows[] = {
        { "a/pytorch_model.bin", "", "from_pretrained(sys.argv[1], dtype='auto')", "save_pretrained('OUT')\" 'a'`" },
        { "a/pytorch_model-00001-of-00002.bin", "", "save_pretrained('OUT')", "'a'`" },
        { "a/model.bin", "PK\3\4....", "'a/model.bin'`", NULL },
        { "a/last.pt", "", "'a/last.pt'`", "'a/last.pt'`" },
        { "a/it's.pth", "", "weights_only=True", "'a/it'\\''s.pth'`" },
        { "a/tf_model.h5", "", "from_tf=True", "save_pretrained('OUT')\" 'a'`" },
        { "a/flax_model.msgpack", "", "from_flax=True", "save_pretrained('OUT')\" 'a'`" },
        { "a/weights", "GGUF....", "`cspeed import 'a/weights' OUT`", NULL },
        { "a/gpt2.bin", "\xC6\xD7\x34\1\3\1\1\1", "export_hf.py --input 'a/gpt2.bin' --output OUT", NULL },
        { "a/__0_0.distcp", "", "dcp_to_torch", "dcp_to_torch 'a' OUT.pt`" },
        { "a/mp_rank_00_model_states.pt", "", "['module']", "'a/mp_rank_00_model_states.pt'`" },
        { "a/zero_pp_rank_0_mp_rank_00_optim_states.pt", "", "a checkpoint of DeepSpeed",
          "from zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint as read; w = read(*sys.argv[1:])" },
    };
    shell_enter();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char command[256];
        ck_assert_int_eq(shell_run("rm -rf a && mkdir a"), 0);
        shell_write(rows[i].path, rows[i].start);
        snprintf(command, sizeof command, "import \"%s\" new", rows[i].path);
        shell_expect(78, rows[i].words, command);
        if (rows[i].folder_words) {
            shell_expect(78, rows[i].folder_words, "import a new");
            shell_expect(78, rows[i].folder_words, "import a/ new");
        }
        nothing_is_left("new");
    }
    ck_assert_int_eq(shell_run("mkdir -p ds/global_step5 && printf global_step5 > ds/latest && "
                               "touch ds/global_step5/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"),
                     0);
    shell_expect(78, "{'format': 'pt'})\" 'ds' 'global_step5'`", "import ds new");
    shell_expect(78, "'ds' 'global_step5'`", "export ds new");
    shell_expect(78, "'ds' 'global_step5'`", "export ds new --tag global_step5");
    ck_assert_int_eq(shell_run("mkdir -p u/s_uni/zero && printf s_uni > u/latest_universal && "
                               "touch u/s_uni/mp_rank_00_model_states.pt"),
                     0);
    shell_expect(78, "u is a universal checkpoint of DeepSpeed", "export u new");
    shell_expect(78, "u/s_uni is a universal checkpoint of DeepSpeed", "export u/s_uni new");
    nothing_is_left("new");
    shell_leave();
}
END_TEST

SUITE_MAIN("import", weights_get_another_type_or_division, weights_must_be_those_of_the_config,
           a_tied_head_is_the_table, shards_must_be_there, weights_of_other_names_are_read_or_refused,
           models_of_the_hub_are_found_in_its_cache, others_are_refused_with_a_command)
