/* hub.c - models by their names on the Hugging Face Hub: the cache first, then a download. */
#include "hub/hub.h"
#include "base/ends_with.h"
#include "base/files.h"
#include "gguf/describe.h"
#include "hub/fetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* The name whose download failed last, and why. Names are resolved by the main thread. */
static struct {
    char name[2 * CE_HUB_NAME], why[CE_HUB_HINT / 2];
} failed;

static bool is_offline(void)
{
    static const char *const variables[] = { "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE" };
    static const char *const yes[] = { "1", "on", "yes", "true" };
    bool offline = false;
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < sizeof yes / sizeof *yes; j++)
            offline = offline || (getenv(variables[i]) && strcasecmp(getenv(variables[i]), yes[j]) == 0);
    return offline;
}

static cs_status fetch_description(const ce_hub_place *place)
{
    if (is_offline())
        return ce_fail(CS_NOT_FOUND, "nothing is downloaded, because HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set");
    return ce_hub_fetch(place, CE_HUB_DESCRIPTION);
}

static bool find_snapshot(char folder[CE_HUB_PATH], const char *name)
{
    ce_hub_place place;
    if (!ce_hub_place_read(&place, name) || access(name, F_OK) == 0)
        return false;
    if (ce_hub_place_snapshot(folder, &place) && ce_hub_has(folder, CE_HUB_DESCRIPTION))
        return true;
    if (strchr(place.model, '/') && strcmp(failed.name, name) != 0 && fetch_description(&place) != CS_OK) {
        snprintf(failed.name, sizeof failed.name, "%s", name);
        snprintf(failed.why, sizeof failed.why, "%s", cs_error());
        ce_clear_error();
    }
    return ce_hub_place_snapshot(folder, &place) && access(folder, R_OK) == 0;
}

cs_status ce_hub_find(bool *found, char folder[CE_HUB_PATH], const char *name)
{
    *found = ce_ends_with(name, ".gguf") && access(name, F_OK) == 0 && !ce_files_is_folder(name);
    if (*found)
        return ce_gguf_folder(folder, name);
    *found = find_snapshot(folder, name);
    return CS_OK;
}

void ce_hub_hint(char hint[CE_HUB_HINT], const char *name)
{
    ce_hub_place place;
    bool tried = strcmp(failed.name, name) == 0;
    *hint = 0;
    if (!ce_hub_place_read(&place, name) || !strchr(place.model, '/'))
        return;
    const char *folder = strchr(place.model, '/') + 1;
    snprintf(hint, CE_HUB_HINT,
             ": if it is a model of the Hugging Face Hub, which is not in the cache %.200s%s%s%s, `hf download %.80s "
             "--local-dir %.80s` makes the folder %.80s",
             place.cache, tried ? " and could not be downloaded (" : "", tried ? failed.why : "", tried ? ")" : "",
             place.model, folder, folder);
}

static bool lacks_weights(ce_hub_place *place, const char *folder)
{
    return ce_hub_place_of_snapshot(place, folder) && !ce_hub_has(folder, CE_HUB_WEIGHTS);
}

bool ce_hub_lacks_weights(const char *folder)
{
    ce_hub_place place;
    return lacks_weights(&place, folder);
}

cs_status ce_hub_need_weights(const char *folder)
{
    ce_hub_place place;
    if (!lacks_weights(&place, folder))
        return CS_OK;
    if (is_offline())
        return ce_fail(CS_NOT_FOUND,
                       "%s, a folder of the Hugging Face cache, has no weights yet, and nothing is downloaded, because "
                       "HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set",
                       folder);
    return ce_hub_fetch(&place, CE_HUB_WEIGHTS);
}
