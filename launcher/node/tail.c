/* tail.c - the last of what went through an output. */
#include "node/tail.h"

void cs_tail_feed(cs_tail *tail, const char *bytes, size_t count)
{
    for (size_t i = count > CS_TAIL_BYTES ? count - CS_TAIL_BYTES : 0; i < count; i++)
        tail->ring[(tail->count + i) % CS_TAIL_BYTES] = bytes[i];
    tail->count += count;
}

size_t cs_tail_copy(const cs_tail *tail, int lines, char text[CS_TAIL_BYTES])
{
    uint64_t from = tail->count > CS_TAIL_BYTES ? tail->count - CS_TAIL_BYTES : 0;
    for (uint64_t at = tail->count; at > from; at--) {
        lines -= tail->ring[(at - 1) % CS_TAIL_BYTES] == '\n' && at < tail->count;
        if (lines == 0) {
            from = at;
            break;
        }
    }
    for (uint64_t at = from; at < tail->count; at++)
        text[at - from] = tail->ring[at % CS_TAIL_BYTES];
    return (size_t)(tail->count - from);
}
