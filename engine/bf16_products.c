/* bf16_products.c - cspeed.bf16_products: whether CPUs multiply bf16 matrices natively or as fp32 copies.
 *
 * The two methods round differently, and replicas of the parameters must have the same bits on every rank. Therefore
 * rank 0 measures both and its choice is used by all ranks; if one rank's CPU has no native bf16 products, all ranks
 * multiply fp32 copies. */
#include "engine.h"
#include "base/log.h"

#include <string.h>

/* Native products are chosen only if they are at least this many times as fast, because they round differently. */
static const double min_gain = 1.1;

static bool is_cpu(const cs_engine *engine)
{
    return strcmp(cs_device_kind(engine->device), "cpu") == 0;
}

static void say(bool native, bool wanted, double gain)
{
    if (native)
        cs_log(CS_LOG_INFO,
               "bf16 products: multiplied as bf16, measured %.1f times as fast as fp32 copies "
               "(cspeed.bf16_products)",
               gain);
    else if (wanted)
        cs_log(CS_LOG_INFO, "bf16 products: fp32 copies are multiplied, because the CPU of another rank has no bf16 "
                            "products (cspeed.bf16_products)");
    else if (gain > 0)
        cs_log(CS_LOG_INFO,
               "bf16 products: fp32 copies are multiplied, because products as bf16 measured %.1f times "
               "as fast here (cspeed.bf16_products)",
               gain);
    else
        cs_log(CS_LOG_INFO, "bf16 products: fp32 copies are multiplied, because this CPU has no bf16 products");
}

/* Collective: all ranks call it, also a rank whose device has no choice. */
static void choose(cs_engine *engine)
{
    bool first = engine->world.rank == 0;
    double gain = first ? cs_device_native_gain(engine->device) : 0;
    bool wanted = first ? gain >= min_gain : cs_device_has_native(engine->device);
    int64_t native = wanted;
    cs_comm_all_reduce(engine->comm, &native, 1, CS_I64, CS_MIN);
    cs_device_set_native(engine->device, native);
    if (first && is_cpu(engine))
        say(native, wanted, gain);
}

cs_status cs_bf16_products_agree(cs_engine *engine)
{
    int asked = engine->settings->bf16_products;
    if (asked != CS_PRODUCTS_AUTO && !is_cpu(engine))
        cs_log(CS_LOG_WARNING, "cspeed.bf16_products is for CPUs: this device multiplies bf16 in its own way");
    if (engine->settings->precision.products != CS_BF16)
        return CS_OK;
    if (asked == CS_PRODUCTS_AUTO)
        choose(engine);
    else if (!cs_device_set_native(engine->device, asked == CS_PRODUCTS_NATIVE))
        return cs_fail(CS_UNSUPPORTED,
                       "not supported: cspeed.bf16_products \"native\", because oneDNN has no bf16 "
                       "products for the CPU of rank %d; leave the key out, or set it to \"fp32\"",
                       engine->world.rank);
    return CS_OK;
}
