/* source.c - functions that all sources of tensors share. */
#include "interchange/source.h"

#include <stdlib.h>
#include <string.h>

int64_t cs_source_find(const cs_source *source, const char *name)
{
    for (int64_t i = 0; i < source->count; i++)
        if (strcmp(source->tensors[i].name, name) == 0)
            return i;
    return -1;
}

void cs_source_close(cs_source *source)
{
    if (source->close)
        source->close(source);
    free(source->tensors);
    *source = (cs_source){ 0 };
}
