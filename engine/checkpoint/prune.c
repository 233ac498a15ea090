/* prune.c - deletes old checkpoints. */
#include "checkpoint/prune.h"
#include "checkpoint/line.h"
#include "checkpoint/staging.h"

#include <string.h>

static bool is_own(const cs_catalog_item *item)
{
    char name[CS_TAG_BYTES];
    return cs_tag_escape(name, item->tag) == CS_OK && strcmp(name, item->name) == 0;
}

static cs_status prune(const cs_catalog *catalog, const char *dir, const char *latest, int64_t keep_last,
                       int64_t keep_every)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < catalog->count; i++) {
        const cs_catalog_item *item = &catalog->items[i];
        if (!is_own(item) || cs_line_is_abandoned(item))
            continue;
        if (kept++ < keep_last || strcmp(item->name, latest) == 0 || (keep_every > 0 && item->step % keep_every == 0))
            continue;
        CS_TRY(cs_staging_discard(dir, item->name));
    }
    return CS_OK;
}

cs_status cs_prune_directory(const char *dir, int64_t keep_last, int64_t keep_every)
{
    char latest[CS_TAG_BYTES];
    cs_catalog catalog;
    if (keep_last <= 0)
        return CS_OK;
    CS_TRY(cs_catalog_latest(latest, dir));
    cs_status status = cs_catalog_open(&catalog, dir);
    if (status == CS_OK) {
        cs_line_follow(&catalog, dir, latest);
        status = prune(&catalog, dir, latest, keep_last, keep_every);
    }
    cs_catalog_close(&catalog);
    return status;
}
