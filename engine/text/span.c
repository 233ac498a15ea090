/* span.c - a span is a part of a text; for each of its bytes, the offset in the original text can be found. */
#include "text/span.h"
#include "base/must.h"

#include <stdlib.h>

ce_span ce_span_part(ce_span span, size_t from, size_t size)
{
    return (ce_span){ span.bytes + from, size, span.made, span.place + from };
}

/* Returns the index of the entry that covers the byte at `place` of the text. */
static size_t entry_of(ce_made *made, size_t place)
{
    size_t index = made->cursor;
    if (index >= made->count || made->entries[index].at > place)
        index = 0;
    while (index + 1 < made->count && made->entries[index + 1].at <= place)
        index++;
    return made->cursor = index;
}

/* If an entry has more bytes than the original bytes that it stands for, its surplus bytes count as the last of these
 * original bytes. */
size_t ce_span_origin(ce_span span, size_t at)
{
    ce_made *made = span.made;
    size_t place = span.place + at;
    if (!made)
        return place;
    if (made->count == 0)
        return 0;
    size_t index = entry_of(made, place);
    const ce_origin *entry = &made->entries[index];
    size_t from = entry->from + (place - entry->at);
    if (index + 1 < made->count && from >= entry[1].from)
        from = entry[1].from > entry->from ? entry[1].from - 1 : entry->from;
    return from;
}

static void mark(ce_made *made, size_t at, size_t from)
{
    const ce_origin *last = made->count > 0 ? &made->entries[made->count - 1] : NULL;
    if (last && last->from + (at - last->at) == from)
        return;
    if (last && last->at == at)
        made->count--;
    CE_MUST_HOLD(made->entries, made->capacity, made->count + 1);
    made->entries[made->count++] = (ce_origin){ at, from };
}

void ce_made_begin(ce_made *made)
{
    made->text.size = made->count = made->cursor = 0;
}

void ce_made_keep(ce_made *made, ce_span from, size_t at, size_t size)
{
    ce_made *before = from.made;
    size_t to = made->text.size;
    if (size == 0)
        return;
    mark(made, to, ce_span_origin(from, at));
    for (size_t i = before ? before->cursor + 1 : 0; before && i < before->count; i++) {
        size_t place = before->entries[i].at;
        if (place >= from.place + at + size)
            break;
        if (place > from.place + at)
            mark(made, to + (place - from.place - at), before->entries[i].from);
    }
    ce_unicode_append(&made->text, from.bytes + at, size);
}

void ce_made_put(ce_made *made, ce_span from, size_t at, const char *bytes, size_t size)
{
    if (size == 0)
        return;
    mark(made, made->text.size, ce_span_origin(from, at));
    ce_unicode_append(&made->text, bytes, size);
}

void ce_made_shorten(ce_made *made, size_t size)
{
    made->text.size = size;
    while (made->count > 0 && made->entries[made->count - 1].at > size)
        made->count--;
}

ce_span ce_made_span(ce_made *made)
{
    return (ce_span){ made->text.bytes ? made->text.bytes : "", made->text.size, made, 0 };
}

void ce_made_free(ce_made *made)
{
    ce_unicode_free(&made->text);
    free(made->entries);
    *made = (ce_made){ 0 };
}
