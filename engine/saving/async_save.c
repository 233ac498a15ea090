/* async_save.c - saves checkpoints in the foreground or in the background, and reports the result to the program. */
#include "base/must.h"
#include "base/misuse.h"
#include "saving/saving.h"
#include "base/beat.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cs_status ce_async_save_open(cs_engine *engine)
{
    engine->metrics.saved_step = -1;
    engine->saving = ce_must_alloc(sizeof *engine->saving);
    engine->saving->average = ce_average_open(engine);
    if (engine->settings->io_buffer_size % 4096 != 0)
        return ce_fail(CS_BAD_CONFIG, "cspeed.checkpoint.io_buffer_size: %lld is not a multiple of 4096",
                       (long long)engine->settings->io_buffer_size);
    return CS_OK;
}

void ce_async_save_close(cs_engine *engine)
{
    if (!engine->saving)
        return;
    if (ce_background_busy(engine->saving->async.work))
        ce_async_save_finish(engine); /* ce_async_save_finish logs a failed save itself. */
    ce_background_close(engine->saving->async.work);
    free(engine->saving->async.why);
    free(engine->saving->async.resume_dir);
    free(engine->saving->async.in_progress);
    free(engine->saving->async.good);
    ce_ancestry_close(engine);
    ce_average_close(engine);
    free(engine->saving);
}

static void name_good(ce_async_save *saving, char *place)
{
    free(saving->good);
    saving->good = place;
}

/* Returns a checkpoint's name for messages, such as "global_step20 in runs/mine". The caller frees the name. */
static char *place_of(const char *dir, const char *tag)
{
    return ce_must_print("%s in %s", tag, dir);
}

void ce_async_save_trust(cs_engine *engine, const char *dir, const char *tag)
{
    name_good(&engine->saving->async, place_of(dir, tag));
}

/* Returns the status of a failed save, and sets cs_error() to a message about it. */
static cs_status refuse(const ce_async_save *saving, cs_status status, const char *why)
{
    if (status != CS_NOT_FINITE)
        return ce_fail(status, "the checkpoint of step %lld was not saved: %s", (long long)saving->step, why);
    return ce_fail(status, "the checkpoint of step %lld was not saved: %s; %s%s", (long long)saving->step, why,
                   saving->good ? "the last checkpoint with finite values is "
                                : "there is no checkpoint with finite values",
                   saving->good ? saving->good : "");
}

/* Ends the save in progress. If it failed, rank 0 logs this now, and the next function that saves or loads a checkpoint
 * returns the status of the failed save on all ranks. */
static void end(cs_engine *engine, cs_status status)
{
    ce_async_save *saving = &engine->saving->async;
    if (status == CS_OK) {
        if (saving->in_progress)
            name_good(saving, saving->in_progress);
        saving->in_progress = NULL;
        engine->metrics.saved_step = saving->step;
        engine->metrics.save_stall = saving->stall;
        ce_ancestry_saved(engine);
        if (saving->resumes)
            ce_beat_keep(saving->step);
        return;
    }
    saving->status = status;
    saving->why = ce_must_copy(cs_error());
    ce_log(CE_LOG_WARNING, "the checkpoint of step %lld was not saved, earlier ones are as they were: %s",
           (long long)saving->step, cs_error());
}

cs_status ce_async_save_start(cs_engine *engine, const char *dir, const ce_checkpoint_content *content, double begun)
{
    ce_async_save *saving = &engine->saving->async;
    saving->step = content->step;
    free(saving->in_progress);
    saving->in_progress = engine->metrics.not_finite > 0 ? NULL : place_of(dir, content->tag);
    saving->resumes = saving->resume_dir && strcmp(saving->resume_dir, dir) == 0;
    cs_status status = engine->settings->async_save ? ce_background_save(&saving->work, engine->comm, dir, content)
                                                    : ce_checkpoint_save(engine->comm, dir, content);
    saving->stall = ce_clock_seconds() - begun;
    if (status == CS_OK && !engine->settings->async_save)
        end(engine, CS_OK);
    return status == CS_NOT_FINITE ? refuse(saving, status, cs_error()) : status;
}

cs_status ce_async_save_finish(cs_engine *engine)
{
    ce_async_save *saving = &engine->saving->async;
    ce_step_settle(engine);
    engine->parts_saved = 0; /* number of ranks that have written their parts; the next save counts from 0 */
    CE_OBSERVE(engine, agreed, (engine));
    if (ce_background_busy(saving->work)) {
        double begun = ce_clock_seconds();
        ce_walk_settle(engine);
        cs_status status = ce_background_finish(saving->work);
        saving->stall += ce_clock_seconds() - begun;
        end(engine, status);
    }
    if (!saving->why)
        return CS_OK;
    cs_status status = refuse(saving, saving->status, saving->why);
    free(saving->why);
    saving->why = NULL;
    return status;
}

/* ---- the points of a step ---- */

/* Waits until the save in progress has copied the state. */
static void hold(cs_engine *engine)
{
    double begun = ce_clock_seconds();
    ce_background_hold(engine->saving->async.work);
    engine->saving->async.stall += ce_clock_seconds() - begun;
}

/* A save in progress copies the averages too, so they change only when it has done so. */
static void begin_phase(cs_engine *engine, ce_phase phase)
{
    if (phase != CE_STEP)
        return;
    ce_schedule_change_say(engine);
    if (engine->saving->average)
        hold(engine);
    ce_average_take(engine);
}

static void count_ready(cs_engine *engine, ce_step_sums *sums)
{
    sums->saved = ce_background_ready(engine->saving->async.work);
}

/* Continues the save in progress if the sum of count_ready over all ranks shows that all have written their parts. */
static void advance(cs_engine *engine)
{
    ce_async_save *saving = &engine->saving->async;
    int64_t ready = engine->parts_saved;
    engine->parts_saved = 0;
    if (ready < engine->world.size)
        return;
    double begun = ce_clock_seconds();
    cs_status status = ce_background_advance(saving->work);
    saving->stall += ce_clock_seconds() - begun;
    if (!ce_background_busy(saving->work))
        end(engine, status);
}

static cs_status end_run(cs_engine *engine, const char **kept)
{
    cs_status status = ce_async_save_finish(engine);
    *kept = engine->saving->async.good;
    return status;
}

const ce_observer ce_async_save_observer = {
    .phase_begin = begin_phase, .sums_add = count_ready, .agreed = advance, .before_update = hold, .run_end = end_run
};

cs_status cs_finish_checkpoint(cs_engine *engine)
{
    CE_GIVEN(engine);
    return ce_async_save_finish(engine);
}

/* Returns the number of bytes that a copy of one rank's elements of a parameter needs. The number does not depend on the
 * ZeRO stage, because cs_save_checkpoint lists the same pieces at every stage. */
static size_t copy_bytes(const ce_zero *zero, const cs_unit *unit, ce_unit_entry *entry, ce_range own, bool averages)
{
    ce_range local = { own.from - entry->offset, own.to - entry->offset };
    ce_shard_piece pieces[CE_PIECES_EACH];
    int divided = ce_shard_divide(pieces, entry, ce_range_overlap(local, (ce_range){ 0, entry->count }));
    size_t slots = entry->param.frozen ? 0 : (size_t)zero->groups->group[entry->group].optimizer.slots, bytes = 0;
    size_t average = averages && !entry->param.frozen ? sizeof(float) : 0;
    cs_dtype dtype = entry->param.frozen ? ce_stage_values(zero, unit) : zero->precision.masters;
    cs_dtype state = slots ? ce_slots_type(zero, entry) : CS_F32;
    for (int i = 0; i < divided; i++) {
        size_t count = pieces[i].copy ? 0 : (size_t)ce_range_length(pieces[i].range);
        size_t scales = state == CS_U8 ? (count + CE_OPTIM_BLOCK - 1) / CE_OPTIM_BLOCK * sizeof(float) : 0;
        bytes += ce_background_piece_bytes(count * cs_dtype_bytes(dtype)) +
                 slots * ce_background_piece_bytes(count * cs_dtype_bytes(state)) +
                 (scales ? slots * ce_background_piece_bytes(scales) : 0) +
                 (average ? ce_background_piece_bytes(count * average) : 0);
    }
    return bytes;
}

size_t ce_async_save_copy(const cs_engine *engine)
{
    size_t bytes = 0;
    for (int i = 0; engine->settings->async_save && i < engine->model->total; i++) {
        const cs_unit *unit = engine->model->units[i];
        ce_range own = ce_stage_own(&engine->zero, ce_stage_padded(&engine->zero, unit->length));
        for (int at = 0; at < unit->entry_count; at++)
            bytes += copy_bytes(&engine->zero, unit, unit->entries[at], own, engine->settings->ema_decay > 0);
    }
    return engine->settings->async_save ? ce_background_bytes(bytes) : 0;
}
