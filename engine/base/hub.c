/* hub.c - models by their names on the Hugging Face Hub, "ORG/NAME", in the cache of the Hub's own programs. */
#include "base/hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns true for ORG/NAME, and for a NAME alone, which a few old models have. */
static bool is_name(const char *name)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/");
    const char *slash = strchr(name, '/');
    return *name && !name[length] && *name != '.' && *name != '/' &&
           (!slash || (slash[1] && slash[1] != '.' && !strchr(slash + 1, '/')));
}

/* Writes the folder of the cache, by the rules of the library huggingface_hub. */
static bool find_cache(char cache[CE_HUB_PATH])
{
    static const struct {
        const char *variable, *below;
    } places[] = { { "HF_HUB_CACHE", "" },
                   { "HUGGINGFACE_HUB_CACHE", "" },
                   { "HF_HOME", "/hub" },
                   { "XDG_CACHE_HOME", "/huggingface/hub" },
                   { "HOME", "/.cache/huggingface/hub" } };
    const char *home = getenv("HOME");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *value = getenv(places[i].variable);
        bool tilde = value && value[0] == '~' && value[1] == '/' && home;
        if (value && *value)
            return snprintf(cache, CE_HUB_PATH, "%s%s%s", tilde ? home : "", value + tilde, places[i].below) <
                   CE_HUB_PATH;
    }
    return false;
}

/* Reads the name of the commit to which the main revision refers. */
static bool read_commit(char commit[64], const char *place)
{
    char path[CE_HUB_PATH];
    if (snprintf(path, sizeof path, "%s/refs/main", place) >= CE_HUB_PATH)
        return false;
    FILE *file = access(path, R_OK) == 0 ? fopen(path, "re") : NULL;
    bool found = file && fscanf(file, "%63[0-9a-zA-Z]", commit) == 1;
    if (file)
        fclose(file);
    return found;
}

bool ce_hub_find(char folder[CE_HUB_PATH], const char *name)
{
    char cache[CE_HUB_PATH], place[CE_HUB_PATH], commit[64];
    const char *slash = strchr(name, '/');
    if (!is_name(name) || access(name, F_OK) == 0 || !find_cache(cache))
        return false;
    int length = slash ? (int)(slash - name) : (int)strlen(name);
    int written = snprintf(place, sizeof place, "%s/models--%.*s%s%s", cache, length, name, slash ? "--" : "",
                           slash ? slash + 1 : "");
    return written < CE_HUB_PATH && read_commit(commit, place) &&
           snprintf(folder, CE_HUB_PATH, "%s/snapshots/%s", place, commit) < CE_HUB_PATH && access(folder, R_OK) == 0;
}

void ce_hub_hint(char hint[CE_HUB_HINT], const char *name)
{
    char cache[CE_HUB_PATH] = "";
    const char *slash = strchr(name, '/');
    *hint = 0;
    if (slash && is_name(name) && find_cache(cache))
        snprintf(hint, CE_HUB_HINT,
                 ": if it is a model of the Hugging Face Hub, which is not in the cache %.200s, `hf download %.80s "
                 "--local-dir %.80s` makes the folder %.80s",
                 cache, name, slash + 1, slash + 1);
}
