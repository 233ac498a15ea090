/* test_source.c - ce_source_read_box: any range of any box of a matrix, also if a row is longer than the buffer. */
#include "suite.h"

#include "base/must.h"
#include "checkpoint/convert.h"
#include "interchange/source.h"

#include <stdlib.h>
#include <string.h>

static int64_t largest; /* the longest range that was read */

static float value_of(int64_t place)
{
    return (float)(place % 30011);
}

/* Element i of the tensor is value_of(i). */
static cs_status read_values(ce_source *source, int64_t tensor, ce_range range, void *to, cs_dtype dtype)
{
    const ce_source_tensor *about = &source->tensors[tensor];
    int64_t count = about->shape[0] * (about->dims > 1 ? about->shape[1] : 1);
    ck_assert(range.from >= 0 && range.from <= range.to && range.to <= count);
    largest = range.to - range.from > largest ? range.to - range.from : largest;
    for (int64_t i = range.from; i < range.to; i++) {
        float value = value_of(i);
        ce_convert_elements((char *)to + (size_t)(i - range.from) * cs_dtype_bytes(dtype), dtype, &value, CS_F32, 1);
    }
    return CS_OK;
}

static void check_range(ce_source *source, const ce_box *box, ce_range range, cs_dtype dtype)
{
    const int64_t *shape = source->tensors[0].shape;
    int64_t count = ce_range_length(range);
    CE_FREED char *data = ce_must_alloc((size_t)(count + 1) * cs_dtype_bytes(dtype));
    ck_assert_int_eq(ce_source_read_box(source, 0, box, range, data, dtype), CS_OK);
    cs_tensor read = cs_vector(data, dtype, count + 1);
    for (int64_t i = 0; i < count; i++) {
        float wanted = value_of(ce_boxes_place(box, shape, range.from + i));
        ck_assert(cs_element(read, i) - wanted <= wanted / 128 && wanted - cs_element(read, i) <= wanted / 128);
        ck_assert(dtype != CS_F32 || memcmp(data + (size_t)i * sizeof wanted, &wanted, sizeof wanted) == 0);
    }
    ck_assert_float_eq(cs_element(read, count), 0);
}

START_TEST(any_range_of_any_box)
{
    enum { ROWS = 5, COLUMNS = 7 };
    ce_source_tensor tensor = { "w", CS_F32, 2, { ROWS, COLUMNS }, false };
    ce_source source = { .tensors = &tensor, .count = 1, .read = read_values };
    for (int rows = 1; rows <= ROWS; rows++)
        for (int columns = 1; columns <= COLUMNS; columns++)
            for (int from = 0; from < rows * columns; from++)
                for (int to = from; to <= rows * columns; to += 3) {
                    ce_box box = { 2, { from % (ROWS - rows + 1), to % (COLUMNS - columns + 1) }, { rows, columns } };
                    check_range(&source, &box, (ce_range){ from, to }, to % 2 ? CS_F32 : CS_BF16);
                }
    tensor = (ce_source_tensor){ "b", CS_F32, 1, { 20 }, false };
    check_range(&source, &(ce_box){ 1, { 6 }, { 9 } }, (ce_range){ 2, 8 }, CS_F32);
}
END_TEST

/* Short rows are read together, at most a buffer at a time. */
START_TEST(buffers)
{
    enum { WIDE = CE_SOURCE_BUFFER / 4 / 3, WIDER = CE_SOURCE_BUFFER / 4 + 5 };
    ce_source_tensor tensor = { "w", CS_F32, 2, { 5, WIDE }, false };
    ce_source source = { .tensors = &tensor, .count = 1, .read = read_values };
    largest = 0;
    check_range(&source, &(ce_box){ 2, { 0, 11 }, { 5, 3 } }, (ce_range){ 1, 14 }, CS_F32);
    ck_assert_int_eq(largest, 2 * WIDE + 3);
    tensor.shape[1] = WIDER;
    largest = 0;
    check_range(&source, &(ce_box){ 2, { 1, WIDER - 4 }, { 4, 4 } }, (ce_range){ 0, 16 }, CS_F32);
    ck_assert_int_eq(largest, 4);
}
END_TEST

SUITE_MAIN("source", any_range_of_any_box, buffers)
