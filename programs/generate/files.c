/* files.c - finds the tokenizer and the chat template in the folders of a model. */
#include "base/files.h"
#include "base/must.h"
#include "generate.h"

#include <stdio.h>
#include <stdlib.h>

/* The folder of an adapter has the files with which the adapter was trained, so it comes first. */
static const char *const folders[] = { "cspeed.lora.adapter", "cspeed.model" };

/* Returns the path of a file in one of the folders, malloc'ed, or NULL if there is no such folder or file. */
static char *find(const cs_config *config, const char *key, const char *name)
{
    const char *folder = cs_config_get_string(config, key);
    return folder && ce_files_holds(folder, name) ? ce_files_join(folder, name) : NULL;
}

const char *files_tokenizer(const cs_config *config)
{
    static const char *const names[] = { "tokenizer.json", "vocab.json", "tokenizer.model" };
    const char *found = cs_config_get_string(config, "cspeed.data.tokenizer");
    for (size_t i = 0; i < 2 * 3 && !found; i++) {
        CE_FREED char *path = find(config, folders[i / 3], names[i % 3]);
        found = path ? cs_config_get_string(config, folders[i / 3]) : NULL;
    }
    return found;
}

char *files_template(const cs_config *config)
{
    char *found = find(config, folders[0], "chat_template.jinja");
    return found ? found : find(config, folders[1], "chat_template.jinja");
}
