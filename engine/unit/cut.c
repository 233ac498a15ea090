/* cut.c - the arithmetic of tensor parallelism: which part of a parameter, and which heads, a rank holds. */
#include "unit/cut.h"

ce_cut ce_cut_whole(cs_tensor shape, ce_cut_group group)
{
    int64_t rows = shape.shape[0];
    return (ce_cut){ .whole = { rows, shape.dims > 1 ? shape.shape[1] : 1 },
                     .count = 1,
                     .part = { { .count = rows, .copies = group.size, .copy = group.rank } } };
}

int64_t ce_cut_count(const ce_cut *cut)
{
    return cut->whole[0] * cut->whole[1];
}

ce_cut_part ce_cut_share(int64_t count, ce_cut_group group)
{
    ce_range share = ce_range_part(count, group.rank, group.size);
    return (ce_cut_part){ share.from, ce_range_length(share), 1, 0 };
}

ce_cut_heads ce_cut_heads_of(int64_t queries, int64_t keys, ce_cut_group group)
{
    int64_t each = queries / keys;
    ce_cut_heads own = { .copies = 1 };
    if (keys >= group.size) {
        own.keys = ce_range_part(keys, group.rank, group.size);
        own.queries = (ce_range){ own.keys.from * each, own.keys.to * each };
        return own;
    }
    int64_t head = 0;
    ce_range ranks = ce_range_part(group.size, head, keys);
    while (ranks.to <= group.rank)
        ranks = ce_range_part(group.size, ++head, keys);
    own.copies = (int)ce_range_length(ranks);
    own.copy = group.rank - (int)ranks.from;
    ce_range part = ce_range_part(each, own.copy, own.copies);
    own.keys = (ce_range){ head, head + 1 };
    own.queries = (ce_range){ head * each + part.from, head * each + part.to };
    return own;
}
