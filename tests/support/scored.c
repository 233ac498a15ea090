/* scored.c - short trainings on files of texts or of pairs of answers, and their evaluation. */
#include "scored.h"
#include "runs.h"
#include "shell.h"

#include <check.h>
#include <math.h>
#include <stdio.h>

enum { SAMPLES = 4, LINES = 11 };

typedef struct {
    const scored_spec *spec;
    scored_result *result;
} order;

/* Writes lines for a model whose tokens are bytes. The lines of an evaluation do not fill its last micro-batch. */
static void write_lines(const char *path, bool pairs)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < LINES; i++)
        fprintf(file,
                pairs ? "{\"prompt\": \"What is %d?\", \"chosen\": \" A green %d\", \"rejected\": \" No%s\"}\n"
                      : "{\"text\": \"What is %d? It is %d, and not more%s.\"}\n",
                i, i * i, i % 3 ? "" : ", never");
    ck_assert_int_eq(fclose(file), 0);
}

static cs_engine *open_engine(const scored_spec *spec)
{
    char tp[32];
    run_spec run = {
        .world = spec->lanes * spec->tp,
        .stage = spec->stage,
        .steps = SCORED_STEPS,
        .micro = SAMPLES / spec->lanes,
        .precision = "fp32",
        .prefetch = 1,
        .set = { "cspeed.model={\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 5, \"n_embd\": 40, "
                 "\"n_positions\": 32, \"vocab_size\": 257, \"initializer_range\": 0.15, \"resid_pdrop\": "
                 "0, \"embd_pdrop\": 0, \"attn_pdrop\": 0}",
                 "cspeed.data={\"train\": \"train.jsonl\", \"valid\": \"valid.jsonl\", \"seq_len\": 32, \"cache\": \"cache\"}",
                 tp, spec->sequence ? "cspeed.mesh.sequence=true" : "cspeed.mesh.sequence=false",
                 spec->alone ? "cspeed.eval_on=rank0" : "cspeed.eval_on=all",
                 spec->pairs ? "cspeed.dpo.beta=0.1" : NULL }
    };
    snprintf(tp, sizeof tp, "cspeed.mesh.tp=%d", spec->tp);
    return run_open(&run, NULL);
}

static int train(void *argument)
{
    const order *job = argument;
    cs_engine *engine = open_engine(job->spec);
    cs_data *samples, *held;
    int rank = cs_rank(engine);
    CS_MUST(cs_data_open(&samples, engine, "train"));
    CS_MUST(cs_data_open(&held, engine, "valid"));
    for (int step = 0; step < SCORED_STEPS; step++) {
        cs_batch batch = cs_data_next(samples);
        cs_forward(engine, &batch);
        cs_backward(engine);
        cs_step(engine);
        job->result->loss[rank][step] = cs_last_step(engine).loss;
    }
    CS_MUST(cs_score(engine, held, 0, &job->result->scores[rank]));
    cs_data_close(held);
    cs_data_close(samples);
    cs_destroy(engine);
    return 0;
}

scored_result *scored_run(const scored_spec *spec)
{
    order job = { spec, run_share(sizeof *job.result) };
    ck_assert_int_le(spec->lanes * spec->tp, SCORED_RANKS);
    shell_enter();
    write_lines("train.jsonl", spec->pairs);
    write_lines("valid.jsonl", spec->pairs);
    run_ranks(spec->lanes * spec->tp, train, &job);
    shell_leave();
    return job.result;
}

static void near(double got, double want, double bound, const char *name, const char *what)
{
    ck_assert_msg(fabs(got - want) <= bound, "%s: %s is %.9g, on one rank %.9g", what, name, got, want);
}

void scored_compare(const scored_spec *spec, const scored_result *got, const scored_result *one)
{
    char what[128];
    const cs_scores *want = &one->scores[0];
    for (int rank = 0; rank < spec->tp * spec->lanes; rank++) {
        const cs_scores *scores = &got->scores[rank];
        snprintf(what, sizeof what, "%s, tp %d x %d lanes, stage %d%s, rank %d", spec->pairs ? "pairs" : "texts",
                 spec->tp, spec->lanes, spec->stage, spec->alone ? ", on rank 0" : "", rank);
        for (int i = 0; i < SCORED_STEPS; i++)
            near(got->loss[rank][i], one->loss[0][i], 2e-6 * one->loss[0][i], "the loss", what);
        near(scores->loss, want->loss, 2e-6 * want->loss, "the evaluated loss", what);
        if (spec->pairs)
            near(scores->preference.margin, want->preference.margin, 1e-5, "the margin", what);
        ck_assert_msg(scores->tokens == want->tokens && scores->correct == want->correct &&
                          scores->pairs == want->pairs,
                      "%s: %lld of %lld tokens are right, and %lld pairs, on one rank %lld of %lld, and %lld", what,
                      (long long)scores->correct, (long long)scores->tokens, (long long)scores->pairs,
                      (long long)want->correct, (long long)want->tokens, (long long)want->pairs);
    }
}

void scored_free(scored_result *result)
{
    run_unshare(result, sizeof *result);
}
