/* underscored.h - the spelling of names with underscores, which is that of keys: "lora-rank" becomes "lora_rank". */
#ifndef CE_BASE_UNDERSCORED_H
#define CE_BASE_UNDERSCORED_H

/* Replaces the dashes of `name` and returns it. */
static inline char *ce_underscored(char *name)
{
    for (char *at = name; *at; at++)
        *at = *at == '-' ? '_' : *at;
    return name;
}

#endif
