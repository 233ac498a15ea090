/* help.c - cs_config_help: prints every key with its type, default and documentation. The output is the page
 * docs/keys.md. */
#include "config/config.h"
#include "config/sections.h"
#include "models/models.h"

#include <stdio.h>

void cs_config_help(void)
{
    printf(
        "# Every key of the configuration\n"
        "\n"
        "This page is the output of `cspeed --quiet --num_gpus 1 train --config_help`. Each item is a key with its\n"
        "type, its default, and what it does, or why it is refused. \"accepted\": the key has no effect here, and the\n"
        "text says why. \"section\": an object, whose keys follow under a heading of their own.\n"
        "\n"
        "Any key can be set from the command line: `--set KEY.PATH=VALUE` overrides the file, which overrides the\n"
        "default. No environment variable sets a key. `cspeed config --explain KEY.PATH` prints one of these items;\n"
        "`cspeed config FILE` prints the value of every key that a file results in.\n");
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
