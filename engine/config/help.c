/* help.c - cs_config_help: prints every key with its type, default and documentation. */
#include "config/config.h"
#include "config/sections.h"
#include "models/models.h"

#include <stdio.h>

void cs_config_help(void)
{
    printf("Every key of the configuration: type, default, what it does, or why it is refused. \"accepted\": no effect "
           "here, and why.\n"
           "Any key can be set from the command line, --set KEY.PATH=VALUE, which overrides the file, which overrides "
           "the default.\n"
           "No environment variable sets a key.\n");
    const ce_section *section;
    for (int i = 0; (section = ce_sections_at(i)); i++) {
        ce_keys_help(*section->path ? section->path : "top level", section->keys, section->count);
        if (i == 0) {
            ce_optim_help();
            ce_schedule_help();
        }
    }
    ce_models_help();
}
