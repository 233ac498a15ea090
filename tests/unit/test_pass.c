/* test_pass.c - the tensors of a pass: lifetimes, the stack of kept tensors, rewinding for recomputation, and that a
 * measuring pass finds the memory that a real one needs. */
#include "suite.h"
#include "unit/pass.h"

#include <stdlib.h>
#include <string.h>

static cs_device *device;

static cs_pass *open_pass(void *block, size_t bytes)
{
    cs_pass *pass;
    CS_MUST(ce_pass_open(&pass, &(ce_pass_shape){ .device = device,
                                                  .dtype = CS_F32,
                                                  .products = CS_F32,
                                                  .block = block,
                                                  .block_bytes = bytes }));
    return pass;
}

static void begin(cs_pass *pass, ce_pass_mode mode)
{
    ce_pass_begin(pass, &(ce_pass_batch_info){ .mode = mode, .batch = 2, .length = 3 });
}

START_TEST(scratch_ends_with_its_unit_and_kept_is_taken_in_mirror_order)
{
    cs_pass *pass = open_pass(NULL, 0);
    begin(pass, CE_PASS_TRAINING);
    ce_pass_enter(pass, NULL, CE_PASS_FORWARD);
    cs_tensor a = cs_pass_make(pass, CS_F32, 4, 4), b = cs_pass_like(pass, a), c = cs_pass_like(pass, a);
    ck_assert_ptr_ne(a.data, b.data);
    cs_pass_keep(pass, a);
    cs_pass_keep(pass, c);
    ce_pass_leave(pass);
    ce_pass_enter(pass, NULL, CE_PASS_FORWARD);
    cs_tensor again = cs_pass_like(pass, a);
    ck_assert_ptr_eq(again.data, b.data); /* b was scratch memory, which is free again */
    ck_assert_ptr_eq(cs_pass_take(pass).data, c.data);
    ck_assert_ptr_eq(cs_pass_take(pass).data, a.data);
    ce_pass_leave(pass);
    ce_pass_end(pass);
    ck_assert_uint_eq(ce_pass_peak(pass), 3 * 64);
    ce_pass_close(pass);
}
END_TEST

START_TEST(evaluation_keeps_no_tensor)
{
    cs_pass *pass = open_pass(NULL, 0);
    begin(pass, CE_PASS_EVALUATION);
    ck_assert(!cs_pass_training(pass));
    ce_pass_enter(pass, NULL, CE_PASS_FORWARD);
    cs_pass_keep(pass, cs_pass_make(pass, CS_BF16, 5, 7));
    ce_pass_leave(pass);
    ck_assert_int_eq(ce_pass_mark(pass), 0);
    ce_pass_end(pass);
    ce_pass_close(pass);
}
END_TEST

START_TEST(rewinding_forgets_what_was_kept_since)
{
    cs_pass *pass = open_pass(NULL, 0);
    begin(pass, CE_PASS_TRAINING);
    ce_pass_enter(pass, NULL, CE_PASS_FORWARD);
    cs_tensor a = cs_pass_make(pass, CS_F32, 1, 16);
    cs_pass_keep(pass, a);
    int mark = ce_pass_mark(pass);
    cs_tensor b = cs_pass_make(pass, CS_F32, 1, 16);
    cs_pass_keep(pass, b);
    cs_pass_keep(pass, a); /* a tensor that is kept twice lives until both references end */
    ce_pass_rewind(pass, mark);
    ce_pass_leave(pass);
    ce_pass_enter(pass, NULL, CE_PASS_FORWARD);
    ck_assert_ptr_eq(cs_pass_make(pass, CS_F32, 1, 16).data, b.data);
    ck_assert_ptr_eq(cs_pass_take(pass).data, a.data);
    ce_pass_leave(pass);
    ce_pass_end(pass);
    ce_pass_close(pass);
}
END_TEST

START_TEST(tensors_of_others_may_be_kept)
{
    int32_t tokens[6] = { 0 };
    cs_pass *pass = open_pass(NULL, 0);
    begin(pass, CE_PASS_TRAINING);
    ce_pass_enter(pass, NULL, CE_PASS_FORWARD);
    cs_pass_keep(pass, cs_matrix(tokens, CS_I32, 2, 3));
    ce_pass_leave(pass);
    ce_pass_enter(pass, NULL, CE_PASS_FORWARD);
    ck_assert_ptr_eq(cs_pass_take(pass).data, tokens);
    ce_pass_leave(pass);
    ce_pass_end(pass);
    ce_pass_close(pass);
}
END_TEST

/* The tensors that random_walk holds. It makes random tensors, first in a pass that measures, then in a block of the
 * measured size, and checks that no tensors overlap. */
typedef struct {
    cs_tensor held[64];
    int count;
} holding;

static size_t random_walk(cs_pass *pass, bool real)
{
    unsigned short state[3] = { 5, 6, 7 };
    holding all = { .count = 0 };
    begin(pass, CE_PASS_TRAINING);
    for (int i = 0; i < 3000; i++) {
        ce_pass_enter(pass, NULL, CE_PASS_FORWARD);
        cs_tensor tensor = cs_pass_make(pass, CS_U8, 1, 1 + (int64_t)(erand48(state) * 1000));
        if (real)
            memset(tensor.data, i & 255, (size_t)cs_count(tensor));
        ce_pass_hold(pass, tensor);
        ce_pass_leave(pass);
        all.held[all.count++] = tensor;
        while (all.count == 64 || (all.count && erand48(state) < 0.45)) {
            int at = (int)(erand48(state) * all.count);
            cs_tensor gone = all.held[at];
            const uint8_t *bytes = gone.data;
            for (int64_t e = 1; real && e < cs_count(gone); e++)
                ck_assert_uint_eq(bytes[e], bytes[0]);
            ce_pass_let_go(pass, gone);
            all.held[at] = all.held[--all.count];
        }
    }
    while (all.count)
        ce_pass_let_go(pass, all.held[--all.count]);
    ce_pass_end(pass);
    return ce_pass_peak(pass);
}

START_TEST(measuring_predicts_the_peak)
{
    cs_pass *measure = open_pass(NULL, 0);
    size_t peak = random_walk(measure, false);
    void *block = aligned_alloc(64, peak);
    cs_pass *pass = open_pass(block, peak);
    ck_assert_uint_eq(random_walk(pass, true), peak);
    ce_pass_close(measure);
    ce_pass_close(pass);
    free(block);
}
END_TEST

/* The pass has memory for 200 rows of 10 columns. */
START_TEST(chunks_are_even_and_bounded)
{
    static const struct {
        int64_t rows, columns, chunk;
    } cases[] = {
        { 1, 10, 1 },      { 192, 10, 192 },  { 193, 10, 128 },  { 384, 10, 192 },
        { 1000, 10, 192 }, { 1025, 10, 192 }, { 100, 1000, 64 }, { 65, 10, 65 },
    };
    cs_pass *pass;
    CS_MUST(ce_pass_open(&pass, &(ce_pass_shape){
                                    .device = device, .dtype = CS_F32, .products = CS_F32, .chunk_bytes = 8000 }));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_int_eq(cs_pass_chunk(pass, CS_F32, cases[i].rows, cases[i].columns), cases[i].chunk);
    ck_assert_int_eq(cs_pass_chunk(pass, CS_BF16, 384, 10), 384);
    ce_pass_close(pass);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { scratch_ends_with_its_unit_and_kept_is_taken_in_mirror_order,
                                   evaluation_keeps_no_tensor,
                                   rewinding_forgets_what_was_kept_since,
                                   tensors_of_others_may_be_kept,
                                   measuring_predicts_the_peak,
                                   chunks_are_even_and_bounded };
    CS_MUST(ce_device_open(&device, &(ce_device_settings){ .kind = "dry", .threads = 1 }));
    int failed = suite_run("pass", tests, (int)(sizeof tests / sizeof *tests));
    ce_device_close(device);
    return failed;
}
