/* layouts.c - training runs of tiny models on any layout of ranks. */
#include "layouts.h"
#include "shell.h"
#include "comm/transport.h"
#include "core/engine.h"
#include "zero/part.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZES "\"vocab_size\": 61, \"max_position_embeddings\": 16, \"initializer_range\": 0.15, \"hidden_size\": "
#define LLAMA(width, heads, keys, head)                                                                                \
    SIZES width ", \"intermediate_size\": 27, \"num_hidden_layers\": 2, \"num_attention_heads\": " heads               \
                ", \"num_key_value_heads\": " keys ", \"head_dim\": " head ", \"rms_norm_eps\": 1e-5"
#define NEOX(width, heads) SIZES width ", \"num_hidden_layers\": 2, \"num_attention_heads\": " heads
#define QWEN_MOE                                                                                                       \
    ", \"moe_intermediate_size\": 13, \"num_experts\": 5, \"num_experts_per_tok\": 3, \"output_router_logits\": true"
#define ATTENTION_DROPOUT ", \"attention_dropout\": 0.1"

const layout_model layout_models[] = {
    { "gpt2",
      "{\"model_type\": \"gpt2\", \"vocab_size\": 61, \"n_positions\": 16, \"n_embd\": 40, \"n_layer\": 2, "
      "\"n_head\": 5, \"n_inner\": 27, \"initializer_range\": 0.15",
      ", \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1, \"attn_pdrop\": 0.1", NULL },
    { "gpt2 untied",
      "{\"model_type\": \"gpt2\", \"vocab_size\": 61, \"n_positions\": 16, \"n_embd\": 24, \"n_layer\": 2, "
      "\"n_head\": 4, \"initializer_range\": 0.15, \"tie_word_embeddings\": false, \"activation_function\": \"relu2\"",
      ", \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1, \"attn_pdrop\": 0.1", NULL },
    { "llama", "{\"model_type\": \"llama\", " LLAMA("20", "6", "1", "6"), ATTENTION_DROPOUT, NULL },
    { "mistral", "{\"model_type\": \"mistral\", \"sliding_window\": 4, " LLAMA("20", "6", "2", "4"), ATTENTION_DROPOUT,
      NULL },
    { "qwen2",
      "{\"model_type\": \"qwen2\", \"use_sliding_window\": true, \"sliding_window\": 5, \"max_window_layers\": "
      "1, " LLAMA("20", "10", "2", "4"),
      ATTENTION_DROPOUT, NULL },
    { "qwen3", "{\"model_type\": \"qwen3\", \"tie_word_embeddings\": true, " LLAMA("20", "6", "2", "8"),
      ATTENTION_DROPOUT, NULL },
    { "gpt_neox",
      "{\"model_type\": \"gpt_neox\", \"intermediate_size\": 27, \"layer_norm_eps\": 1e-5, " NEOX("40", "5"),
      ", \"hidden_dropout\": 0.1, \"attention_dropout\": 0.1", NULL },
    { "gpt_neox sequential",
      "{\"model_type\": \"gpt_neox\", \"intermediate_size\": 27, \"layer_norm_eps\": 1e-5, \"attention_bias\": false, "
      "\"use_parallel_residual\": false, \"rotary_pct\": 0.5, " NEOX("24", "6"),
      ", \"hidden_dropout\": 0.1, \"attention_dropout\": 0.1", NULL },
    { "gemma2",
      "{\"model_type\": \"gemma2\", \"query_pre_attn_scalar\": 9, \"sliding_window\": 4, "
      "\"attn_logit_softcapping\": 2.0, \"final_logit_softcapping\": 3.0, " LLAMA("20", "6", "3", "6"),
      ATTENTION_DROPOUT, NULL },
    { "gemma3_text",
      "{\"model_type\": \"gemma3_text\", \"query_pre_attn_scalar\": 9, \"sliding_window\": 4, "
      "\"sliding_window_pattern\": 2, " LLAMA("20", "5", "1", "6"),
      ATTENTION_DROPOUT, NULL },
    { "phi3",
      "{\"model_type\": \"phi3\", \"pad_token_id\": null, \"partial_rotary_factor\": 0.5, " LLAMA("24", "6", "2", "4"),
      ATTENTION_DROPOUT, NULL },
    { "olmo2", "{\"model_type\": \"olmo2\", " LLAMA("20", "6", "2", "4"), ATTENTION_DROPOUT, NULL },
    { "olmo3", "{\"model_type\": \"olmo3\", \"sliding_window\": 4, " LLAMA("20", "6", "2", "4"), ATTENTION_DROPOUT,
      NULL },
    { "gemma", "{\"model_type\": \"gemma\", " LLAMA("20", "6", "2", "6"), ATTENTION_DROPOUT, NULL },
    { "smollm3", "{\"model_type\": \"smollm3\", \"no_rope_layer_interval\": 2, " LLAMA("20", "6", "2", "4"),
      ATTENTION_DROPOUT, NULL },
    { "seed_oss",
      "{\"model_type\": \"seed_oss\", \"attention_out_bias\": true, \"mlp_bias\": true, \"attention_dropout\": 0, " LLAMA(
          "20", "6", "2", "4"),
      NULL, NULL },
    { "arcee", "{\"model_type\": \"arcee\", " LLAMA("20", "6", "3", "4"), ATTENTION_DROPOUT, NULL },
    { "ernie4_5", "{\"model_type\": \"ernie4_5\", \"use_bias\": true, " LLAMA("20", "6", "2", "4"), ATTENTION_DROPOUT,
      NULL },
    { "cohere2",
      "{\"model_type\": \"cohere2\", \"layer_norm_eps\": 1e-5, \"logit_scale\": 0.3, \"sliding_window\": 4, "
      "\"sliding_window_pattern\": 2, \"intermediate_size\": 27, \"num_key_value_heads\": 2, " NEOX("24", "6"),
      ATTENTION_DROPOUT, NULL },
    { "hunyuan_v1_dense", "{\"model_type\": \"hunyuan_v1_dense\", " LLAMA("20", "6", "2", "6"), ATTENTION_DROPOUT,
      NULL },
    { "ministral3", "{\"model_type\": \"ministral3\", " LLAMA("20", "6", "2", "8"), ATTENTION_DROPOUT, NULL },
    { "phi", "{\"model_type\": \"phi\", \"intermediate_size\": 27, \"num_key_value_heads\": 2, " NEOX("24", "6"),
      ", \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1, \"attention_dropout\": 0.1", NULL },
    { "olmoe",
      "{\"model_type\": \"olmoe\", \"num_experts\": 5, \"num_experts_per_tok\": 3, \"output_router_logits\": "
      "true, " LLAMA("20", "6", "2", "4"),
      ATTENTION_DROPOUT, NULL },
    { "glm4", "{\"model_type\": \"glm4\", " LLAMA("20", "6", "2", "8"), ATTENTION_DROPOUT, NULL },
    { "granite",
      "{\"model_type\": \"granite\", \"embedding_multiplier\": 3.0, \"residual_multiplier\": 0.4, "
      "\"attention_multiplier\": 0.3, \"logits_scaling\": 2.5, \"tie_word_embeddings\": true, \"attention_bias\": "
      "true, \"mlp_bias\": true, " LLAMA("20", "9", "3", "4"),
      ATTENTION_DROPOUT, NULL },
    { "starcoder2",
      "{\"model_type\": \"starcoder2\", \"intermediate_size\": 27, \"num_key_value_heads\": 2, \"sliding_window\": "
      "4, " NEOX("24", "6"),
      ", \"residual_dropout\": 0.1, \"embedding_dropout\": 0.1, \"attention_dropout\": 0.1", NULL },
    { "falcon", "{\"model_type\": \"falcon\", " NEOX("30", "5"), NULL, NULL },
    { "falcon new",
      "{\"model_type\": \"falcon\", \"new_decoder_architecture\": true, \"num_kv_heads\": 2, \"bias\": true, " NEOX(
          "24", "6"),
      NULL, NULL },
    { "falcon sequential",
      "{\"model_type\": \"falcon\", \"parallel_attn\": false, \"multi_query\": false, \"tie_word_embeddings\": "
      "false, " NEOX("20", "5"),
      NULL, NULL },
    { "mixtral",
      "{\"model_type\": \"mixtral\", \"num_local_experts\": 4, \"num_experts_per_tok\": 2, \"output_router_logits\": "
      "true, \"router_aux_loss_coef\": 0.1, " LLAMA("20", "6", "2", "4"),
      ATTENTION_DROPOUT, NULL },
    { "qwen2_moe",
      "{\"model_type\": \"qwen2_moe\", \"shared_expert_intermediate_size\": 11, \"norm_topk_prob\": "
      "false, " LLAMA("20", "6", "3", "4") QWEN_MOE,
      ATTENTION_DROPOUT, NULL },
    { "qwen2_moe with LoRA and its dropout",
      "{\"model_type\": \"qwen2_moe\", \"shared_expert_intermediate_size\": 11, \"norm_topk_prob\": "
      "false, " LLAMA("20", "6", "3", "4") QWEN_MOE,
      NULL, "cspeed.lora={\"r\": 3, \"dropout\": 0.2, \"targets\": \"all-linear\"}" },
    { "qwen3_moe",
      "{\"model_type\": \"qwen3_moe\", \"mlp_only_layers\": [1], \"norm_topk_prob\": true, " LLAMA("20", "4", "1", "6")
          QWEN_MOE,
      ATTENTION_DROPOUT, NULL },
    { "gpt_oss",
      "{\"model_type\": \"gpt_oss\", \"num_local_experts\": 4, \"num_experts_per_tok\": 2, \"sliding_window\": 4, "
      "\"swiglu_limit\": 2, \"output_router_logits\": true, \"router_aux_loss_coef\": 0.1, " LLAMA("20", "6", "2", "4"),
      ATTENTION_DROPOUT, NULL },
    { "llama with LoRA", "{\"model_type\": \"llama\", " LLAMA("20", "6", "2", "4"), ATTENTION_DROPOUT,
      "cspeed.lora={\"r\": 3, \"targets\": \"all-linear\"}" },
    { "gpt2 with LoRA and its dropout",
      "{\"model_type\": \"gpt2\", \"vocab_size\": 61, \"n_positions\": 16, \"n_embd\": 24, \"n_layer\": 2, "
      "\"n_head\": 4, \"initializer_range\": 0.15",
      ", \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1, \"attn_pdrop\": 0.1",
      "cspeed.lora={\"r\": 3, \"dropout\": 0.2, \"targets\": \"all-linear\"}" },
    { "qwen2_moe with DoRA",
      "{\"model_type\": \"qwen2_moe\", \"shared_expert_intermediate_size\": 11, \"norm_topk_prob\": "
      "false, " LLAMA("20", "6", "3", "4") QWEN_MOE,
      ATTENTION_DROPOUT, "cspeed.lora={\"r\": 3, \"dora\": true, \"targets\": \"all-linear\"}" },
    { "gpt2 with DoRA",
      "{\"model_type\": \"gpt2\", \"vocab_size\": 61, \"n_positions\": 16, \"n_embd\": 24, \"n_layer\": 2, "
      "\"n_head\": 4, \"initializer_range\": 0.15",
      ", \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1, \"attn_pdrop\": 0.1",
      "cspeed.lora={\"r\": 3, \"dora\": true, \"targets\": \"all-linear\"}" },
};
const int layout_model_count = sizeof layout_models / sizeof *layout_models;

/* ---- the engine ---- */

/* Members of config.json that turn dropout off, for the family whose default is dropout. */
static const char *without_dropout(const layout_model *model)
{
    return strstr(model->model, "\"gpt2\"") ? ", \"resid_pdrop\": 0, \"embd_pdrop\": 0, \"attn_pdrop\": 0" : "";
}

/* DoRA needs a model whose weights are in a folder. */
static bool needs_folder(const layout_model *model)
{
    return model->set && strstr(model->set, "\"dora\"");
}

static void print_model(const layout_spec *spec, char model[1024])
{
    snprintf(model, 1024, "cspeed.model=%s%s}", spec->model->model,
             spec->dropout && spec->model->dropout ? spec->model->dropout : without_dropout(spec->model));
}

static cs_engine *open_engine(const layout_spec *spec)
{
    char model[1024], tp[32], optimizer[256], fp16[256];
    run_spec run = {
        .world = spec->lanes * spec->tp,
        .stage = spec->stage,
        .steps = spec->steps,
        .micro = LAYOUT_SAMPLES / spec->lanes / spec->accumulation,
        .accumulation = spec->accumulation,
        .precision = spec->precision,
        .recompute = spec->recompute ? "unit" : "none",
        .prefetch = 1,
        .host = spec->host,
        .more = spec->overlap ? "\"tensor_parallel\": {\"tp_overlap_comm\": true}," : NULL,
        .set = { needs_folder(spec->model) ? "cspeed.model=\"weights\"" : model, tp, optimizer, "gradient_clipping=0.4",
                 "cspeed.mesh.check_interval=7", spec->pairs ? "cspeed.dpo.beta=0.1" : "cspeed.dpo.beta=0",
                 spec->sequence ? "cspeed.mesh.sequence=true" : "cspeed.mesh.sequence=false", fp16, spec->model->set }
    };
    print_model(spec, model);
    snprintf(fp16, sizeof fp16, "fp16=%s",
             spec->fp16                             ? spec->fp16
             : strcmp(spec->precision, "fp16") == 0 ? "{\"enabled\": true}"
                                                    : "{\"enabled\": false}");
    snprintf(tp, sizeof tp, "cspeed.mesh.tp=%d", spec->tp);
    snprintf(optimizer, sizeof optimizer, "optimizer=%s",
             spec->optimizer ? spec->optimizer : "{\"type\": \"SGD\", \"params\": {\"lr\": 0.5}}");
    return run_open(&run, NULL);
}

/* The micro-batch as run_batch makes it, with two answers of each pair for preference training. With `documents`, sample s
 * has a new document from position 3 + s % 5 on, and another one from position 9 on. */
static cs_batch batch_of(const cs_engine *engine, const layout_spec *spec, int micro)
{
    static int32_t starts[2 * LAYOUT_SAMPLES * RUN_LENGTH];
    static float references[2 * LAYOUT_SAMPLES];
    int64_t rows = LAYOUT_SAMPLES / spec->lanes / spec->accumulation * (spec->pairs ? 2 : 1);
    cs_batch batch = run_batch(engine, &(run_spec){ .micro = (int)rows, .masked = spec->documents }, micro);
    int64_t first = engine->metrics.samples + (micro * cs_lanes(engine) + cs_lane(engine)) * rows;
    for (int64_t b = 0; b < rows; b++)
        for (int32_t t = 0; t < RUN_LENGTH; t++) {
            int32_t second = 3 + (int32_t)((first + b) % 5);
            starts[b * RUN_LENGTH + t] = t < second ? 0 : t < 9 ? second : 9;
        }
    for (int64_t b = 0; b < rows; b++)
        references[b] = -50 - (float)((first + b) % 3);
    if (spec->pairs)
        batch.references = cs_vector(references, CS_F32, rows);
    if (spec->documents)
        batch.starts = cs_matrix(starts, CS_I32, rows, RUN_LENGTH);
    return batch;
}

/* Makes one gradient of the last rank infinite, in a part of a parameter that only this rank adds to the norm. */
static void overflow(cs_engine *engine)
{
    const ce_shard *shard = engine->shards[1];
    ce_walk_settle(engine);
    if (cs_rank(engine) == cs_world_size(engine) - 1 && shard->owned_count > 0)
        cs_op_fill(ce_device_stream(engine->device, CE_COMPUTE),
                   cs_vector(ce_part_sum(shard, shard->owned[0].from), CS_F32, 1), INFINITY);
}

/* Performs step number `number`, from 1 on. */
static void step(cs_engine *engine, const layout_spec *spec, int number)
{
    for (int micro = 0; micro < spec->accumulation; micro++) {
        cs_batch batch = batch_of(engine, spec, micro);
        cs_forward(engine, &batch);
        cs_backward(engine);
        if (number == spec->overflow && micro == spec->accumulation - 1)
            overflow(engine);
        cs_step(engine);
    }
}

/* ---- images ---- */

static void list_params(const cs_engine *engine, layout_result *result)
{
    int64_t first = 0;
    int count = 0;
    for (int64_t i = 0; i < cs_param_count(engine); i++) {
        const char *name = cs_param_name(engine, i);
        int64_t elements = ce_cut_count(&ce_model_find(engine->model, name)->cut);
        if (count >= LAYOUT_PARAMS || first + elements > LAYOUT_ELEMENTS)
            abort();
        snprintf(result->param[count].name, sizeof result->param[count].name, "%s", name);
        result->param[count].first = first;
        result->param[count++].count = elements;
        first += elements;
    }
    result->params = count;
    result->elements = first;
}

/* Returns the place in the whole parameter of index `at` of the cut dimension of the local tensor. */
static int64_t place_of(const ce_cut *cut, int64_t at)
{
    int part = 0;
    while (at >= cut->part[part].count)
        at -= cut->part[part++].count;
    return cut->part[part].from + at;
}

static void take_image(const cs_engine *engine, const layout_result *result, layout_image *image)
{
    memset(image, 0xff, sizeof *image);
    for (int i = 0; i < result->params; i++) {
        cs_param_part held;
        const ce_cut *cut = &ce_model_find(engine->model, result->param[i].name)->cut;
        CS_MUST(cs_param_local(engine, result->param[i].name, &held));
        int64_t columns = held.local.dims > 1 ? held.local.shape[1] : 1;
        for (int64_t at = held.from; at < held.to; at++) {
            int64_t row = at / columns, column = at % columns;
            row = cut->dim == 0 ? place_of(cut, row) : row;
            column = cut->dim == 1 ? place_of(cut, column) : column;
            memcpy(&image->bits[result->param[i].first + row * cut->whole[1] + column],
                   (const float *)held.data + (at - held.from), sizeof(float));
        }
    }
}

void layout_merge(layout_image *whole, const layout_result *result, const layout_image *images, int ranks,
                  const char *what)
{
    for (int i = 0; i < result->params; i++)
        for (int64_t at = 0; at < result->param[i].count; at++) {
            int64_t place = result->param[i].first + at;
            uint32_t bits = UINT32_MAX;
            int holder = -1;
            for (int rank = 0; rank < ranks; rank++) {
                uint32_t held = images[rank].bits[place];
                if (held == UINT32_MAX)
                    continue;
                ck_assert_msg(holder < 0 || held == bits,
                              "%s: ranks %d and %d hold different bits of element %lld of %s: %08x and %08x", what,
                              holder, rank, (long long)at, result->param[i].name, bits, held);
                bits = held;
                holder = rank;
            }
            ck_assert_msg(holder >= 0, "%s: no rank holds element %lld of %s", what, (long long)at,
                          result->param[i].name);
            whole->bits[place] = bits;
        }
}

/* ---- predictions ---- */

/* Every rank computes the logits of the same batch. */
static void predict(cs_engine *engine, float *values)
{
    int32_t tokens[RUN_LENGTH];
    cs_tensor logits;
    for (int t = 0; t < RUN_LENGTH; t++)
        tokens[t] = t * 5 % RUN_VOCABULARY;
    cs_batch batch = { .inputs = cs_matrix(tokens, CS_I32, 1, RUN_LENGTH) };
    CS_MUST(cs_predict(engine, &batch, &logits));
    if (cs_columns(logits) != RUN_VOCABULARY || cs_rows(logits) != RUN_LENGTH)
        abort();
    for (int i = 0; i < LAYOUT_LOGITS; i++)
        values[i] = cs_element(logits, i);
}

static void generate(cs_engine *engine, int32_t *tokens)
{
    cs_generation *generation;
    const cs_generation_options how = { .sampling = { .top_p = 1 }, .max = LAYOUT_TOKENS };
    CS_MUST(cs_generation_open(&generation, engine, (const int32_t[]){ 3, 8, 13 }, 3, &how));
    for (int i = 0; i < LAYOUT_TOKENS; i++)
        CS_MUST(cs_generations_next(&generation, 1, &tokens[i]));
    cs_generation_close(generation);
}

/* ---- what a rank sends and holds ---- */

static uint64_t sent_over(const cs_comm *comm)
{
    return comm ? cs_comm_counters(comm).bytes : 0;
}

static uint64_t sent_tp_by(const cs_engine *engine)
{
    return sent_over(engine->tp.comm) + sent_over(engine->copies.comm);
}

static uint64_t sent_by(const cs_engine *engine)
{
    return sent_over(engine->comm) + sent_over(engine->group) + sent_over(engine->across) + sent_tp_by(engine);
}

static size_t held_by(const cs_engine *engine)
{
    size_t activations =
        engine->tp.comm ? engine->tp.comm->heap_used : 0; /* where the ranks of a lane see each other's */
    return ce_device_allocated(engine->device) - ce_device_workspace(engine->device) + activations;
}

/* ---- a run ---- */

typedef struct {
    const layout_spec *spec;
    layout_result *result;
} order;

static int train(void *argument)
{
    const order *job = argument;
    const layout_spec *spec = job->spec;
    layout_result *result = job->result;
    cs_engine *engine = open_engine(spec);
    int rank = cs_rank(engine);
    bool images = strcmp(spec->precision, "fp32") == 0;
    if (rank == 0)
        list_params(engine, result);
    cs_agree(engine, 0); /* waits for the list */
    if (images)
        take_image(engine, result, &result->start[rank]);
    result->memory[rank] = cs_memory_of(engine);
    if (rank == 0)
        result->overlaps = engine->exchange.overlap != NULL;
    for (int i = 0; i < spec->steps; i++) {
        uint64_t before = sent_by(engine), before_tp = sent_tp_by(engine);
        step(engine, spec, i + 1);
        ce_walk_settle(engine);
        if (i == 0)
            result->held[rank] = held_by(engine);
        if (i == 1) {
            result->sent[rank] = sent_by(engine) - before;
            result->sent_tp[rank] = sent_tp_by(engine) - before_tp;
        }
        result->loss[rank][i] = cs_last_step(engine).loss;
        result->norm[rank][i] = cs_last_step(engine).grad_norm;
        result->scale[rank][i] = cs_last_step(engine).loss_scale;
        result->margin[rank][i] = spec->pairs ? cs_last_step(engine).preference.margin : 0;
        if (i == 0 && images)
            take_image(engine, result, &result->first[rank]);
    }
    if (images)
        take_image(engine, result, &result->end[rank]);
    cs_metrics metrics = cs_last_step(engine);
    result->targets[rank] = metrics.tokens;
    result->tokens_of_step[rank] = llround(metrics.tokens_per_second * metrics.step_seconds);
    result->held_at_end[rank] = held_by(engine);
    cs_expert_load load = cs_expert_load_of(engine);
    for (int64_t i = 0; i < load.layers * load.experts; i++)
        result->experts[rank] += load.tokens[i];
    predict(engine, result->logits[rank]);
    generate(engine, result->tokens[rank]);
    cs_destroy(engine);
    return 0;
}

/* Writes the folder "weights" with the random weights of the model. */
static int export_weights(void *argument)
{
    const order *job = argument;
    char model[1024];
    run_spec run = { .world = 1, .steps = 1, .precision = "fp32", .set = { model } };
    print_model(job->spec, model);
    cs_engine *engine = run_open(&run, NULL);
    CS_MUST(cs_save_checkpoint(engine, "checkpoint", "t", NULL));
    CS_MUST(cs_finish_checkpoint(engine));
    CS_MUST(cs_export(engine, "checkpoint", "t", "weights"));
    cs_destroy(engine);
    return 0;
}

layout_result *layout_run(const layout_spec *spec)
{
    order job = { spec, run_share(sizeof *job.result) };
    ck_assert_int_le(spec->lanes * spec->tp, LAYOUT_RANKS);
    ck_assert_int_le(spec->steps, LAYOUT_STEPS);
    if (needs_folder(spec->model)) {
        shell_enter();
        run_ranks(1, export_weights, &job);
    }
    run_ranks(spec->lanes * spec->tp, train, &job);
    if (needs_folder(spec->model))
        shell_leave();
    return job.result;
}

void layout_free(layout_result *result)
{
    run_unshare(result, sizeof *result);
}
