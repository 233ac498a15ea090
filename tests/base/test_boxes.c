/* test_boxes.c - conversion of ranges to boxes and back, for every range of every small shape; intersections; coverage of
 * tensors that are divided at random. */
#include "suite.h"

#include "base/boxes.h"

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
            fine = fine && !ce_boxes_meet(&(ce_box){ 0 }, &boxes[i], &boxes[j]);
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

/* ---- two boxes, and many ---- */

static uint32_t drawn = 1;

static int64_t draw(int64_t below)
{
    drawn = drawn * 1664525 + 1013904223;
    return (int64_t)(drawn >> 8) % below;
}

static ce_box draw_box(const int64_t *shape, int dims)
{
    ce_box box = { .dims = dims };
    for (int i = 0; i < dims; i++) {
        box.offset[i] = draw(shape[i] + 1);
        box.size[i] = draw(shape[i] - box.offset[i] + 1);
    }
    return box;
}

/* Adds 1 to the number of each element of the box. */
static void count_in(uint8_t *numbers, const ce_box *box, const int64_t *shape)
{
    for (int64_t i = 0; i < ce_boxes_volume(box); i++)
        numbers[ce_boxes_place(box, shape, i)]++;
}

START_TEST(two_boxes_meet)
{
    static const int64_t shape[3] = { 3, 4, 5 };
    for (int round = 0; round < 2000; round++) {
        uint8_t numbers[60] = { 0 }, common[60] = { 0 };
        ce_box a = draw_box(shape, 3), b = draw_box(shape, 3), both;
        bool meet = ce_boxes_meet(&both, &a, &b), any = false;
        count_in(numbers, &a, shape);
        count_in(numbers, &b, shape);
        if (meet)
            count_in(common, &both, shape);
        for (int i = 0; i < 60; i++) {
            ck_assert_int_eq(common[i], numbers[i] == 2);
            any = any || numbers[i] == 2;
        }
        ck_assert_int_eq(meet, any);
        ce_box inside = ce_boxes_within(&both, &a);
        for (int64_t i = 0; meet && i < ce_boxes_volume(&both); i++)
            ck_assert_int_eq(ce_boxes_place(&a, shape, ce_boxes_place(&inside, a.size, i)),
                             ce_boxes_place(&both, shape, i));
    }
}
END_TEST

/* Divides one of the boxes in two. */
static void divide(ce_box *boxes, int *count)
{
    ce_box *one = &boxes[draw(*count)], *other = &boxes[*count];
    int d = (int)draw(one->dims);
    int64_t at = draw(one->size[d] + 1);
    *other = *one;
    other->offset[d] += at;
    other->size[d] -= at;
    one->size[d] = at;
    ++*count;
}

/* Checks the answer of ce_boxes_cover: the elements that it returns are the first that are not in one box, and all of
 * them are in no box, or in several. */
static void check_cover(const ce_box *boxes, int count, const int64_t *shape, int64_t total)
{
    uint8_t numbers[256] = { 0 };
    int64_t first = 0;
    for (int i = 0; i < count; i++)
        count_in(numbers, &boxes[i], shape);
    while (first < total && numbers[first] == 1)
        first++;
    ce_boxes_fault fault = ce_boxes_cover(boxes, count, shape, boxes->dims);
    if (first == total) {
        ck_assert_int_eq(ce_range_length(fault.elements), 0);
        return;
    }
    ck_assert_int_eq(fault.elements.from, first);
    ck_assert_int_lt(first, fault.elements.to);
    for (int64_t i = first; i < fault.elements.to; i++)
        ck_assert(fault.twice ? numbers[i] > 1 : numbers[i] == 0);
}

START_TEST(boxes_cover_a_tensor)
{
    enum { BOXES = 24 };
    for (int round = 0; round < 4000; round++) {
        int64_t shape[CS_MAX_DIMS], total;
        int dims = 1 + (int)draw(CS_MAX_DIMS), count = 1;
        ce_box boxes[BOXES + 1];
        for (int i = 0; i < dims; i++)
            shape[i] = 1 + draw(4);
        ck_assert(ce_boxes_count(&total, shape, dims, 1));
        boxes[0] = ce_boxes_whole(shape, dims);
        while (count < BOXES && draw(12) > 0)
            divide(boxes, &count);
        check_cover(boxes, count, shape, total);
        boxes[count] = boxes[draw(count)]; /* one box once more, or moved, or lost */
        count += round % 2;
        if (round % 3 == 1)
            boxes[draw(count)] = draw_box(shape, dims);
        if (round % 5 == 1)
            boxes[draw(count)].size[0] = 0;
        check_cover(boxes, count, shape, total);
    }
    ck_assert_int_eq(ce_range_length(ce_boxes_cover(&(ce_box){ 0 }, 1, NULL, 0).elements), 0);
    ck_assert(ce_boxes_cover((ce_box[2]){ { 0 }, { 0 } }, 2, NULL, 0).twice);
    ck_assert_int_eq(ce_boxes_cover(NULL, 0, NULL, 0).elements.to, 1);
}
END_TEST

/* A grid of 40,000 boxes takes a fraction of a second; comparing each pair would take a minute. */
START_TEST(many_boxes_cover_a_tensor)
{
    enum { ROWS = 400, COLUMNS = 100, ROW = 3, COLUMN = 7 };
    const int64_t shape[2] = { ROWS * ROW, COLUMNS * COLUMN };
    ce_box *boxes = calloc(ROWS * COLUMNS, sizeof *boxes);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        boxes[i] = (ce_box){ 2, { i / COLUMNS * ROW, i % COLUMNS * COLUMN }, { ROW, COLUMN } };
    ck_assert_int_eq(ce_range_length(ce_boxes_cover(boxes, ROWS * COLUMNS, shape, 2).elements), 0);
    boxes[ROWS * COLUMNS - 1].size[1]--;
    ck_assert_int_eq(ce_boxes_cover(boxes, ROWS * COLUMNS, shape, 2).elements.from,
                     (ROWS * ROW - ROW + 1) * COLUMNS * COLUMN - 1);
    free(boxes);
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

SUITE_MAIN("boxes", boxes_cover_every_range_once, cuts, two_boxes_meet, boxes_cover_a_tensor, many_boxes_cover_a_tensor,
           overflow)
