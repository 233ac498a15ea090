/* session.c - one training run: resuming, the work of each step, and the final checkpoint and export. */
#include "base/must.h"
#include "train.h"
#include "base/asked.h"
#include "base/plural.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WRONG_CONFIG = 78 };

/* ---- after a step ---- */

static bool learns_pairs(const session *run)
{
    return cs_config_get_number(run->config, "cspeed.dpo.beta") > 0;
}

static cs_scores validate(session *run)
{
    cs_scores scores = { .loss = (double)NAN };
    int64_t batches = cs_config_get_int(run->config, "cspeed.eval_batches"), step = cs_last_step(run->engine).step;
    if (!run->valid)
        return scores;
    if (learns_pairs(run)) {
        CS_MUST(cs_score(run->engine, run->valid, batches, &scores));
        say("step %" PRId64 "  valid loss %.4f  rewards/accuracies %.4f  rewards/margins %.4f", step, scores.loss,
            scores.preference.accuracy, scores.preference.margin);
    } else {
        CS_MUST(cs_evaluate(run->engine, run->valid, batches, &scores.loss));
        say("step %" PRId64 "  valid loss %.4f", step, scores.loss);
    }
    cs_write_scores(run->engine, &scores);
    return scores;
}

/* Reports that a checkpoint is complete. With cspeed.async_save this happens some steps after the save began. */
static void say_saved(session *run)
{
    cs_metrics m = cs_last_step(run->engine);
    if (m.saved_step == run->saved)
        return;
    run->saved = m.saved_step;
    if (cs_config_get_bool(run->config, "cspeed.async_save"))
        say("saved %s/global_step%" PRId64 ", while training paused for %.1f ms", run->output, m.saved_step,
            1e3 * m.save_stall);
    else
        say("saved %s/global_step%" PRId64, run->output, m.saved_step);
}

/* Says why the process ends now, and how the training goes on. */
static void say_asked_end(const session *run)
{
    int64_t step = cs_last_step(run->engine).step;
    if (run->saved >= 0)
        say("a signal ends the training after step %" PRId64 "; the same command continues from %s/global_step%" PRId64,
            step, run->output, run->saved);
    else
        say("a signal ends the training after step %" PRId64 ", and no checkpoint was saved", step);
}

/* Saves a checkpoint. Returns false if none was saved, because a parameter is not finite, and the training continues. */
static bool save(session *run)
{
    cs_metrics m = cs_last_step(run->engine);
    CE_FREED char *best = best_text(run);
    CE_FREED char *fitted = run->fitted ? ce_must_print(", \"fitted_steps\": %" PRId64, run->steps) : ce_must_copy("");
    CE_FREED char *spent =
        run->budget.seconds > 0 ? ce_must_print(", \"trained_seconds\": %.3f", run->budget.spent) : ce_must_copy("");
    CE_FREED char *client = ce_must_print("{\"step\": %" PRId64 ", \"epoch\": %.9g, \"samples\": %" PRId64
                                          ", \"tokens\": %" PRId64 ", %s%s%s}",
                                          m.step, m.epoch, m.samples, m.tokens, best, fitted, spent);
    owner_check(run->engine);
    cs_status status = cs_save_checkpoint(run->engine, run->output, NULL, client);
    if (status != CS_NOT_FINITE || m.step == run->steps)
        CS_MUST(status);
    /* training continues without this checkpoint, until cspeed.nan_patience ends the run */
    if (status == CS_NOT_FINITE)
        complain("%s", cs_error());
    else if (m.not_finite > 0) /* the last step's loss or gradients are not finite; the parameters may still be good */
        complain("the loss or the gradients of the last step, %" PRId64 ", are not finite. Its checkpoint is saved, "
                 "because its parameters are finite, and earlier ones are kept: --tag returns to one of them",
                 m.step);
    say_saved(run);
    return status == CS_OK;
}

/* Returns the seconds since the previous call of this function. */
static double lap(session *run)
{
    double before = run->marked;
    run->marked = ce_clock_seconds();
    return run->marked - before;
}

/* Returns how many checkpoints or evaluations are due in the first `step` steps, without the one after the last step.
 * `interval` and `per_epoch` are keys of the configuration, of which at most one is above 0. With `per_epoch` one is due
 * after the step that completes a further part of an epoch. */
static int64_t count_due(const session *run, int64_t step, const char *interval, const char *per_epoch)
{
    int64_t steps = cs_config_get_int(run->config, interval), parts = cs_config_get_int(run->config, per_epoch);
    double samples = (double)step * (double)cs_config_get_int(run->config, "train_batch_size");
    return steps > 0 ? step / steps : (int64_t)(samples * (double)parts / (double)cs_data_windows(run->train));
}

static int64_t count_saves(const session *run, int64_t step)
{
    return count_due(run, step, "cspeed.save_interval", "cspeed.saves_per_epoch");
}

static int64_t count_evaluations(const session *run, int64_t step)
{
    return count_due(run, step, "cspeed.eval_interval", "cspeed.evals_per_epoch");
}

void session_step(session *run)
{
    cs_metrics m = cs_last_step(run->engine);
    time_budget_step(&run->budget, lap(run));
    double elapsed = ce_clock_seconds() - run->started, pace = time_budget_pace(&run->budget);
    progress_draw(&run->progress, &m, run->steps, pace > 0 ? pace : elapsed, elapsed);
    fit_steps_again(run);
    bool last = m.step == run->steps,
         check = last || count_evaluations(run, m.step) > count_evaluations(run, m.step - 1);
    cs_scores valid = check ? validate(run) : (cs_scores){ .loss = (double)NAN };
    bool better = check && run->valid && best_take(run, &valid), saved = false;
    if (!last && best_ends(run)) {
        best_say_end(run);
        run->steps = m.step;
        last = true;
    }
    cs_expert_load load = cs_expert_load_of(run->engine);
    metrics_file_write(&run->metrics, &m, &valid, learns_pairs(run), &load, check);
    say_saved(run);
    bool asked = cs_save_asked(run->engine);
    if (asked)
        say("step %" PRId64 "  a signal asks for a checkpoint", m.step);
    if (asked || last || better || count_saves(run, m.step) > count_saves(run, m.step - 1)) {
        if (m.not_finite > 0 && !last)
            complain("no checkpoint of step %" PRId64 ": its loss or its gradients are not finite", m.step);
        else
            saved = save(run);
    }
    if (better && !saved)
        best_withdraw(run);
    if (asked) { /* with cspeed.async_save too, whoever asks waits for the complete checkpoint */
        CS_MUST(cs_finish_checkpoint(run->engine));
        say_saved(run);
    }
    if (asked && ce_asked_ends() && !getenv("CSPEED_AGENT")) /* the launcher says this in its report */
        say_asked_end(run);
    time_budget_pause(&run->budget, lap(run));
}

/* ---- the start ---- */

/* Returns the number that the member `key` has in an object written by `save`, or `fallback` if there is no such
 * member. */
static double number_after(const char *json, const char *key, double fallback)
{
    char *quoted = ce_must_print("\"%s\":", key), *end;
    const char *at = json ? strstr(json, quoted) : NULL;
    const char *number = at ? at + strlen(quoted) : "";
    double value = strtod(number, &end);
    free(quoted);
    return end > number ? value : fallback;
}

/* Handles --tag without --load: the training goes back to the checkpoint `tag` of its own output folder. Later attempts
 * of the same job do not go back again. */
static cs_status go_back(session *run, const char *tag, char **client)
{
    cs_load_options back = { .rewind = true };
    CS_MUST(cs_load_checkpoint(run->engine, run->output, tag, &back, client));
    outdir_mark_back(run->output);
    return CS_OK;
}

static void resume_budget(session *run, const char *client)
{
    int64_t fitted = (int64_t)number_after(client, "fitted_steps", 0);
    /* earlier versions of cspeed did not record in a checkpoint how much of the time budget was used; this is an
     * estimate */
    double likely = fitted > 0 ? run->budget.seconds * (double)run->first / (double)fitted : 0;
    run->budget.spent = number_after(client, "trained_seconds", likely);
    if (run->options.steps_given)
        return;
    if (fitted > 0)
        fit_steps_take(run, fitted);
    /* an earlier run with --steps N has used the whole time budget */
    else if (run->budget.seconds > 0 && run->budget.spent >= run->budget.seconds)
        fit_steps_take(run, run->first);
}

/* Resumes from the newest checkpoint of the output folder, or from the checkpoint that --load or --tag names. */
static void resume(session *run)
{
    const char *load = cs_config_get_string(run->config, "cspeed.load");
    const char *tag = cs_config_get_string(run->config, "cspeed.tag");
    CE_FREED char *client = NULL;
    bool back = tag && !load && !outdir_went_back(run->engine, run->output);
    cs_status status =
        back ? go_back(run, tag, &client) : cs_load_checkpoint(run->engine, run->output, NULL, NULL, &client);
    run->source = run->output;
    if (status == CS_OK && load)
        say("--load %s has no effect, because %s contains a checkpoint, from which the training continues; --fresh "
            "starts from %s",
            load, run->output, load);
    if (status == CS_NOT_FOUND) {
        run->source = load;
        status = load ? cs_load_checkpoint(run->engine, load, tag, NULL, &client) : CS_OK;
    }
    CS_MUST(status);
    if (!run->source)
        return;
    run->first = cs_last_step(run->engine).step;
    /* a checkpoint of another run (--load) says nothing about this run's time budget and its best checkpoint */
    if (run->source == run->output) {
        resume_budget(run, client);
        best_resume(run, client ? client : "", number_after);
    }
    if (best_ends(run) && run->first < run->steps)
        run->steps = run->first;
    if (run->first <= run->steps)
        say("continuing at step %" PRId64 " of %" PRId64 ", from %s (--fresh starts over)", run->first, run->steps,
            run->source);
}

static void introduce(const session *run)
{
    cs_memory memory = cs_memory_of(run->engine);
    double kept = (double)(memory.values + memory.gradients + memory.masters + memory.slots);
    CE_FREED char *offloaded =
        memory.offloaded ? ce_must_print(" (%.1f MB of it offloaded to the host)", 1e-6 * (double)memory.offloaded)
                         : ce_must_copy("");
    double moving = (double)(memory.value_rows + memory.gradient_rows + memory.activations);
    int ranks = cs_world_size(run->engine), lanes = cs_lanes(run->engine);
    int64_t batch = cs_config_get_int(run->config, "train_batch_size"),
            micro = cs_config_get_int(run->config, "train_micro_batch_size_per_gpu"),
            steps = cs_config_get_int(run->config, "gradient_accumulation_steps"),
            stage = cs_config_get_int(run->config, "zero_optimization.stage");
    int64_t all = cs_parameter_count(run->engine), active = cs_active_parameter_count(run->engine);
    CE_FREED char *experts =
        active < all ? ce_must_print(" (%.2f M compute a token)", 1e-6 * (double)active) : ce_must_copy("");
    say("%.2f M parameters%s, %s, ZeRO-%" PRId64 ", %d rank%s; %s", 1e-6 * (double)all, experts,
        cs_config_get_string(run->config, "precision"), stage, ranks, ce_plural(ranks),
        cs_device_description(run->engine));
    say("memory of a rank: %.1f MB between steps%s, %.1f MB more during one; batch %" PRId64 " = micro-batch %" PRId64
        " x %" PRId64 " accumulated x %d %s%s",
        1e-6 * kept, offloaded, 1e-6 * moving, batch, micro, steps, lanes, lanes < ranks ? "lane" : "rank",
        ce_plural(lanes));
}

/* Checks cspeed.export before the training, so that a folder that cannot be created is reported now and not only at the
 * end. */
static void check_export(session *run)
{
    const char *folder = cs_config_get_string(run->config, "cspeed.export");
    bool asked = folder && is_rank_zero();
    bool there = asked && access(folder, F_OK) == 0;
    run->exported = folder;
    if (cs_agree(run->engine, asked && !there && !outdir_prepare_parent(folder)))
        exit(WRONG_CONFIG);
    if (!cs_agree(run->engine, there))
        return;
    run->exported = NULL;
    if (run->first >= run->steps) {
        say("%s exists already, and is not written again", folder);
        return;
    }
    complain("cspeed.export: %s exists already, but the training that will be written there has not ended; move it "
             "elsewhere, or name another folder by --export",
             folder);
    exit(WRONG_CONFIG);
}

/* Checks at the start whether the disk has room for the checkpoints, since the disk may become full only days later. */
static void check_room(const session *run)
{
    int64_t saves = count_saves(run, run->steps) - count_saves(run, run->first);
    if (cs_config_get_bool(run->config, "cspeed.keep_best"))
        saves += count_evaluations(run, run->steps) - count_evaluations(run, run->first);
    saves += run->first < run->steps && count_saves(run, run->steps) == count_saves(run, run->steps - 1);
    if (is_rank_zero() && cs_checkpoint_room(run->engine, run->output, saves) != CS_OK)
        complain("%s", cs_error());
}

/* Opens the validation data, and reports it if an evaluation reads only a part of them. */
static void open_valid(session *run)
{
    CS_MUST(cs_data_open(&run->valid, run->engine, "valid"));
    int64_t all = cs_data_windows(run->valid), read = cs_config_get_int(run->config, "cspeed.eval_batches") *
                                                      cs_config_get_int(run->config, "train_micro_batch_size_per_gpu");
    if (read > 0 && read < all)
        say("an evaluation reads the first %" PRId64 " of %" PRId64 " samples of the validation data "
            "(cspeed.eval_batches; 0: all)",
            read, all);
}

/* Says that steps have the learning rate 0, if these are at least a hundredth of the steps: DeepSpeed's warm-ups begin
 * with such steps, and some schedules end before the training. */
static void report_idle_rates(const session *run)
{
    int64_t steps = run->steps - run->first, update = run->first - run->skipped, first = 0, last = 0;
    while (first < steps && !(cs_schedule_rate(run->engine, update + first) > 0))
        first++;
    while (last < steps - first && !(cs_schedule_rate(run->engine, update + steps - 1 - last) > 0))
        last++;
    if (first > 0 && 100 * first >= steps)
        say("note: learning rate 0 in the first %" PRId64 " of %" PRId64 " steps (scheduler)", first, steps);
    if (last > 0 && 100 * last >= steps)
        say("note: learning rate 0 in the last %" PRId64 " of %" PRId64 " steps (scheduler)", last, steps);
}

session session_open(char **argument)
{
    session run = { .best = { .value = (double)NAN }, .saved = -1 };
    ce_asked_ignore_saves(); /* until the first step, after which they are answered */
    run.config = arguments_read(argument, &run.options);
    CS_MUST(train_line_need_data(run.config));
    run.output = ce_must_copy(cs_config_get_string(run.config, "cspeed.output"));
    for (size_t end = strlen(run.output); end > 1 && run.output[end - 1] == '/'; end--)
        run.output[end - 1] = 0;
    outdir_claim(run.output, run.options.force_output);
    progress_open(&run.progress, run.config);
    CS_MUST(cs_initialize(&run.engine, run.config, NULL));
    /* all ranks must agree whether the time budget limits the number of steps */
    run.options.steps_given = cs_agree(run.engine, run.options.steps_given);
    CS_MUST(cs_data_open(&run.train, run.engine, "train"));
    if (cs_config_get_string(run.config, "cspeed.data.valid"))
        open_valid(&run);
    /* the number of steps is read here, because with cspeed.epochs it is known only after the data is opened */
    run.steps = run.max_steps = cs_config_get_int(run.config, "cspeed.steps");
    fit_steps_begin(&run);
    introduce(&run);
    outdir_prepare(run.engine, run.output, run.options.fresh);
    resume(&run);
    check_export(&run);
    check_room(&run);
    metrics_file_open(&run.metrics, metrics_file_path(run.output, cs_config_get_string(run.config, "cspeed.metrics")),
                      run.first);
    run.skipped = cs_last_step(run.engine).skipped;
    report_idle_rates(&run);
    run.started = run.marked = ce_clock_seconds();
    if (run.first > run.steps)
        say("%s is past step %" PRId64 ": %" PRId64 " steps are done; a greater --steps N continues, --fresh starts "
            "over",
            run.source ? run.source : run.output, run.steps, run.first);
    else if (best_ends(&run))
        best_say_end(&run);
    else if (run.first == run.steps)
        say("%s is finished: %" PRId64 " of %" PRId64 " steps are done; a greater --steps N continues, --fresh "
            "starts over",
            run.source ? run.source : run.output, run.first, run.steps);
    return run;
}

/* ---- the end ---- */

/* Exports the best checkpoint with cspeed.keep_best, otherwise the last. If no step was left when the run began, the last checkpoint is the one from which the
 * run resumed. */
static void export(session *run)
{
    bool idle = run->first >= run->steps && run->source;
    const char *from = idle ? run->source : run->output;
    CE_FREED char *best = best_tag(run);
    const char *tag = from != run->output ? cs_config_get_string(run->config, "cspeed.tag") : best;
    if (!run->exported)
        return;
    cs_status status = cs_export(run->engine, from, tag, run->exported);
    if (status != CS_OK)
        complain("%s was not written, but the checkpoint in %s is complete: the same command writes it, or `cspeed "
                 "export %s DIR`",
                 run->exported, from, from);
    CS_MUST(status);
    bool adapters =
        cs_config_get_int(run->config, "cspeed.lora.r") > 0 && !cs_config_get_bool(run->config, "cspeed.lora.merge");
    say("wrote %s, a %s folder", run->exported, adapters ? "PEFT" : "Hugging Face");
}

/* Says that the training has changed nothing. Ten such steps in a row are an error (cspeed.nan_patience), but a short
 * run, or one whose loss scale never fitted, can end earlier. */
static void report_idle(const session *run)
{
    cs_metrics m = cs_last_step(run->engine);
    int64_t steps = m.step - run->first;
    if (steps > 0 && m.skipped - run->skipped == steps)
        complain(
            "%" PRId64 " of %" PRId64
            " steps were skipped, so no parameter has changed: their gradients overflowed, or no sample had a target",
            steps, steps);
}

/* Nothing is left to save. If a signal has asked any rank for the end, in the last step or after it, all ranks end before
 * the export; later a signal ends its rank at once. */
static void end_if_asked(session *run)
{
    bool asked = ce_asked_ends();
    asked |= ce_asked_restore();
    CE_FREED char *all = cs_gather(run->engine, asked ? "asked" : "");
    asked = cs_agree(run->engine, all && *all);
    if (!asked)
        return;
    if (run->exported)
        complain("a signal ends the training before %s is written: the same command writes it", run->exported);
    ce_asked_end();
}

void session_close(session *run)
{
    report_idle(run);
    CS_MUST(cs_finish_checkpoint(run->engine));
    say_saved(run);
    end_if_asked(run);
    cs_log_summary(run->engine);
    best_load(run);
    export(run);
    sample_text_print(run->engine, run->config);
    ending_print(run);
    metrics_file_close(&run->metrics);
    cs_data_close(run->valid);
    cs_data_close(run->train);
    cs_destroy(run->engine);
    free(run->output);
}
