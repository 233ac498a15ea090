/* tail.c - keeps the last bytes of an output stream. */
#include "node/agent.h"

void cl_tail_feed(cl_tail *tail, const char *bytes, size_t count)
{
    for (size_t i = count > CL_TAIL_BYTES ? count - CL_TAIL_BYTES : 0; i < count; i++)
        tail->ring[(tail->count + i) % CL_TAIL_BYTES] = bytes[i];
    tail->count += count;
}

size_t cl_tail_copy(const cl_tail *tail, int lines, char text[CL_TAIL_BYTES])
{
    uint64_t from = tail->count > CL_TAIL_BYTES ? tail->count - CL_TAIL_BYTES : 0;
    for (uint64_t at = tail->count; at > from; at--) {
        lines -= tail->ring[(at - 1) % CL_TAIL_BYTES] == '\n' && at < tail->count;
        if (lines == 0) {
            from = at;
            break;
        }
    }
    for (uint64_t at = from; at < tail->count; at++)
        text[at - from] = tail->ring[at % CL_TAIL_BYTES];
    return (size_t)(tail->count - from);
}
