/* source.c - the functions that all sources of tensors share. */
#include "interchange/source.h"

#include <stdlib.h>
#include <string.h>

int64_t ce_source_find(const ce_source *source, const char *name)
{
    for (int64_t i = 0; i < source->count; i++)
        if (strcmp(source->tensors[i].name, name) == 0)
            return i;
    return -1;
}

void ce_source_close(ce_source *source)
{
    if (source->close)
        source->close(source);
    free(source->tensors);
    *source = (ce_source){ 0 };
}
