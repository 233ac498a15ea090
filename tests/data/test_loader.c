/* test_loader.c - batches come in order, each filled once, for any number of workers; a batch is not overwritten while
 * it is in use; the loader can be closed at any time. */
#include "suite.h"

#include "cspeed/loader.h"

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

enum { NUMBERS = 25 };

typedef struct {
    /* `filled`: number of finished calls of fill(); `inside`: number of calls that run now; `max`: the greatest value
     * of `inside` so far */
    atomic_int filled, inside, max;
    atomic_int overwritten; /* number of calls of fill() for the batch that is in use */
    _Atomic(void *) used;
} record;

static void fill(void *argument, int64_t index, void *batch)
{
    record *r = argument;
    int64_t *numbers = batch;
    int inside = atomic_fetch_add(&r->inside, 1) + 1;
    if (inside > atomic_load(&r->max))
        atomic_store(&r->max, inside);
    if (batch == atomic_load(&r->used))
        atomic_fetch_add(&r->overwritten, 1);
    nanosleep(&(struct timespec){ .tv_nsec = 100000 * (index % 3) }, NULL); /* later batches may be ready first */
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = index * NUMBERS + i;
    atomic_fetch_add(&r->filled, 1);
    atomic_fetch_sub(&r->inside, 1);
}

static void check_batch(const int64_t *numbers, int64_t index)
{
    ck_assert_int_eq((uintptr_t)numbers % 64, 0);
    for (int i = 0; i < NUMBERS; i++)
        ck_assert_int_eq(numbers[i], index * NUMBERS + i);
}

START_TEST(the_order_is_that_of_the_numbers)
{
    for (int workers = 0; workers <= 5; workers++)
        for (int prefetch = 0; prefetch <= 3; prefetch++) {
            record r = { 0 };
            cs_loader *loader;
            cs_loader_settings settings = { .fill = fill,
                                            .argument = &r,
                                            .bytes = NUMBERS * sizeof(int64_t),
                                            .workers = workers,
                                            .prefetch = prefetch,
                                            .count = 40 };
            ck_assert_int_eq(cs_loader_open(&loader, &settings), CS_OK);
            for (int64_t i = 0; i < 40; i++) {
                atomic_store(&r.used, NULL);
                int64_t *numbers = cs_loader_next(loader);
                atomic_store(&r.used, numbers);
                check_batch(numbers, i);
                if (i % 7 == 0)
                    nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
                check_batch(numbers, i);
            }
            cs_loader_close(loader);
            ck_assert_int_eq(r.filled, 40);
            ck_assert_int_eq(r.overwritten, 0);
            ck_assert_int_le(r.max, workers ? workers : 1);
        }
}
END_TEST

START_TEST(it_reads_ahead_and_may_be_closed)
{
    record r = { 0 };
    cs_loader *loader;
    cs_loader_settings settings = { .fill = fill, .argument = &r, .bytes = NUMBERS * sizeof(int64_t), .workers = 2 };
    ck_assert_int_eq(cs_loader_open(&loader, &settings), CS_OK);
    while (r.filled < 2) /* two batches are filled before any batch is requested */
        nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
    nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    ck_assert_int_eq(r.filled, 2); /* one batch for each worker, and no more */
    check_batch(cs_loader_next(loader), 0);
    cs_loader_close(loader);
    cs_loader_close(NULL);
}
END_TEST

START_TEST(settings_without_a_meaning_are_refused)
{
    record r = { 0 };
    cs_loader *loader;
    cs_loader_settings rows[] = { { .bytes = 8 },
                                  { .fill = fill },
                                  { .fill = fill, .bytes = 8, .workers = -1 },
                                  { .fill = fill, .bytes = 8, .prefetch = -1 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rows[i].argument = &r;
        ck_assert_int_eq(cs_loader_open(&loader, &rows[i]), CS_MISUSE);
        ck_assert_ptr_null(loader);
    }
    cs_loader_settings large = { .fill = fill, .argument = &r, .bytes = (size_t)1 << 60 };
    ck_assert_int_eq(cs_loader_open(&loader, &large), CS_NO_MEMORY);
}
END_TEST

SUITE_MAIN("loader", the_order_is_that_of_the_numbers, it_reads_ahead_and_may_be_closed,
           settings_without_a_meaning_are_refused)
