/* test_boxes.c - conversion of ranges to boxes and back, for every range of every small shape. */
#include "suite.h"

#include "checkpoint/boxes.h"

enum { MAX_COUNT = 4 * 4 * 4 * 4 };

/* Marks the elements of the box. Returns false if an element is outside the range, was marked before, or is not where
 * ce_boxes_run says. */
static bool mark(uint8_t *marks, const ce_box *box, const int64_t *shape, ce_range range)
{
    int64_t before = -1, volume = ce_boxes_volume(box), run = ce_boxes_run(box, shape);
    bool fine = volume % run == 0;
    for (int64_t i = 0; i < volume; i++) {
        int64_t place = ce_boxes_place(box, shape, i);
        fine = fine && place >= range.from && place < range.to && marks[place] == 0;
        fine = fine && (i % run == 0 ? place > before : place == before + 1);
        marks[place] = 1;
        before = place;
    }
    return fine;
}

/* Checks that a range of a tensor of d dimensions becomes at most 2d - 1 boxes, that they are in order, that each is
 * contiguous, and that together they are the range. */
static bool try_range(const int64_t *shape, int dims, ce_range range)
{
    ce_box boxes[CE_MAX_BOXES];
    uint8_t marks[MAX_COUNT] = { 0 };
    int count = ce_boxes_split(boxes, shape, dims, range);
    int64_t next = range.from;
    bool fine = count <= (dims ? 2 * dims - 1 : 1);
    for (int i = 0; i < count; i++) {
        fine = fine && ce_boxes_place(&boxes[i], shape, 0) == next;
        next += ce_boxes_volume(&boxes[i]);
        fine = fine && ce_boxes_place(&boxes[i], shape, ce_boxes_volume(&boxes[i]) - 1) == next - 1;
        fine = fine && mark(marks, &boxes[i], shape, range);
        for (int j = 0; j < i; j++)
            fine = fine && !ce_boxes_overlap(&boxes[i], &boxes[j]);
    }
    return fine && next == range.to;
}

START_TEST(boxes_cover_every_range_once)
{
    int64_t shape[CS_MAX_DIMS], total;
    for (int dims = 0; dims <= CS_MAX_DIMS; dims++) {
        for (int code = 0; code < 256; code++) {
            for (int i = 0, rest = code; i < CS_MAX_DIMS; i++, rest /= 4)
                shape[i] = 1 + rest % 4;
            if (dims < CS_MAX_DIMS && code >= 1 << 2 * dims)
                break;
            ck_assert(ce_boxes_count(&total, shape, dims, 4));
            /* tries all ranges of a small shape; of a large shape, only the ranges that begin at every third element */
            for (int64_t from = 0; from <= total; from += total > 64 ? 3 : 1)
                for (int64_t to = from; to <= total; to++)
                    if (!try_range(shape, dims, (ce_range){ from, to }))
                        ck_abort_msg("%d dimensions, shape code %d, elements %d to %d", dims, code, (int)from, (int)to);
        }
    }
}
END_TEST

/* Checks that ce_boxes_cut finds the same elements as a loop over all elements of the box. */
START_TEST(cuts)
{
    static const int64_t shape[3] = { 3, 4, 5 };
    for (int code = 0; code < 3 * 4 * 5; code++) {
        ce_box box = { 3, { code % 3, code / 3 % 4, code / 12 }, { 0 } };
        for (int sizes = 0; sizes < 8; sizes++) {
            for (int i = 0; i < 3; i++)
                box.size[i] = sizes >> i & 1 ? shape[i] - box.offset[i] : 1;
            for (int64_t from = 0; from <= 60; from += 3) {
                for (int64_t to = from; to <= 60; to += 7) {
                    ce_range cut = ce_boxes_cut(&box, shape, (ce_range){ from, to });
                    bool fine = true;
                    for (int64_t i = 0; i < ce_boxes_volume(&box); i++) {
                        int64_t place = ce_boxes_place(&box, shape, i);
                        bool inside = place >= from && place < to;
                        fine = fine && inside == (i >= cut.from && i < cut.to);
                    }
                    ck_assert(fine);
                }
            }
        }
    }
}
END_TEST

START_TEST(overflow)
{
    int64_t count, wide[2] = { INT64_C(1) << 40, INT64_C(1) << 22 }, wider[2] = { INT64_C(1) << 40, INT64_C(1) << 40 };
    ck_assert(ce_boxes_count(&count, wide, 2, 1));
    ck_assert(!ce_boxes_count(&count, wide, 2, 4));
    ck_assert(!ce_boxes_count(&count, wider, 2, 1));
}
END_TEST

SUITE_MAIN("boxes", boxes_cover_every_range_once, cuts, overflow)
