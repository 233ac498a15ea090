/* shares.c - tensors that are divided over ranks. */
#include "shares.h"

#include "base/range.h"

#include <math.h>

share share_of(int64_t count, int rank, int ranks)
{
    int64_t room = ce_round_up(ce_divide_up(count, ranks), 8), first = rank * room < count ? rank * room : count;
    return (share){ first, count - first < room ? count - first : room, room };
}

cs_tensor share_columns(cs_tensor x, share at)
{
    cs_tensor part = near_new(x.dtype, cs_rows(x), at.room);
    for (int64_t i = 0; i < cs_count(part); i++) {
        int64_t column = i % at.room, from = i / at.room * cs_columns(x) + at.first;
        near_set(part, i, column < at.count ? near_element(x, from + column) : (double)NAN);
    }
    return part;
}

void share_for_all(void (*check)(cs_stream *stream, cs_dtype dtype, int ranks))
{
    for (int threads = 1; threads <= near_threads(SHARE_THREADS); threads++) {
        cs_stream *stream = ce_device_stream(near_open(threads), CE_COMPUTE);
        for (int dtype = CS_F32; dtype <= CS_F16; dtype++)
            for (int ranks = 1; ranks <= SHARE_RANKS; ranks++)
                check(stream, (cs_dtype)dtype, ranks);
        near_close();
    }
}

void share_free(int count, const cs_tensor *tensors)
{
    for (int i = 0; i < count; i++)
        near_free(tensors[i]);
}
