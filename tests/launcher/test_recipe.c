/* test_recipe.c - recipes of other trainers become configurations: each key is taken, or it is named with the reason. */
#include "shell.h"
#include "suite.h"
#include "training.h"

#include "recipe/recipe.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- reading ---- */

typedef struct {
    const char *text, *json; /* `json` is NULL if the text is refused with the message `message` */
    const char *message;
} reading;

static void check_reading(const reading *row, cs_status status, json_t *got)
{
    if (!row->json) {
        ck_assert_msg(status != CS_OK && strstr(cs_error(), row->message), "%s: %s", row->text, cs_error());
        return;
    }
    json_t *wanted = json_loads(row->json, 0, NULL);
    ck_assert_msg(status == CS_OK, "%s: %s", row->text, cs_error());
    char *shown = json_dumps(got, 0);
    ck_assert_ptr_nonnull(wanted);
    ck_assert_msg(json_equal(got, wanted), "%s: %s", row->text, shown);
    free(shown);
    json_decref(wanted);
    json_decref(got);
}

START_TEST(yaml_is_read)
{
    static const reading rows[] = {
        { "a: 1\nb: 2.5\nc: 1e-5\nd: -3", "{\"a\": 1, \"b\": 2.5, \"c\": 1e-5, \"d\": -3}", NULL },
        { "a: yes\nb: False\nc: ~\nd:\ne: 'no'\nf: \"1\"",
          "{\"a\": true, \"b\": false, \"c\": null, \"d\": null, \"e\": "
          "\"no\", \"f\": \"1\"}",
          NULL },
        { "a: x # note\n# b: 1\nc: [1, two]\n", "{\"a\": \"x\", \"c\": [1, \"two\"]}", NULL },
        { "a:\n  - path: p\n    type: t\n  - q\n", "{\"a\": [{\"path\": \"p\", \"type\": \"t\"}, \"q\"]}", NULL },
        { "a: &x {b: 1}\nc: *x\nd:\n  <<: *x\n  e: 2\n",
          "{\"a\": {\"b\": 1}, \"c\": {\"b\": 1}, \"d\": {\"b\": 1, \"e\": 2}}", NULL },
        { "a: |\n  two\n  lines\n", "{\"a\": \"two\\nlines\\n\"}", NULL },
        { "---\na: 1\n...\n", "{\"a\": 1}", NULL },
        { "a: 12abc\nb: 1.5.2\nc: .5\nd: 99999999999999999999",
          "{\"a\": \"12abc\", \"b\": \"1.5.2\", \"c\": 0.5, \"d\": "
          "99999999999999999999.0}",
          NULL },
        { "a: [1\nb: 2", NULL, "name:2:2: not YAML" },
        { "- a\n", NULL, "name: the recipe is not a mapping" },
        { "", NULL, "name: the recipe is not a mapping" },
        { "a: *nowhere", NULL, "name:1: the value is an unknown alias" },
        { "? [a]\n: 1", NULL, "name:1: a key that is not a word" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *got;
        cs_status status = cl_recipe_read_yaml(&got, rows[i].text, strlen(rows[i].text), "name");
        check_reading(&rows[i], status, got);
    }
}
END_TEST

START_TEST(command_lines_are_read)
{
    static const reading rows[] = {
        { "python train.py --a 1 --b=2e-5 --c --d-e x", "{\"a\": 1, \"b\": 2e-5, \"c\": true, \"d_e\": \"x\"}", NULL },
        { "X=1 torchrun --nproc_per_node 8 train.py --a", "{\"nproc_per_node\": 8, \"a\": true}", NULL },
        { "launch --multi_gpu train.py --a", "{\"multi_gpu\": true, \"a\": true}", NULL },
        { "t.py --a \\\n  --b 'x y' # --c\n  --d \"q\\\"r\"", "{\"a\": true, \"b\": \"x y\", \"d\": \"q\\\"r\"}",
          NULL },
        { "t.py --a p q r --b False", "{\"a\": [\"p\", \"q\", \"r\"], \"b\": false}", NULL },
        { "t.py --a -1 --b -.5", "{\"a\": -1, \"b\": -0.5}", NULL },
        { "t.py lr=2e-4 data.path=x", "{\"lr\": 2e-4, \"data.path\": \"x\"}", NULL },
        { "t.py --a 1 && rm --b 2", "{\"a\": 1, \"b\": 2}", NULL },
        { "echo", NULL, "name: no flag of a trainer" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *got;
        cs_status status = cl_recipe_read_line(&got, rows[i].text, "name");
        check_reading(&rows[i], status, got);
    }
}
END_TEST

/* ---- converting ---- */

#define REST "\"gradient_clipping\": 1.0, \"optimizer\": {\"type\": \"AdamW\"}, \"scheduler\": {\"type\": \"linear\"}"

/* Each row has keys in YAML, what the configuration must contain, and parts of the list of what was not taken. */
static const struct {
    const char *yaml, *config, *lost, *flags;
} conversions[] = {
    { "per_device_train_batch_size: 4\ngradient_accumulation_steps: 2\nseed: 7\n",
      "{\"train_micro_batch_size_per_gpu\": 4, \"gradient_accumulation_steps\": 2, \"cspeed\": {\"seed\": 7}, " REST
      "}",
      "", "" },
    { "max_steps: -1\nnum_train_epochs: 3.0\nwarmup_steps: 0\n", "{\"cspeed\": {\"epochs\": 3}, " REST "}", "", "" },
    { "num_train_epochs: 0.5\n", "{" REST "}", "num_train_epochs: 0.5: a whole number of epochs is needed", "" },
    { "learning_rate: '2e-5'\nadam_beta1: 0.8\nadam_epsilon: 1e-6\noptim: adamw_torch_fused\nmax_grad_norm: 0.3\n",
      "{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 2e-5, \"betas\": [0.8, 0.999], \"eps\": 1e-6}}, "
      "\"gradient_clipping\": 0.3, \"scheduler\": {\"type\": \"linear\"}}",
      "", "" },
    { "base_model: a\nlr_scheduler: constant\nwarmup_steps: 0.1\n",
      "{\"cspeed\": {\"model\": \"a\"}, \"gradient_clipping\": 1.0, \"optimizer\": {\"type\": \"AdamW\"}, \"scheduler\": "
      "{\"type\": \"constant\", \"params\": {\"warmup_ratio\": 0.1}}}",
      "", "" },
    { "model_name_or_path: o/m\nmodel_revision: v2\nbf16: auto\nfp16: false\ngradient_checkpointing: true\n",
      "{\"cspeed\": {\"model\": \"o/m@v2\", \"recompute\": \"unit\"}, \"bf16\": {\"enabled\": true}, " REST "}", "",
      "" },
    { "finetuning_type: lora\nlora_target: q_proj,v_proj\nlora_alpha: 16\n",
      "{\"cspeed\": {\"lora\": {\"r\": 8, \"targets\": [\"q_proj\", \"v_proj\"], \"alpha\": 16}}, " REST "}", "", "" },
    { "finetuning_type: full\nlora_rank: 8\nlora_alpha: 16\n", "{\"cspeed\": {}, " REST "}", "", "" },
    { "finetuning_type: lora\nlora_rank: 16\n", "{\"cspeed\": {\"lora\": {\"r\": 16, \"alpha\": 32}}, " REST "}", "",
      "" },
    { "use_peft: true\n", "{\"cspeed\": {\"lora\": {\"r\": 16, \"alpha\": 32, \"dropout\": 0.05}}, " REST "}", "", "" },
    { "packing: false\npacking_strategy: wrapped\n", "{\"cspeed\": {}, " REST "}", "", "" },
    { "packing: true\npacking_strategy: wrapped\n", "{\"cspeed\": {\"data\": {\"packing\": \"windows\"}}, " REST "}",
      "", "" },
    { "stage: sft\npref_beta: 0.2\n", "{\"cspeed\": {}, " REST "}",
      "pref_beta: 0.2: the method of the recipe is not dpo", "" },
    { "num_machines: 2\nnum_processes: 16\noverwrite_output_dir: false\n", "{\"cspeed\": {}, " REST "}", "",
      " --num_nodes 2 --num_gpus 8" },
    { "max_steps: 3\ntrainer:\n  max_steps: 5\n", "{\"cspeed\": {\"steps\": 5}, " REST "}",
      "max_steps: 3: the recipe has the key twice", "" },
    { "training_args:\n  adam-beta2: 0.95\n",
      "{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"betas\": [0.9, 0.95]}}, \"gradient_clipping\": 1.0, "
      "\"scheduler\": {\"type\": \"linear\"}}",
      "", "" },
    { "optimizer: {type: Lion}\ntorch_dtype: int8\nlr_scheduler_kwargs: '{\"min_lr_rate\": 0.1}'\n",
      "{\"gradient_clipping\": 1.0, \"optimizer\": {\"type\": \"AdamW\"}, \"scheduler\": {\"type\": \"linear\", "
      "\"params\": {\"min_lr_rate\": 0.1}}}",
      "optimizer: {\"type\": \"Lion\"}: the name of an optimizer|torch_dtype: int8: the types are bf16", "" },
    { "datasets: [{path: rows.jsonl, type: alpaca, split: train}]\nbase_model: m\nname: 你好你好你好你好你好你好你好你好你好你好你好你好你好你好你好你好你好你好你好你好你好你好你好你好你好\n",
      "{\"cspeed\": {\"model\": \"m\", \"data\": {\"train\": [\"rows.jsonl\"]}}, \"gradient_clipping\": 1.0, \"optimizer\": "
      "{\"type\": \"AdamW\"}, \"scheduler\": {\"type\": \"cosine\"}}",
      "datasets.split: members of a data set|name: 你好", "" },
    { "adapter: lora\nlora_r: 4\nlora_target_linear: true\n",
      "{\"cspeed\": {\"lora\": {\"r\": 4, \"targets\": \"all-linear\"}}, " REST "}", "", "" },
    { "finetuning_type: lora\nlora_target: q_proj\nadditional_target: embed_tokens,lm_head\n",
      "{\"cspeed\": {\"lora\": {\"r\": 8, \"alpha\": 16, \"targets\": [\"q_proj\"], \"modules_to_save\": [\"embed_tokens\", "
      "\"lm_head\"]}}, " REST "}",
      "", "" },
    { "base_model: o/m@v1\nspecial_tokens: {pad_token: <p>, eos_token: \"it's\", additional_special_tokens: [<a>]}\n"
      "tokens: [<b>, <c>]\nresize_token_embeddings_to_32x: true\n",
      "{\"cspeed\": {\"model\": \"./m-tokens\"}, \"gradient_clipping\": 1.0, \"optimizer\": {\"type\": \"AdamW\"}, "
      "\"scheduler\": {\"type\": \"cosine\"}}",
      "",
      "cspeed add-tokens o/m@v1 ./m-tokens --eos_token='it'\\''s' --special_token='<a>' --token='<b>' --token='<c>' "
      "--multiple 32" },
    { "lora_target_modules: 'model.layers.[\\d]+.mlp.(up|down)_proj'\nrank_pattern: {up_proj: 4}\n"
      "alpha_pattern: {}\nexclude_modules: [down_proj]\npeft_layers_to_transform: [0, 2]\nlayers_pattern: layers\n",
      "{\"cspeed\": {\"lora\": {\"targets\": \"model.layers.[\\\\d]+.mlp.(up|down)_proj\", \"rank_pattern\": "
      "{\"up_proj\": 4}, \"alpha_pattern\": {}, \"exclude_modules\": [\"down_proj\"], \"layers_to_transform\": [0, 2], \"layers_pattern\": "
      "\"layers\"}}, " REST "}",
      "", "" },
    { "save_strategy: epoch\nsave_steps: 500\neval_strategy: steps\neval_steps: 50\nlogging_steps: 0.1\n",
      "{\"cspeed\": {\"saves_per_epoch\": 1, \"eval_interval\": 50}, " REST "}",
      "logging_steps: 0.1: a share of the training", "" },
    { "load_best_model_at_end: true\nmetric_for_best_model: eval_loss\ngreater_is_better: false\n"
      "early_stopping_patience: 3\nlabel_smoothing_factor: 0.1\nneftune_noise_alpha: 5\nloss_watchdog_threshold: 4.5\n",
      "{\"cspeed\": {\"keep_best\": true, \"best_metric\": \"loss\", \"early_stopping_patience\": 3, "
      "\"label_smoothing_factor\": 0.1, \"neftune_noise_alpha\": 5, \"loss_watchdog_threshold\": 4.5}, " REST "}",
      "", "" },
    { "load_best_model_at_end: false\nneftune_noise_alpha: null\nlabel_smoothing_factor: 0\n", "{" REST "}", "", "" },
    { "fsdp: full_shard auto_wrap offload\n",
      "{\"cspeed\": {\"fsdp\": {\"sharding_strategy\": \"FULL_SHARD\"}}, \"zero_optimization\": {\"offload_param\": "
      "{\"device\": \"cpu\"}}, " REST "}",
      "", "" },
    { "fsdp_config:\n  fsdp_sharding_strategy: 2\n  offload_params: false\n",
      "{\"cspeed\": {\"fsdp\": {\"sharding_strategy\": \"SHARD_GRAD_OP\"}}, " REST "}", "", "" },
    { "report_to: [tensorboard, wandb]\nstage: dpo\npref_loss: ipo\nreward_model: x\n",
      "{\"tensorboard\": {\"enabled\": true}, \"cspeed\": {\"dpo\": {\"beta\": 0.1, \"loss_type\": \"ipo\"}}, " REST
      "}",
      "report_to: [\"tensorboard\", \"wandb\"]: cspeed sends nothing|reward_model: x: cspeed does not know this key",
      "" },
    { "beta: 0.2\nloss_type: [sigmoid, sft]\nloss_weights: [1, 0.5]\nld_alpha: 0.5\nf_divergence_type: forward_kl\n",
      "{\"cspeed\": {\"dpo\": {\"beta\": 0.2, \"loss_type\": [\"sigmoid\", \"sft\"], \"loss_weights\": [1, 0.5], "
      "\"ld_alpha\": 0.5, \"f_divergence_type\": \"forward_kl\"}}, " REST "}",
      "", "" },
    { "stage: dpo\npref_loss: simpo\npref_beta: 2\ncpo_alpha: 0.5\nsimpo_gamma: 1\n",
      "{\"cspeed\": {\"dpo\": {\"reference_free\": true, \"loss_type\": \"simpo\", \"beta\": 2, \"cpo_alpha\": 0.5, "
      "\"simpo_gamma\": 1}}, " REST "}",
      "", "" },
    { "output_dir: $OUT\nnum_processes: 8\nmachine_rank: 0\noverwrite_output_dir: true\n", "{" REST "}",
      "output_dir: $OUT: the value is a variable of the shell", " --num_gpus 8" },
    { "deepspeed: zero.json\nlearning_rate: 1e-4\n",
      "{\"zero_optimization\": {\"stage\": 2}, \"optimizer\": {\"type\": \"Lion\", \"params\": {\"lr\": 1e-4}}, "
      "\"gradient_clipping\": 1.0, \"scheduler\": {\"type\": \"linear\"}}",
      "", "" },
    { "deepspeed: nowhere.json\n", "{" REST "}", "deepspeed: nowhere.json: ", "" },
    { "datasets:\n  - path: rows.jsonl\n    type: alpaca\n  - path: o/d\n",
      "{\"cspeed\": {\"data\": {\"train\": [\"rows.jsonl\"]}}, " REST "}",
      "there is no file o/d; a data set of the Hub", "" },
    { "load_in_8bit: false\nwandb_project:\nunknown: null\nspecial_tokens: {}\n", "{" REST "}", "", "" },
};

/* Adds what a recipe sets that says nothing about it: the learning rate, and the packing except for pairs. */
static void add_defaults(json_t *wanted)
{
    json_t *own = json_object_get(wanted, "cspeed"), *cspeed = own ? own : json_object();
    json_t *data = json_object_get(cspeed, "data"), *optimizer = json_object_get(wanted, "optimizer");
    json_t *params = json_object_get(optimizer, "params");
    if (!data && !json_object_get(cspeed, "dpo"))
        json_object_set_new(cspeed, "data", data = json_object());
    if (data && !json_object_get(data, "packing"))
        json_object_set_new(data, "packing", json_string("documents"));
    if (!own)
        json_object_set_new(wanted, "cspeed", cspeed);
    if (!params)
        json_object_set_new(optimizer, "params", params = json_object());
    if (!json_object_get(params, "lr"))
        json_object_set_new(params, "lr", json_real(5e-5));
}

static void check_conversion(size_t i)
{
    json_t *from, *wanted = json_loads(conversions[i].config, 0, NULL);
    cl_recipe got;
    char parts[512], *rest = parts;
    const char *yaml = conversions[i].yaml;
    ck_assert_msg(wanted != NULL, "%s", conversions[i].config);
    add_defaults(wanted);
    ck_assert_int_eq(cl_recipe_read_yaml(&from, yaml, strlen(yaml), "name"), CS_OK);
    cl_recipe_convert(&got, from, ".");
    char *shown = json_dumps(got.config, 0), *lost = json_dumps(got.lost, JSON_ENSURE_ASCII);
    ck_assert_msg(json_equal(got.config, wanted), "%s: %s, not %s", yaml, shown, conversions[i].config);
    ck_assert_str_eq(*got.tokens ? got.tokens : got.flags, conversions[i].flags);
    snprintf(parts, sizeof parts, "%s", conversions[i].lost);
    size_t count = 0;
    for (char *part; (part = strsep(&rest, "|")) != NULL && *part; count++) {
        bool found = false;
        for (size_t j = 0; j < json_array_size(got.lost); j++)
            found = found || strstr(json_string_value(json_array_get(got.lost, j)), part);
        ck_assert_msg(found, "%s: %s: %s", yaml, part, lost);
    }
    ck_assert_msg(json_array_size(got.lost) == count, "%s: %s", yaml, lost);
    size_t keys =
        json_object_size(from) ? (size_t)got.carried + json_array_size(got.lost) + json_array_size(got.unneeded) : 0;
    ck_assert_msg(keys >= json_object_size(from), "%s: only %zu keys are accounted for", yaml, keys);
    free(shown);
    free(lost);
    cl_recipe_free(&got);
    json_decref(wanted);
    json_decref(from);
}

START_TEST(every_key_is_taken_or_named)
{
    shell_enter();
    shell_write("zero.json", "{\"zero_optimization\": {\"stage\": 2}, \"optimizer\": {\"type\": \"Lion\"}}");
    shell_write("rows.jsonl", "{\"text\": \"a\"}\n");
    for (size_t i = 0; i < sizeof conversions / sizeof *conversions; i++)
        check_conversion(i);
    shell_leave();
}
END_TEST

/* ---- the command ---- */

START_TEST(a_recipe_trains)
{
    training_prepare();
    training_config("bf16", "", 0);
    training_run(1, "--export first --steps 2");
    training_text("rows.txt", 40);
    shell_write("sft.yaml", "model_name_or_path: first\nstage: sft\ndo_train: true\nfinetuning_type: lora\n"
                            "lora_target: all\nlora_rank: 2\ndataset: rows.txt\ncutoff_len: 32\noutput_dir: out2\n"
                            "logging_steps: 1\nper_device_train_batch_size: 1\nlearning_rate: 1.0e-3\nmax_steps: 3\n"
                            "lr_scheduler_type: cosine\nwarmup_ratio: 0.1\nbf16: true\nplot_loss: true\n");
    shell_expect(0, "sft.yaml: 15 keys taken, 2 not needed, 0 not taken", "import-recipe sft.yaml --output sft.json");
    ck_assert(shell_says("`cspeed config sft.json` checks sft.json"));
    shell_expect(0, "cspeed.lora.r", "config sft.json");
    training_expect(0, shell_run("%s/cspeed --num_gpus 2 train --config sft.json", CS_BIN));
    ck_assert(training_says("step 3/3"));
    shell_expect(73, "sft.json: it exists already", "import-recipe sft.yaml --output sft.json");
    shell_expect(66, "nowhere.yaml", "import-recipe nowhere.yaml");
    shell_write("bad.json", "{\"a\": 1");
    shell_expect(78, "bad.json:1:1: the object opened here is never closed", "import-recipe bad.json");
    shell_expect(64, "name the file of a recipe", "import-recipe");
    shell_leave();
}
END_TEST

SUITE_MAIN("recipe", yaml_is_read, command_lines_are_read, every_key_is_taken_or_named, a_recipe_trains)
