/* disk_space.c - cs_checkpoint_room: checks that the file system has space for the checkpoints that a run will save. */
#include "core/engine.h"
#include "base/misuse.h"
#include "checkpoint/line.h"

#include <errno.h>
#include <sys/statvfs.h>

/* Returns the number of bytes of all tensors of one checkpoint, from all ranks. The checkpoint's texts and headers are
 * small and not counted. */
static int64_t bytes_of(const cs_engine *engine)
{
    const ce_zero *zero = &engine->zero;
    int64_t bytes = 0;
    for (int i = 0; i < engine->model->total; i++) {
        const cs_unit *unit = engine->model->units[i];
        for (int at = 0; at < unit->entry_count; at++) {
            const ce_unit_entry *entry = unit->entries[at];
            int64_t slots = entry->param.frozen ? 0 : zero->groups->group[entry->group].optimizer.slots;
            cs_dtype dtype = entry->param.frozen ? ce_stage_values(zero, unit) : zero->precision.masters;
            int64_t average = engine->settings->ema_decay > 0 && !entry->param.frozen ? (int64_t)sizeof(float) : 0;
            cs_dtype state = slots ? ce_slots_type(zero, entry) : CS_F32;
            bytes += ce_cut_count(&entry->cut) *
                     ((int64_t)cs_dtype_bytes(dtype) + average + slots * (int64_t)cs_dtype_bytes(state));
            if (state == CS_U8)
                bytes += slots * ce_divide_up(ce_cut_count(&entry->cut), CE_OPTIM_BLOCK) * (int64_t)sizeof(float);
        }
    }
    return bytes;
}

/* Returns the number of checkpoints in dir that later saves will delete. */
static int64_t count_prunable(const char *dir)
{
    char latest[CE_TAG_BYTES];
    ce_catalog catalog;
    int64_t count = 0;
    if (ce_catalog_latest(latest, dir) != CS_OK || ce_catalog_open(&catalog, dir) != CS_OK)
        return 0;
    ce_line_follow(&catalog, dir, latest);
    for (int64_t i = 0; i < catalog.count; i++)
        count += !ce_line_is_abandoned(&catalog.items[i]);
    ce_catalog_close(&catalog);
    return count;
}

/* Returns by how many checkpoints `dir` grows at most while `saves` checkpoints are saved. More than keep_last may exist
 * at the same time: one, because an old checkpoint is deleted only after a new one is complete, and with cspeed.keep_best
 * the best one. */
static int64_t count_more(const char *dir, int64_t saves, int64_t keep_last, bool keep_best)
{
    if (keep_last == 0)
        return saves;
    int64_t there = count_prunable(dir), most = keep_last + 1 + keep_best;
    there = there < keep_last ? there : keep_last;
    return there + saves < most ? saves : most - there;
}

cs_status cs_checkpoint_room(const cs_engine *engine, const char *dir, int64_t saves)
{
    CE_GIVEN(engine, dir);
    struct statvfs about;
    int64_t keep_last = engine->settings->keep_last,
            more = count_more(dir, saves, keep_last, engine->settings->keep_best);
    double each = 1.05 * (double)bytes_of(engine);
    if (statvfs(dir, &about) != 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: asking for its free space", dir);
    double free_bytes = (double)about.f_bavail * (double)about.f_frsize;
    if (about.f_blocks == 0 || free_bytes >= (double)more * each)
        return CS_OK;
    return ce_fail(CS_IO_ERROR,
                   "%s: there will be up to %lld more checkpoints of %.1f MB (cspeed.keep_last is %lld; the next one "
                   "is written before the oldest is removed), but the file system has %.1f MB free, so a save will "
                   "fail: free some space, keep fewer checkpoints, or save elsewhere",
                   dir, (long long)more, each / 1e6, (long long)keep_last, free_bytes / 1e6);
}
