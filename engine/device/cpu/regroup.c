/* regroup.c - converts between two orders of the heads in a row. In the order by groups, each key head has a group of
 * its query heads, its key and its value. In the other order, all queries come first, then all keys, then all
 * values. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

enum { MIN_ROWS = 16 };

typedef struct {
    cs_tensor y, x;
    int64_t group, keys;
    size_t head; /* number of bytes in each head of a row */
    bool back;
} regroup_job;

/* Copies `heads` consecutive heads of a row from one order to the other. In the order by groups, the first of these
 * heads is head `at` of the row; in the other order, the first of these heads is head `whole`. */
static void copy_heads(const regroup_job *all, int64_t row, int64_t at, int64_t whole, int64_t heads)
{
    int64_t place = row * cs_columns(all->x);
    char *to = ce_elements_at(all->y, place), *from = ce_elements_at(all->x, place);
    memcpy(to + (size_t)(all->back ? at : whole) * all->head, from + (size_t)(all->back ? whole : at) * all->head,
           (size_t)heads * all->head);
}

static void regroup_rows(void *argument, ce_range range, int part)
{
    (void)part;
    const regroup_job *all = argument;
    int64_t each = all->group + 2, queries = all->group * all->keys;
    for (int64_t row = range.from; row < range.to; row++) {
        for (int64_t key = 0; key < all->keys; key++) {
            copy_heads(all, row, key * each, key * all->group, all->group);
            copy_heads(all, row, key * each + all->group, queries + key, 1);
            copy_heads(all, row, key * each + all->group + 1, queries + all->keys + key, 1);
        }
    }
}

void ce_cpu_regroup(cs_device *device, cs_tensor y, cs_tensor x, cs_heads heads, bool back)
{
    regroup_job all = { .y = y, .x = x, .group = heads.queries / heads.keys, .keys = heads.keys, .back = back };
    all.head = (size_t)(cs_columns(x) / (heads.queries + 2 * heads.keys)) * cs_dtype_bytes(x.dtype);
    ce_cpu_walk(device, cs_rows(x), MIN_ROWS, regroup_rows, &all);
}
