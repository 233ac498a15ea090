/* files.c - finds the tokenizer and the chat template in the folders of a model. */
#include "generate.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The folder of an adapter has the files with which the adapter was trained, so it comes first. */
static const char *const folders[] = { "cspeed.lora.adapter", "cspeed.model" };

/* Returns the path of a file in one of the folders, malloc'ed, or NULL if there is no such folder or file. */
static char *find(const cs_config *config, const char *key, const char *name)
{
    char *path = NULL;
    const char *folder = cs_config_get_string(config, key);
    if (folder && asprintf(&path, "%s/%s", folder, name) > 0 && access(path, F_OK) == 0)
        return path;
    free(path);
    return NULL;
}

const char *files_tokenizer(const cs_config *config)
{
    static const char *const names[] = { "tokenizer.json", "vocab.json", "tokenizer.model" };
    const char *found = cs_config_get_string(config, "cspeed.data.tokenizer");
    for (size_t i = 0; i < 2 * 3 && !found; i++) {
        char *path = find(config, folders[i / 3], names[i % 3]);
        found = path ? cs_config_get_string(config, folders[i / 3]) : NULL;
        free(path);
    }
    return found;
}

char *files_template(const cs_config *config)
{
    char *found = find(config, folders[0], "chat_template.jinja");
    return found ? found : find(config, folders[1], "chat_template.jinja");
}
