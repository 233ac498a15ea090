/* test_models.c - models from config.json: which keys are refused, with which message, and the shapes of the
 * tensors. */
#include "shell.h"
#include "suite.h"

#include "models/family.h"
#include "models/models.h"
#include "models/rotary.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LLAMA                                                                                                          \
    "\"vocab_size\": 61, \"hidden_size\": 24, \"intermediate_size\": 40, \"num_hidden_layers\": 3, "                   \
    "\"num_attention_heads\": 4, \"max_position_embeddings\": 64"
#define GPT2 "\"model_type\": \"gpt2\", \"vocab_size\": 61, \"n_positions\": 16, \"n_embd\": 24, \"n_layer\": 2"

#define MISTRAL "\"model_type\": \"mistral\", " LLAMA ", \"num_key_value_heads\": 2"
#define QWEN2 "\"model_type\": \"qwen2\", " LLAMA ", \"num_key_value_heads\": 2"

/* Opens a model from the text of a config.json. An error is in cs_error(). */
static cs_status try_open(cs_model **model, ce_model_facts *facts, ce_json **doc, const char *text)
{
    ck_assert_msg(ce_json_parse(doc, text, strlen(text), "config.json") == CS_OK, "%s", cs_error());
    return ce_models_open(model, facts, *doc, ce_json_root(*doc), "");
}

/* ---- refusals ---- */

typedef struct {
    const char *text, *words;
} refusal;

static const refusal refusals[] = {
    { "{}", "needs \"model_type\"" },
    { "{\"model_type\": 7}", "needs \"model_type\"" },
    { "{\"model_type\": \"bert\"}", "model_type \"bert\" is not built in; there are: gpt2, llama" },
    { "{\"model_type\": \"llama\", \"pad_token_id\": \"<pad>\"}",
      "pad_token_id must be the number of a token, or null" },
    { "{" GPT2 ", \"n_head\": 5}", "n_embd 24 is not a multiple of n_head 5" },
    { "{" GPT2 ", \"n_head\": 0}", "n_head" },
    { "{" GPT2 ", \"n_head\": -4}", "n_head" },
    { "{" GPT2 ", \"n_head\": \"4\"}", "n_head" },
    { "{" GPT2 ", \"n_head\": 2.5}", "n_head" },
    { "{" GPT2 ", \"n_heads\": 4}", "n_head" },
    { "{" GPT2 ", \"n_inner\": -1}", "n_inner" },
    { "{" GPT2 ", \"n_head\": 4, \"activation_function\": \"tanh\"}", "gelu_new" },
    { "{" GPT2 ", \"n_head\": 4, \"resid_pdrop\": 1.5}", "resid_pdrop" },
    { "{" GPT2 ", \"n_head\": 4, \"layer_norm_epsilon\": 0}", "layer_norm_epsilon" },
    { "{" GPT2 ", \"n_head\": 4, \"add_cross_attention\": true}",
      "cross-attention needs an encoder, and all models here are decoders only" },
    { "{" GPT2 ", \"n_head\": 4, \"tie_word_embeddings\": \"yes\"}", "tie_word_embeddings" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"num_key_value_heads\": 3}",
      "num_attention_heads 4 is not a multiple of num_key_value_heads 3" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"num_key_value_heads\": 8}",
      "is not a multiple of num_key_value_heads 8" },
    { "{\"model_type\": \"mistral\", " LLAMA "}", "is not a multiple of num_key_value_heads 8" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"head_dim\": 7}", "heads are 7 wide (head_dim): it must be even" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"head_dim\": 100000}", "head_dim" },
    { "{\"model_type\": \"llama\", \"hidden_size\": 3, \"num_attention_heads\": 4}", "heads are 0 wide" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"hidden_act\": \"tanh\"}", "silu" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"rms_norm_eps\": -1}", "rms_norm_eps" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"rope_interleaved\": true}", "as Hugging Face orders them" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"rope_theta\": 0}", "rope_theta" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"rope_scaling\": 4}", "rope_scaling: must be an object, or null" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"rope_scaling\": {\"type\": \"longrope\", \"factor\": 2}}",
      "rope_type \"longrope\" needs \"short_factor\", a list of 3 positive numbers" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"rope_scaling\": {\"rope_type\": \"linear\"}}",
      "rope_type \"linear\" needs \"factor\"" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"rope_scaling\": {\"rope_type\": \"yarn\"}}",
      "rope_type \"yarn\" needs \"factor\"" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 8}}",
      "rope_type \"llama3\" needs \"low_freq_factor\"" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, "
      "\"low_freq_factor\": 4, \"high_freq_factor\": 1}}",
      "high_freq_factor must be greater than low_freq_factor" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2, "
      "\"partial_rotary_factor\": 0.5}}",
      "whole heads are turned" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"rope_scaling\": {\"factr\": 2}}", "factor" },
    { "{\"model_type\": \"qwen2\", " LLAMA ", \"num_key_value_heads\": 2, \"layer_types\": [\"full_attention\"]}",
      "layer_types must be a list of num_hidden_layers 3 words" },
    { "{\"model_type\": \"qwen3\", " LLAMA ", \"num_key_value_heads\": 2, \"layer_types\": [\"full_attention\", "
      "\"linear_attention\", \"full_attention\"]}",
      "layer_types[1] is neither full_attention nor sliding_attention" },
    { "{\"model_type\": \"qwen2\", " LLAMA ", \"num_key_value_heads\": 2, \"mlp_bias\": true}", "mlp_bias" },
    { "{\"model_type\": \"mistral\", " LLAMA ", \"num_key_value_heads\": 2, \"sliding_window\": -1}",
      "sliding_window" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"quantization_config\": {\"bits\": 4}}", "quantization_config" },
    { "{" GPT2 ", \"n_head\": 4, \"is_encoder_decoder\": true}",
      "is_encoder_decoder, because all models here are decoders without an encoder (--lenient ignores it)" },
    { "{" GPT2 ", \"n_head\": 4, \"pruned_heads\": {\"0\": [1]}}",
      "pruned_heads, because pruned attention heads are not implemented" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"use_sliding_window\": true}", "not supported: use_sliding_window" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"sliding_window\": 16}", "not supported: sliding_window" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"quantization_config\": {\"bits\": 4}}",
      "not supported: quantization_config, because weights must be fp32, bf16 or fp16" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"is_causal\": false}", "not supported: is_causal" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"layer_types\": [\"full_attention\", \"sliding_attention\", "
      "\"full_attention\"]}",
      "layer_types[1] \"sliding_attention\", because all layers of this model_type see all rows" },
    { "{" MISTRAL ", \"attention_bias\": true}", "not supported: attention_bias" },
    { "{" MISTRAL ", \"mlp_bias\": true}", "not supported: mlp_bias" },
    { "{" MISTRAL ", \"sliding_window\": 4, \"layer_types\": [\"sliding_attention\", \"full_attention\", "
      "\"sliding_attention\"]}",
      "layer_types[1] \"full_attention\", because all layers of this model_type see sliding_window rows" },
    { "{" QWEN2 ", \"use_mrope\": true}", "not supported: use_mrope, because positions are one-dimensional" },
    { "{" QWEN2 ", \"dual_chunk_attention_config\": {\"chunk_size\": 8}}",
      "not supported: dual_chunk_attention_config" },
    { "{" MISTRAL ", \"logit_scale\": 0.5}", "not supported: logit_scale, because nothing of this model_type is" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"quantization\": {\"bits\": 4}}",
      "not supported: quantization, because" },
    { "{\"model_type\": \"llama\", " LLAMA ", \"rms_norm_ep\": 1e-6}", "the nearest known one is \"rms_norm_eps\"" },
    { "{\"model_type\": \"mamba\"}", "model_type \"mamba\" is not built in" },
    { "{\"model_type\": \"mixtral\", \"router_jitter_noise\": 0.1}", "not supported: router_jitter_noise" },
    { "{\"model_type\": \"falcon\", \"alibi\": true}", "not supported: alibi" },
    { "{\"model_type\": \"falcon\", \"new_decoder_architecture\": true, \"parallel_attn\": false}",
      "parallel_attn false" },
    { "{\"model_type\": \"gemma3_text\", \"attn_logit_softcapping\": 50}", "not supported: attn_logit_softcapping" },
    { "{\"model_type\": \"phi3\", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}", "has only \"longrope\"" },
    { "{\"model_type\": \"gpt_neox\", \"hidden_size\": 24, \"num_attention_heads\": 5}",
      "hidden_size 24 is not a multiple of num_attention_heads 5" },
};

START_TEST(bad_configurations_are_refused)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        cs_model *model = NULL;
        ce_model_facts facts = { 0 };
        ce_json *doc;
        cs_status status = try_open(&model, &facts, &doc, refusals[i].text);
        ck_assert_msg(status == CS_BAD_CONFIG, "%s: %d, %s", refusals[i].text, status, cs_error());
        ck_assert_msg(strstr(cs_error(), refusals[i].words) != NULL, "%s: \"%s\" is not in: %s", refusals[i].text,
                      refusals[i].words, cs_error());
        ck_assert_ptr_null(model);
        ce_json_close(doc);
    }
}
END_TEST

/* ---- keys without effect ---- */

static void check(const char *text, cs_status wanted, const char *words)
{
    cs_model *model = NULL;
    ce_model_facts facts = { 0 };
    ce_json *doc;
    cs_status status = try_open(&model, &facts, &doc, text);
    ck_assert_msg(status == wanted && (status == CS_OK || strstr(cs_error(), words)), "%s: %d, %s", text, status,
                  status == CS_OK ? "accepted" : cs_error());
    cs_model_free(model);
    ce_json_close(doc);
}

/* These keys occur in models on Hugging Face and have no effect. */
START_TEST(keys_that_change_nothing_are_accepted)
{
    static const char *const texts[] = {
        "{" GPT2 ", \"n_head\": 4, \"id2label\": {\"0\": \"LABEL_0\"}, \"label2id\": {\"LABEL_0\": 0}, "
        "\"gradient_checkpointing\": "
        "false, \"quantization_config\": null, \"is_decoder\": true, \"eos_token_id\": [1, 2], \"top_k\": 5}",
        "{\"model_type\": \"llama\", " LLAMA ", \"sliding_window\": null, \"use_sliding_window\": false, "
        "\"max_window_layers\": 28, \"_name_or_path\": \"x\", \"layer_types\": [\"full_attention\", "
        "\"full_attention\", "
        "\"full_attention\"], \"partial_rotary_factor\": 1, \"pruned_heads\": {}}",
        "{" MISTRAL ", \"attention_bias\": false, \"mlp_bias\": false, \"use_mrope\": false, \"pretraining_tp\": 1}",
        "{" MISTRAL ", \"sliding_window\": null, \"layer_types\": [\"full_attention\", \"full_attention\", "
        "\"full_attention\"]}",
        "{" MISTRAL ", \"sliding_window\": 8, \"layer_types\": [\"sliding_attention\", \"sliding_attention\", "
        "\"sliding_attention\"]}",
        "{" QWEN2 ", \"use_mrope\": false, \"attention_bias\": true, \"sliding_window\": null}",
        "{" QWEN2 ", \"sliding_window\": null, \"use_sliding_window\": true, \"max_window_layers\": 0}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check(texts[i], CS_OK, "");
}
END_TEST

/* Returns the warnings of a text, or the error, in one line; the caller frees it. */
static char *warnings_of(const char *text, bool lenient)
{
    cs_model *model = NULL;
    ce_model_facts facts = { 0 };
    ce_json *doc;
    ck_assert(ce_json_parse(&doc, text, strlen(text), "config.json") == CS_OK);
    if (lenient)
        ce_json_lenient(doc);
    FILE *log = freopen("warnings.txt", "w", stderr);
    cs_status status = ce_models_open(&model, &facts, doc, ce_json_root(doc), "");
    ce_json_print_warnings(doc);
    fprintf(log, "%s", status == CS_OK ? "" : cs_error());
    fflush(log);
    cs_model_free(model);
    ce_json_close(doc);
    return shell_read("warnings.txt", NULL);
}

/* Keys that no arithmetic reads are named in one warning. With --lenient, keys that are not supported are, too. Of two
 * keys for one thing, the one of transformers counts. */
START_TEST(other_keys_are_named)
{
    static const struct {
        const char *text;
        bool lenient;
        const char *words; /* "" means that there is neither a warning nor an error */
    } rows[] = {
        { "{\"model_type\": \"llama\", " LLAMA ", \"_note\": 1, \"dtype\": \"float32\"}", false, "" },
        { "{\"model_type\": \"llama\", " LLAMA ", \"unsloth_version\": \"2025.1\", \"auto_map\": {\"a\": \"b\"}, "
          "\"loss_type\": \"x\", \"max_sequence_length\": 9, \"activation\": \"silu\", \"pretraining_tp\": 2}",
          false, "they have no effect: unsloth_version, auto_map, loss_type, max_sequence_length, activation\n" },
        { "{\"model_type\": \"llama\", " LLAMA ", \"logit_scale\": 1.0, \"kv_lora_rank\": null, \"alibi\": false}",
          false, "they have no effect: logit_scale, kv_lora_rank, alibi\n" },
        { "{" GPT2 ", \"n_head\": 4, \"reorder_and_upcast_attn\": true}", false, "" },
        { "{" QWEN2 ", \"rope_scaling\": {\"type\": \"default\", \"mrope_section\": [1, 1, 1], \"finetuned\": true}}",
          false,
          "rope_scaling: no part of this model reads these keys, and they have no effect: mrope_section, finetuned\n" },
        { "{\"model_type\": \"llama\", " LLAMA ", \"rope_parameters\": {\"partial_rotary_factor\": 0.5}}", false,
          "partial_rotary_factor has no effect: whole heads are rotated, as in transformers" },
        { "{\"model_type\": \"llama\", " LLAMA ", \"quantization_config\": {\"bits\": 4}, \"logit_scale\": 2, "
          "\"hidden_sise\": 3}",
          true, "the model may compute something else: quantization_config, logit_scale, hidden_sise\n" },
        { "{\"model_type\": \"llama\", " LLAMA ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}, "
          "\"rope_parameters\": {\"rope_type\": \"default\"}}",
          false, "rope_scaling counts and rope_parameters does not" },
        { "{\"model_type\": \"llama\", " LLAMA ", \"rope_scaling\": {\"type\": \"linear\", \"rope_type\": \"dynamic\", "
          "\"factor\": 2}}",
          false, "rope_type is used and type is ignored," },
        { "{\"model_type\": \"gemma3_text\", " LLAMA ", \"layer_types\": [\"full_attention\"], \"rope_scaling\": "
          "{\"rope_type\": \"linear\", \"factor\": 8}, \"rope_parameters\": {\"full_attention\": {\"rope_type\": "
          "\"default\", \"rope_theta\": 77}}}",
          false, "rope_scaling overrides the same keys of rope_parameters.full_attention" },
        { "{" GPT2 ", \"n_head\": 4, \"hidden_size\": 24}", false, "" },
        { "{" GPT2 ", \"n_head\": 4, \"hidden_size\": 28}", false, "hidden_size 28 is used and n_embd 24 is ignored" },
    };
    shell_enter();
    int saved = dup(STDERR_FILENO);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *said = warnings_of(rows[i].text, rows[i].lenient);
        dup2(saved, STDERR_FILENO);
        ck_assert_msg(*rows[i].words ? strstr(said, rows[i].words) != NULL : !*said, "%s:\n%s\nis not in\n%s",
                      rows[i].text, rows[i].words, said);
        free(said);
    }
    close(saved);
    shell_leave();
}
END_TEST

/* The numbers are those of _compute_yarn_parameters of transformers 5.24. */
START_TEST(rotary_settings_are_those_of_transformers)
{
    static const struct {
        const char *scaling;
        int64_t original; /* original_max_position_embeddings at the top level */
        double attention, factor, before;
    } rows[] = {
        { "\"factor\": 4, \"mscale\": 0.707, \"mscale_all_dim\": 1.3", 0, 0.930345718316, 4, 128 },
        { "\"factor\": 4, \"mscale\": 0.707", 0, 0, 4, 128 },
        { "\"factor\": 4, \"mscale\": 1, \"mscale_all_dim\": 1, \"attention_factor\": 2", 0, 2, 4, 128 },
        { "\"factor\": null, \"original_max_position_embeddings\": 32", 0, 0, 4, 32 },
        { "\"factor\": 4, \"original_max_position_embeddings\": 32", 64, 0, 4, 64 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256];
        ce_json *doc;
        cs_rope_sizes sizes;
        snprintf(text, sizeof text, "{\"rope_scaling\": {\"type\": \"yarn\", %s}}", rows[i].scaling);
        ck_assert(ce_json_parse(&doc, text, strlen(text), "config.json") == CS_OK);
        ce_rotary_input input = { .width = 8,
                                  .positions = 128,
                                  .theta = 1e4,
                                  .scaling = json_object_get(ce_json_root(doc), "rope_scaling"),
                                  .original = rows[i].original };
        ce_rotary_read(&sizes, &input, doc, "");
        ck_assert_msg(ce_json_verdict(doc) == CS_OK, "%s", cs_error());
        ck_assert_double_eq_tol(sizes.attention, rows[i].attention, 1e-9);
        ck_assert_double_eq(sizes.factor, rows[i].factor);
        ck_assert_double_eq(sizes.original, rows[i].before);
        ce_json_close(doc);
    }
}
END_TEST

static const ce_key neutral[] = {
#include "models/neutral_keys.h"
};

/* Each key of the table is accepted with any value, or with one value only. */
START_TEST(the_table_of_neutral_keys_holds)
{
    static const char *const values[] = { "7", "\"auto\"", "{\"a\": 1}", "[1]", "true" };
    char text[512];
    for (size_t i = 0; i < sizeof neutral / sizeof *neutral; i++) {
        bool refused = neutral[i].type == CE_KEY_REFUSED;
        for (size_t v = 0; v < sizeof values / sizeof *values && !refused; v++) {
            snprintf(text, sizeof text, "{" GPT2 ", \"n_head\": 4, \"%s\": %s}", neutral[i].name, values[v]);
            check(text, CS_OK, "");
        }
        snprintf(text, sizeof text, "{" GPT2 ", \"n_head\": 4, \"%s\": %s}", neutral[i].name, neutral[i].fallback);
        check(text, CS_OK, "");
        snprintf(text, sizeof text, "{" GPT2 ", \"n_head\": 4, \"%s\": [7]}", neutral[i].name);
        check(text, refused ? CS_BAD_CONFIG : CS_OK, neutral[i].name);
    }
}
END_TEST

/* ---- shapes ---- */

/* Models whose config.json lacks some sizes. `tensors` and `elements` are the numbers of parameter tensors and of their
 * elements in the model that transformers makes from the same file. */
static const struct {
    const char *text;
    int64_t tensors, elements;
} models[] = {
    { "{" GPT2 ", \"n_head\": 4}", 28, 16344 },
    { "{" GPT2 ", \"n_head\": 4, \"n_inner\": null, \"tie_word_embeddings\": false}", 29, 17808 },
    { "{" GPT2 ", \"n_head\": 3, \"n_inner\": 40}", 28, 10856 },
    { "{\"model_type\": \"llama\", " LLAMA "}", 30, 18648 },
    { "{\"model_type\": \"llama\", " LLAMA ", \"num_key_value_heads\": null, \"head_dim\": null}", 30, 18648 },
    { "{\"model_type\": \"llama\", " LLAMA ", \"num_key_value_heads\": 2, \"head_dim\": 10, "
      "\"attention_bias\": true, \"mlp_bias\": true, \"tie_word_embeddings\": true}",
      50, 19536 },
    { "{\"model_type\": \"mistral\", " LLAMA ", \"num_key_value_heads\": 2}", 30, 16920 },
    { "{\"model_type\": \"mistral\", \"vocab_size\": 7, \"hidden_size\": 32, \"intermediate_size\": 4, "
      "\"num_hidden_layers\": 1, \"num_attention_heads\": 16}",
      12, 4000 },
    { "{\"model_type\": \"qwen2\", " LLAMA ", \"num_key_value_heads\": 2, \"tie_word_embeddings\": true}", 38, 15600 },
    { "{\"model_type\": \"qwen2\", \"vocab_size\": 7, \"hidden_size\": 128, \"intermediate_size\": 4, "
      "\"num_hidden_layers\": 1, \"num_attention_heads\": 64}",
      15, 53120 },
    { "{\"model_type\": \"qwen3\", " LLAMA ", \"num_key_value_heads\": 2}", 36, 123096 },
    { "{\"model_type\": \"qwen3\", " LLAMA ", \"num_key_value_heads\": 1, \"head_dim\": 6, "
      "\"attention_bias\": true}",
      48, 16272 },
};

START_TEST(missing_sizes_are_those_of_transformers)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        cs_model *model = NULL;
        ce_model_facts facts = { 0 };
        ce_json *doc;
        int64_t tensors = 0;
        ck_assert_msg(try_open(&model, &facts, &doc, models[i].text) == CS_OK, "%s: %s", models[i].text, cs_error());
        for (int at = 0; at < model->count; at++)
            tensors += model->units[at]->entry_count;
        ck_assert_msg(tensors == models[i].tensors && model->parameters == models[i].elements,
                      "%s: %lld tensors, %lld elements", models[i].text, (long long)tensors,
                      (long long)model->parameters);
        ck_assert(!facts.alias || ce_model_find(model, facts.alias_of));
        cs_model_free(model);
        ce_json_close(doc);
    }
}
END_TEST

SUITE_MAIN("models", bad_configurations_are_refused, keys_that_change_nothing_are_accepted, other_keys_are_named,
           rotary_settings_are_those_of_transformers, the_table_of_neutral_keys_holds,
           missing_sizes_are_those_of_transformers)
