/* stop.c - stop strings: strings before which a generated answer ends. */
#include "generate.h"

#include <string.h>

size_t stop_find(const cs_option_list *stop, const ce_text *text, size_t from)
{
    size_t first = text->size;
    for (int i = 0; i < stop->count; i++) {
        size_t length = strlen(stop->list[i]), begin = from >= length ? from - length + 1 : 0;
        const char *found = memmem(text->bytes + begin, text->size - begin, stop->list[i], length);
        if (found && (size_t)(found - text->bytes) < first)
            first = (size_t)(found - text->bytes);
    }
    return first;
}

size_t stop_held_back(const cs_option_list *stop, const ce_text *text)
{
    size_t max = 0;
    for (int i = 0; i < stop->count; i++)
        for (size_t size = strlen(stop->list[i]) - 1; size > max; size--)
            if (size <= text->size && memcmp(text->bytes + text->size - size, stop->list[i], size) == 0)
                max = size;
    return max;
}
