/* evaluate.c - cs_evaluate, cs_score, cs_predict: forward passes that keep no activations. The mean loss is an exact
 * sum of losses divided by their number. So every number of lanes gives the same mean loss, bit for bit. */
#include "query/query.h"
#include "base/misuse.h"
#include "input/input.h"
#include "base/must.h"
#include "base/progress.h"
#include "data/data.h"
#include "input/loader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The sums of an evaluation in device memory: first over this rank's batches, at the end over all ranks. */
typedef struct {
    ce_exact loss, hits, pairs[CE_PAIR_MEANS];
    int64_t rows, pair_rows;
} sums;

/* Scratch tensors in device memory; a tensor that the evaluation does not need is absent. */
typedef struct {
    cs_tensor hits;  /* shape (rows, 1) */
    cs_tensor facts; /* ce_preference_rows.facts of one micro-batch */
} scratch;

static cs_tensor alloc_matrix(cs_engine *engine, int64_t rows, int64_t columns)
{
    size_t bytes = (size_t)(rows * columns) * sizeof(float);
    return cs_matrix(ce_device_alloc(engine->device, bytes), CS_F32, rows, columns);
}

static scratch open_scratch(cs_engine *engine, bool hits)
{
    scratch opened = { 0 };
    if (hits)
        opened.hits = alloc_matrix(engine, engine->sequences * engine->length, 1);
    if (ce_preference_is_on(engine))
        opened.facts = alloc_matrix(engine, CE_PREFERENCE_FACTS, engine->sequences / CE_ANSWERS);
    return opened;
}

static void close_scratch(cs_engine *engine, scratch *opened)
{
    if (opened->hits.data)
        ce_device_free(engine->device, opened->hits.data);
    if (opened->facts.data)
        ce_device_free(engine->device, opened->facts.data);
}

/* Adds the losses of one batch to the sums: one loss for each row, or for each pair in preference training. */
static void add_losses(cs_engine *engine, cs_tensor loss, cs_tensor facts, sums *all)
{
    cs_stream *stream = cs_pass_stream(engine->pass);
    if (!facts.data) {
        ce_state_sum(stream, &all->loss, loss.data, cs_count(loss));
        return;
    }
    ce_preference_facts(engine, loss, facts);
    for (int i = 0; i <= CE_PAIR_MEANS; i++)
        ce_state_sum(stream, i == CE_PREFERENCE_LOSS ? &all->loss : &all->pairs[i - 1],
                     cs_matrix_rows(facts, i, 1).data, cs_columns(facts));
}

/* Evaluates one batch: adds its losses and its correct predictions (hits) to *all, and the numbers of its targets and
 * pairs to *counted. If targets are numbers, the first `rows` rows count. */
static void add_batch(cs_engine *engine, const cs_batch *batch, int64_t rows, const scratch *with, sums *all,
                      sums *counted)
{
    const int32_t *target = batch->targets.data;
    bool numbers = batch->targets.dtype == CS_F32;
    cs_stream *stream = cs_pass_stream(engine->pass);
    if (with->hits.data)
        cs_op_fill(stream, with->hits, -1); /* -1 remains in `hits` if the last unit does not compute them */
    cs_tensor loss = ce_forward_units(engine, engine->pass,
                                      &(ce_forward_input){ .mode = CE_PASS_EVALUATION,
                                                           .inputs = batch->inputs,
                                                           .targets = batch->targets,
                                                           .starts = batch->starts,
                                                           .references = batch->references,
                                                           .hits = with->hits });
    add_losses(engine, numbers ? cs_matrix_rows(loss, 0, rows) : loss, with->facts, all);
    if (with->hits.data)
        ce_state_sum(stream, &all->hits, with->hits.data, cs_count(with->hits));
    ce_pass_let_go(engine->pass, loss);
    ce_pass_end(engine->pass);
    counted->rows += numbers ? rows : 0;
    for (int64_t i = 0; i < cs_count(batch->targets) && !numbers; i++)
        counted->rows += target[i] >= 0;
    if (with->facts.data)
        counted->pair_rows += ce_preference_count(batch->targets);
}

static cs_scores scores_of(const sums *all, bool pairs)
{
    int64_t count = pairs ? all->pair_rows : all->rows;
    double correct = ce_exact_value(&all->hits), means[CE_PAIR_MEANS];
    for (int i = 0; i < CE_PAIR_MEANS; i++)
        means[i] = pairs && count ? ce_exact_value(&all->pairs[i]) / (double)count : (double)NAN;
    cs_scores scores = { .loss = count ? ce_exact_value(&all->loss) / (double)count : (double)NAN,
                         .tokens = all->rows,
                         .correct = correct < 0 ? -1 : (int64_t)correct,
                         .pairs = all->pair_rows };
    ce_preference_report(&scores.preference, means);
    return scores;
}

/* Returns true if rank 0 cannot run a forward pass without this rank: all ranks of lane 0 run it together. If the
 * parameters are sharded over a group of ranks that has no common copy of them, the other ranks of the groups of lane 0
 * help too. */
static bool helps_rank0(const cs_engine *engine)
{
    bool shares = engine->zero.stage.params == CE_SHARDED && !engine->zero.common;
    return ce_mesh_lane(&engine->mesh) == 0 || (shares && engine->mesh.own[CE_AXIS_REPLICATE] == 0);
}

/* How the micro-batches of an evaluation are divided among lanes. */
typedef struct {
    int64_t wanted, rounds;
    int sharers; /* number of lanes that evaluate micro-batches */
} shares;

/* If `batches` is 0, all of the data is evaluated. */
static shares share_batches(const cs_engine *engine, const cs_data *data, int64_t batches, bool alone)
{
    int64_t micro = engine->settings->micro_batch, whole = ce_divide_up(cs_data_windows(data), micro);
    shares shared = { .wanted = batches > 0 && batches < whole ? batches : whole,
                      .sharers = alone ? 1 : ce_mesh_lanes(&engine->mesh) };
    shared.rounds = ce_divide_up(shared.wanted, shared.sharers);
    if (alone && !helps_rank0(engine))
        shared.rounds = 0;
    return shared;
}

/* Returns the number of this rank's micro-batch in `round`, which all ranks of a lane share, or -1 if there is none; the
 * rank then takes part with a batch without targets. */
static int64_t micro_of(const cs_engine *engine, const shares *shared, int64_t round)
{
    int lane = ce_mesh_lane(&engine->mesh);
    int64_t micro = round * shared->sharers + lane;
    return lane < shared->sharers && micro < shared->wanted ? micro : -1;
}

/* Adds to the progress line the micro-batches that all lanes have evaluated in `round`. */
static void advance(ce_progress *progress, const shares *shared, int64_t round)
{
    int64_t left = shared->wanted - round * shared->sharers;
    ce_progress_add(progress, left < shared->sharers ? left : shared->sharers);
}

static cs_scores evaluate(cs_engine *engine, cs_data *data, int64_t batches, bool hits)
{
    sums all, counted = { 0 }, *there = ce_device_alloc(engine->device, sizeof all);
    shares shared = share_batches(engine, data, batches, engine->settings->eval_on == CE_EVALUATE_ON_RANK0);
    scratch with = open_scratch(engine, hits);
    ce_progress progress;
    ce_phase_begin(engine, CE_EVALUATE);
    ce_step_settle(engine); /* prints the messages about the previous step before the evaluation begins */
    ce_progress_begin(&progress, "evaluating", "batches", shared.wanted);
    for (int64_t round = 0; round < shared.rounds; round++) {
        int64_t rows;
        cs_batch batch = ce_loader_lane(data, micro_of(engine, &shared, round), &rows);
        add_batch(engine, &batch, rows, &with, there, &counted);
        advance(&progress, &shared, round);
    }
    ce_walk_settle(engine);
    ce_progress_end(&progress);
    ce_stream_fetch(cs_pass_stream(engine->pass), &all, there, sizeof all);
    ce_device_free(engine->device, there);
    close_scratch(engine, &with);
    all.rows = counted.rows;
    all.pair_rows = counted.pair_rows;
    if (!ce_mesh_leads(&engine->mesh))
        all = (sums){ 0 };
    cs_comm_all_reduce(engine->comm, &all, (int64_t)(sizeof all / sizeof(int64_t)), CS_I64, CS_SUM);
    ce_phase_end(engine, CE_EVALUATE);
    return scores_of(&all, ce_preference_is_on(engine));
}

cs_status cs_evaluate(cs_engine *engine, cs_data *data, int64_t batches, double *loss)
{
    CE_GIVEN(engine, data, loss);
    ce_phase_expect(engine, CE_FORWARD, "cs_evaluate");
    *loss = evaluate(engine, data, batches, false).loss;
    return CS_OK;
}

cs_status cs_score(cs_engine *engine, cs_data *data, int64_t batches, cs_scores *scores)
{
    CE_GIVEN(engine, data, scores);
    ce_phase_expect(engine, CE_FORWARD, "cs_score");
    *scores = evaluate(engine, data, batches, true);
    return CS_OK;
}

cs_status cs_losses(cs_engine *engine, const cs_batch *batch, float *losses)
{
    CE_GIVEN(engine, batch, losses);
    ce_forward_check(engine, batch, __func__, false);
    ce_phase_begin(engine, CE_EVALUATE);
    cs_tensor loss = ce_forward_units(engine, engine->pass,
                                      &(ce_forward_input){ .mode = CE_PASS_EVALUATION,
                                                           .inputs = batch->inputs,
                                                           .targets = batch->targets,
                                                           .starts = batch->starts });
    ce_stream_fetch(cs_pass_stream(engine->pass), losses, loss.data, (size_t)cs_count(loss) * sizeof *losses);
    ce_pass_let_go(engine->pass, loss);
    ce_pass_end(engine->pass);
    ce_phase_end(engine, CE_EVALUATE);
    return CS_OK;
}

/* ---- log-probabilities of pairs ---- */

/* Copies the log-probabilities of a micro-batch's pairs to `logps`. `first` is the number of the micro-batch's first
 * pair. */
static void take_pairs(cs_engine *engine, cs_tensor facts, float *logps, int64_t first, int64_t count)
{
    int64_t pairs = cs_columns(facts);
    CE_FREED float *fetched = ce_must_alloc((size_t)cs_count(facts) * sizeof *fetched);
    ce_stream_fetch(cs_pass_stream(engine->pass), fetched, facts.data, (size_t)cs_count(facts) * sizeof *fetched);
    for (int64_t b = 0; b < pairs && first + b < count; b++) {
        logps[CE_ANSWERS * (first + b) + CE_CHOSEN] = fetched[CE_PREFERENCE_CHOSEN_LOGP * pairs + b];
        logps[CE_ANSWERS * (first + b) + CE_REJECTED] = fetched[CE_PREFERENCE_REJECTED_LOGP * pairs + b];
    }
}

/* Each lane computes some of the pairs. One of its ranks takes them and leaves 0 at the other pairs, and the other ranks
 * leave 0 at all pairs, so that the sum over ranks is the log-probabilities of all pairs. */
void ce_evaluate_pairs(cs_engine *engine, cs_data *data, float *logps)
{
    int64_t count = ce_windows_count(data->windows);
    shares shared = share_batches(engine, data, 0, false);
    scratch with = open_scratch(engine, false);
    ce_progress progress;
    ce_phase_begin(engine, CE_EVALUATE);
    ce_progress_begin(&progress, "computing the reference", "batches", shared.wanted);
    memset(logps, 0, (size_t)(CE_ANSWERS * count) * sizeof *logps);
    for (int64_t round = 0; round < shared.rounds; round++) {
        int64_t micro = micro_of(engine, &shared, round), rows;
        cs_batch batch = ce_loader_lane(data, micro, &rows);
        cs_tensor loss =
            ce_forward_units(engine, engine->pass,
                             &(ce_forward_input){
                                 .mode = CE_PASS_EVALUATION, .inputs = batch.inputs, .targets = batch.targets });
        ce_preference_facts(engine, loss, with.facts);
        ce_pass_let_go(engine->pass, loss);
        ce_pass_end(engine->pass);
        if (micro >= 0 && ce_mesh_leads(&engine->mesh))
            take_pairs(engine, with.facts, logps, micro * engine->settings->micro_batch, count);
        advance(&progress, &shared, round);
    }
    ce_walk_settle(engine);
    ce_progress_end(&progress);
    close_scratch(engine, &with);
    cs_comm_all_reduce(engine->comm, logps, CE_ANSWERS * count, CS_F32, CS_SUM);
    ce_phase_end(engine, CE_EVALUATE);
}
