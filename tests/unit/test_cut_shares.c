/* test_cut_shares.c - which rows, columns and heads of a layer each rank of a tensor-parallel group holds: for all
 * numbers of heads up to 24 and all groups of at most as many ranks. */
#include "suite.h"
#include "unit/cut.h"

enum { MAX_HEADS = 24 };

START_TEST(shares_divide_the_indices_evenly)
{
    for (int64_t count = 1; count <= 40; count++)
        for (int size = 1; size <= 8; size++) {
            int64_t next = 0;
            for (int rank = 0; rank < size; rank++) {
                ce_cut_part share = ce_cut_share(count, (ce_cut_group){ .size = size, .rank = rank });
                ck_assert_int_eq(share.from, next);
                ck_assert_int_ge(share.count, count / size);
                ck_assert_int_le(share.count, (count + size - 1) / size);
                ck_assert_int_eq(share.copies, 1);
                ck_assert_int_eq(share.copy, 0);
                next += share.count;
            }
            ck_assert_int_eq(next, count);
        }
}
END_TEST

/* Where one rank holds a key head, it holds all query heads of it; otherwise consecutive ranks, in the order of their
 * copies of the key head, divide its query heads as evenly as possible. */
static void check_rank(int64_t queries, int64_t keys, ce_cut_group group, ce_cut_heads own, ce_cut_heads before)
{
    int64_t each = queries / keys, held = ce_range_length(own.keys), read = ce_range_length(own.queries);
    ck_assert_int_ge(read, 1);
    ck_assert_int_ge(own.queries.from / each, own.keys.from);
    ck_assert_int_lt((own.queries.to - 1) / each, own.keys.to);
    ck_assert_int_lt(own.copy, own.copies);
    if (own.copies == 1) {
        ck_assert_int_eq(read, held * each);
    } else {
        ck_assert_int_eq(held, 1);
        ck_assert_int_ge(read, each / own.copies);
        ck_assert_int_le(read, (each + own.copies - 1) / own.copies);
    }
    ck_assert_int_ge(held, keys / group.size);
    ck_assert_int_le(held, (keys + group.size - 1) / group.size);
    ck_assert_int_eq(own.queries.from, before.queries.to);
    if (own.copy > 0) {
        ck_assert_int_eq(own.keys.from, before.keys.from);
        ck_assert_int_eq(own.copy, before.copy + 1);
        ck_assert_int_eq(own.copies, before.copies);
    } else {
        ck_assert_int_eq(own.keys.from, before.keys.to);
        ck_assert_int_eq(before.copy, before.copies - 1);
    }
}

static void check_heads(int64_t queries, int64_t keys, int size)
{
    ce_cut_heads before = { .copies = 1 };
    for (int rank = 0; rank < size; rank++) {
        ce_cut_group group = { .size = size, .rank = rank };
        ce_cut_heads own = ce_cut_heads_of(queries, keys, group);
        check_rank(queries, keys, group, own, before);
        before = own;
    }
    ck_assert_int_eq(before.queries.to, queries);
    ck_assert_int_eq(before.keys.to, keys);
    ck_assert_int_eq(before.copy, before.copies - 1);
}

START_TEST(each_head_is_computed_once)
{
    for (int64_t queries = 1; queries <= MAX_HEADS; queries++)
        for (int64_t keys = 1; keys <= queries; keys++)
            for (int size = 1; queries % keys == 0 && size <= queries; size++)
                check_heads(queries, keys, size);
}
END_TEST

START_TEST(known_divisions)
{
    ce_cut_heads own = ce_cut_heads_of(71, 1, (ce_cut_group){ .size = 2, .rank = 1 }); /* Falcon-7B */
    ck_assert_int_eq(own.queries.from, 36);
    ck_assert_int_eq(own.queries.to, 71);
    ck_assert_int_eq(own.copies, 2);
    own = ce_cut_heads_of(12, 2,
                          (ce_cut_group){ .size = 3,
                                          .rank = 1 }); /* the first key head has two ranks, the second one rank */
    ck_assert_int_eq(own.keys.from, 0);
    ck_assert_int_eq(own.queries.from, 3);
    ck_assert_int_eq(own.queries.to, 6);
    own = ce_cut_heads_of(12, 2, (ce_cut_group){ .size = 3, .rank = 2 });
    ck_assert_int_eq(own.keys.from, 1);
    ck_assert_int_eq(own.copies, 1);
    own = ce_cut_heads_of(9, 3, (ce_cut_group){ .size = 2, .rank = 0 });
    ck_assert_int_eq(own.keys.to, 2);
    ck_assert_int_eq(own.queries.to, 6);
}
END_TEST

START_TEST(an_uncut_parameter_has_a_copy_on_every_rank)
{
    ce_cut_group group = { .size = 3, .rank = 2 };
    ce_cut matrix = ce_cut_whole(cs_matrix(NULL, CS_F32, 5, 7), group);
    ck_assert_int_eq(ce_cut_count(&matrix), 35);
    ck_assert_int_eq(matrix.count, 1);
    ck_assert_int_eq(matrix.part[0].from, 0);
    ck_assert_int_eq(matrix.part[0].count, 5);
    ck_assert_int_eq(matrix.part[0].copies, 3);
    ck_assert_int_eq(matrix.part[0].copy, 2);
    ce_cut vector = ce_cut_whole(cs_vector(NULL, CS_F32, 5), group);
    ck_assert_int_eq(ce_cut_count(&vector), 5);
    ck_assert_int_eq(vector.whole[1], 1);
}
END_TEST

SUITE_MAIN("cut_shares", shares_divide_the_indices_evenly, each_head_is_computed_once, known_divisions,
           an_uncut_parameter_has_a_copy_on_every_rank)
