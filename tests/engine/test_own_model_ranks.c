/* test_own_model_ranks.c - tensor parallelism with a model of the program's own, whose layers cut nothing: all ranks of a
 * lane hold the whole model, and losses and norms are those of one rank, bit for bit. The model has those layers of
 * layer.h that exchange data if they are cut. */
#include "cspeed/layer.h"
#include "runs.h"
#include "suite.h"
#include "unit/unit.h"

enum { WIDTH = 16, EXPERTS = 4, STEPS = 4 };

/* ---- the model: an embedding, experts and a head ---- */

static const cs_init init = { CS_NORMAL, 0.2f };

static void embed_declare(cs_unit *unit, const void *sizes)
{
    (void)sizes;
    cs_embed_declare(cs_unit_self(unit, sizeof(cs_embed)), unit, "tokens", NULL,
                     &(cs_embed_sizes){ .vocabulary = RUN_VOCABULARY, .width = WIDTH, .init = init });
}

static void embed_forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    cs_embed_forward(cs_unit_self(unit, sizeof(cs_embed)), pass, x, y);
}

static void embed_backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    (void)dx;
    cs_embed_backward(cs_unit_self(unit, sizeof(cs_embed)), pass, dy);
}

static void experts_declare(cs_unit *unit, const void *sizes)
{
    (void)sizes;
    cs_experts_declare(cs_unit_self(unit, sizeof(cs_experts)), unit, "mlp",
                       &(cs_experts_sizes){ .width = WIDTH,
                                            .hidden = 12,
                                            .count = EXPERTS,
                                            .chosen = 2,
                                            .shared = 8,
                                            .gate = "w1",
                                            .up = "w3",
                                            .down = "w2",
                                            .function = CS_SILU,
                                            .init = init });
}

static void experts_forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    cs_op_add(cs_pass_stream(pass), y, x, cs_experts_forward(cs_unit_self(unit, sizeof(cs_experts)), pass, x));
}

static void experts_backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    cs_op_add(cs_pass_stream(pass), dx, dy, cs_experts_backward(cs_unit_self(unit, sizeof(cs_experts)), pass, dy));
}

static void head_declare(cs_unit *unit, const void *sizes)
{
    (void)sizes;
    cs_linear_declare(cs_unit_self(unit, sizeof(cs_linear)), unit, "head", WIDTH, RUN_VOCABULARY, init, CS_OUT_IN,
                      CS_NO_BIAS);
}

static void head_forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    cs_entropy_forward(cs_unit_self(unit, sizeof(cs_linear)), pass, x, RUN_VOCABULARY, y);
}

static void head_backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    (void)unit, (void)dy;
    cs_op_cast(cs_pass_stream(pass), dx, cs_entropy_backward(pass));
}

static cs_model *new_model(void)
{
    static const cs_kind embed = { "embed", embed_declare, embed_forward, embed_backward, NULL };
    static const cs_kind experts = { "experts", experts_declare, experts_forward, experts_backward, NULL };
    static const cs_kind head = { "head", head_declare, head_forward, head_backward, NULL };
    cs_model *model;
    CS_MUST(cs_model_new(&model, WIDTH));
    cs_model_add(model, &embed, "first", NULL);
    cs_model_add(model, &experts, "block", NULL);
    cs_model_add(model, &head, "last", NULL);
    return model;
}

/* ---- the runs ---- */

typedef struct {
    int tp, stage;
    const char *lora;
    struct {
        double loss[STEPS], norm[STEPS];
    } * result;
} order;

static int train(void *argument)
{
    const order *job = argument;
    char tp[32];
    run_spec spec = { .world = job->tp,
                      .steps = STEPS,
                      .stage = job->stage,
                      .micro = 2,
                      .precision = "fp32",
                      .recompute = "none",
                      .prefetch = 1,
                      .set = { tp, "cspeed.mesh.check_interval=1", job->lora } };
    snprintf(tp, sizeof tp, "cspeed.mesh.tp=%d", job->tp);
    cs_engine *engine = run_open(&spec, new_model());
    for (int i = 0; i < STEPS; i++) {
        run_step(engine, &spec);
        job->result[cs_rank(engine)].loss[i] = cs_last_step(engine).loss;
        job->result[cs_rank(engine)].norm[i] = cs_last_step(engine).grad_norm;
    }
    cs_destroy(engine);
    return 0;
}

static void compare(int stage, const char *lora)
{
    order one = { .tp = 1, .stage = stage, .lora = lora, .result = run_share(sizeof *one.result) };
    order all = { .tp = 3, .stage = stage, .lora = lora, .result = run_share(3 * sizeof *all.result) };
    run_ranks(1, train, &one);
    run_ranks(3, train, &all);
    for (int rank = 0; rank < 3; rank++)
        for (int i = 0; i < STEPS; i++) {
            ck_assert_double_eq(all.result[rank].loss[i], one.result->loss[i]);
            ck_assert_double_eq(all.result[rank].norm[i], one.result->norm[i]);
        }
    run_unshare(one.result, sizeof *one.result);
    run_unshare(all.result, 3 * sizeof *all.result);
}

START_TEST(ranks_with_copies_of_a_model_train_as_one_rank)
{
    for (int stage = 0; stage <= 3; stage++)
        compare(stage, NULL);
    compare(1, "cspeed.lora={\"r\": 2, \"targets\": [\"down_proj\", \"shared_expert_gate\"]}");
}
END_TEST

/* cs_op_embed ends the program at a token outside of a table that it knows to be whole. */
START_TEST(a_table_that_is_not_cut_is_whole)
{
    cs_model *model = new_model();
    cs_embed *embed = cs_unit_self(model->units[0], sizeof *embed);
    ck_assert_int_eq(embed->first, CS_WHOLE_TABLE);
    cs_model_free(model);
}
END_TEST

SUITE_MAIN("own_model_ranks", ranks_with_copies_of_a_model_train_as_one_rank, a_table_that_is_not_cut_is_whole)
