/* test_boxes.c - ranges as boxes and back, for every range of every small shape. */
#include "checkpoint/boxes.h"

#include <check.h>
#include <string.h>

enum { MOST = 4 * 4 * 4 * 4 };

/* Marks the box's elements; fails when one is outside of the range or marked before. */
static void mark(uint8_t *marks, const cs_box *box, const int64_t *shape, cs_range range)
{
    int64_t before = -1, volume = cs_boxes_volume(box), run = cs_boxes_run(box, shape);
    ck_assert_int_eq(volume % run, 0);
    for (int64_t i = 0; i < volume; i++) {
        int64_t place = cs_boxes_place(box, shape, i);
        ck_assert(place >= range.from);
        ck_assert(place < range.to);
        ck_assert(place > before);
        ck_assert(i % run == 0 || place == before + 1);
        ck_assert_int_eq(marks[place], 0);
        marks[place] = 1;
        before       = place;
    }
}

static void try_range(const int64_t *shape, int dims, cs_range range)
{
    cs_box  boxes[CS_MAX_BOXES];
    uint8_t marks[MOST] = { 0 };
    int     count       = cs_boxes_split(boxes, shape, dims, range);
    int64_t next        = range.from;
    ck_assert_int_le(count, dims ? 2 * dims - 1 : 1);
    for (int i = 0; i < count; i++) {
        ck_assert_int_eq(cs_boxes_place(&boxes[i], shape, 0), next); /* in order, each contiguous */
        next += cs_boxes_volume(&boxes[i]);
        ck_assert_int_eq(cs_boxes_place(&boxes[i], shape, cs_boxes_volume(&boxes[i]) - 1), next - 1);
        mark(marks, &boxes[i], shape, range);
    }
    ck_assert_int_eq(next, range.to > range.from ? range.to : range.from);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            ck_assert(!cs_boxes_overlap(&boxes[i], &boxes[j]));
}

START_TEST(every_range)
{
    int64_t shape[CS_MAX_DIMS], total;
    for (int dims = 0; dims <= CS_MAX_DIMS; dims++) {
        for (int code = 0; code < 256; code++) {
            for (int i = 0, rest = code; i < CS_MAX_DIMS; i++, rest /= 4)
                shape[i] = 1 + rest % 4;
            if (dims < CS_MAX_DIMS && code >= 1 << 2 * dims)
                break;
            ck_assert(cs_boxes_count(&total, shape, dims, 4));
            for (int64_t from = 0; from <= total; from++)
                for (int64_t to = from; to <= total; to += dims == CS_MAX_DIMS ? 3 : 1)
                    try_range(shape, dims, (cs_range){ from, to });
        }
    }
}
END_TEST

/* What a range cuts out of any box is what one finds by looking at each element. */
START_TEST(cuts)
{
    static const int64_t shape[3] = { 3, 4, 5 };
    for (int code = 0; code < 3 * 4 * 5; code++) {
        cs_box box = { 3, { code % 3, code / 3 % 4, code / 12 }, { 0 } };
        for (int sizes = 0; sizes < 8; sizes++) {
            for (int i = 0; i < 3; i++)
                box.size[i] = sizes >> i & 1 ? shape[i] - box.offset[i] : 1;
            for (int64_t from = 0; from <= 60; from += 3) {
                for (int64_t to = from; to <= 60; to += 7) {
                    cs_range cut = cs_boxes_cut(&box, shape, (cs_range){ from, to });
                    for (int64_t i = 0; i < cs_boxes_volume(&box); i++) {
                        int64_t place  = cs_boxes_place(&box, shape, i);
                        bool    inside = place >= from && place < to;
                        ck_assert(inside == (i >= cut.from && i < cut.to));
                    }
                }
            }
        }
    }
}
END_TEST

START_TEST(overflow)
{
    int64_t count, wide[2] = { INT64_C(1) << 40, INT64_C(1) << 22 }, wider[2] = { INT64_C(1) << 40, INT64_C(1) << 40 };
    ck_assert(cs_boxes_count(&count, wide, 2, 1));
    ck_assert(!cs_boxes_count(&count, wide, 2, 4));
    ck_assert(!cs_boxes_count(&count, wider, 2, 1));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("boxes");
    TCase *all   = tcase_create("all");
    tcase_set_timeout(all, 120);
    tcase_add_test(all, every_range);
    tcase_add_test(all, cuts);
    tcase_add_test(all, overflow);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
