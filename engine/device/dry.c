/* dry.c - the dry device: it counts memory and flops, but computes nothing. It is used to plan the memory of a model,
 * and to list the products that the model needs.
 *
 * The memory of the dry device is addresses that must not be accessed, so a plan of a large model needs no memory. The
 * dry device does not run the calls given to its streams or the tasks given to its threads. */
#include "device/table.h"
#include "base/range.h"

#include <stdio.h>
#include <stdlib.h>

enum { ALIGNMENT = 64 };

typedef struct {
    ce_product_list products;
    size_t used; /* bytes of addresses that were given away */
} dry;

static cs_status dry_open(cs_device *device, const ce_device_settings *settings)
{
    if (!(device->private_data = calloc(1, sizeof(dry))))
        return ce_fail(CS_NO_MEMORY, "out of memory for the device that plans memory");
    device->threads = settings->threads > 0 ? settings->threads : 1;
    snprintf(device->description, sizeof device->description, "dry: plans, computes nothing");
    return CS_OK;
}

static void dry_close(cs_device *device)
{
    free(device->private_data);
}

static const ce_product_list *dry_product_list(const cs_device *device)
{
    return &((const dry *)device->private_data)->products;
}

static void dry_product(cs_device *device, const ce_product *product)
{
    ce_product_list_add(&((dry *)device->private_data)->products, product);
}

/* Without data, the number of slots of each expert is not known, so each expert is counted with an equal share of the
 * slots. */
static void dry_experts(cs_device *device, const ce_experts *job)
{
    int64_t experts = cs_count(job->bounds) - 1;
    int64_t slots = cs_rows(job->product.a), share = ce_divide_up(slots, experts);
    for (int64_t e = 0; e < experts; e++) {
        ce_product part = ce_experts_part(job, e, (ce_range){ 0, share });
        dry_product(device, &part);
    }
}

static void *dry_alloc(cs_device *device, size_t bytes)
{
    dry *state = device->private_data;
    char *memory = (char *)((uintptr_t)1 << 45) + state->used;
    state->used += (size_t)ce_round_up((int64_t)bytes + 1, ALIGNMENT);
    return memory;
}

static void dry_free(cs_device *device, void *memory, size_t bytes)
{
    (void)device, (void)memory, (void)bytes;
}

const ce_device_table ce_device_dry = {
    .kind = "dry",
    .open = dry_open,
    .close = dry_close,
    .alloc = dry_alloc,
    .free = dry_free,
    .product_list = dry_product_list,
    .product = dry_product,
    .experts = dry_experts,
};
