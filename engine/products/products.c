/* products.c - cspeed.products: by which method CPUs multiply matrices.
 *
 * The methods round differently, and replicas of the parameters must have the same bits on every rank. Therefore rank 0
 * measures those methods that the CPUs of all ranks offer, and all ranks use the choice of rank 0. A checkpoint records
 * the choice, and a run that continues the checkpoint uses the same choice. */
#include "products/products.h"
#include "base/log.h"
#include "base/must.h"
#include "products/products_cache.h"

#include <stdio.h>

/* If a micro-batch has fewer than min_flops floating-point operations, a measurement is not worth its time, and the
 * method FIXED is used. A measurement takes at most max_seconds. */
static const double min_flops = 1e9, max_seconds = 0.045;

/* The smallest acceptable result of a measurement, as a share of the roof (the highest measured speed). An undisturbed
 * measurement of large products exceeds this share. A lower share may mean that other ranks or programs used the memory
 * at the same time, which slows some methods more than others. */
static const double min_share = 0.65;

static bool may(unsigned methods, ce_method method)
{
    return methods & 1u << method;
}

/* ---- the choice of methods as one line of text ---- */

/* Writes which methods the products of this model use, for example "native for 13 shapes, sgemm for 2". */
static void summarize(char text[128], const ce_product_list *list, const ce_product_choice *choice)
{
    int counts[CE_METHODS] = { 0 }, used = 0;
    for (int i = 0; i < list->count; i++)
        counts[ce_products_method(choice, &list->use[i].of)]++;
    for (int method = 0; method < CE_METHODS; method++)
        if (counts[method])
            used += snprintf(text + used, (size_t)(128 - used), "%s%s for %d%s", used ? ", " : "",
                             ce_method_name((ce_method)method), counts[method], used ? "" : " shapes");
}

static void say(const ce_product_list *list, const ce_product_choice *choice, const ce_products_measured *measured)
{
    char text[128];
    summarize(text, list, choice);
    ce_log(CE_LOG_INFO, "products: %s: %s; %.0f %% of the roof of %.0f GFLOP/s a thread, measured %s (cspeed.products)",
           choice->dtype == CS_F32    ? "fp32"
           : choice->dtype == CS_BF16 ? "bf16"
                                      : "fp16",
           text, 100 * measured->share, 1e-9 * measured->roof, measured->cached ? "before" : "now");
}

/* ---- the choice of methods on rank 0 ---- */

/* Prints, in one line, everything on which a measurement depends. The number of uses of each class of products is left
 * out, so that runs that differ only in recomputation or evaluation use the same choice. */
static void print_key(char key[CE_PRODUCTS_KEY], cs_device *device, const ce_product_list *list, unsigned methods)
{
    int used = snprintf(key, CE_PRODUCTS_KEY, "cspeed %s, %s, methods %x:", CS_VERSION, ce_device_products_on(device),
                        methods);
    for (int i = 0; i < list->count && used < CE_PRODUCTS_KEY; i++) {
        const ce_product_use *use = &list->use[i];
        used += snprintf(key + used, (size_t)(CE_PRODUCTS_KEY - used), " %d%d%d%d%d%d %lldx%lldx%lld",
                         use->of.transpose_a, use->of.transpose_b, use->dtype, use->to, use->add, use->bias,
                         (long long)use->tokens, (long long)use->of.rows, (long long)use->of.columns);
    }
}

/* Measures a second time if the first result is poor, and keeps the better result. A poor result is not cached. */
static void measure(cs_device *device, const ce_product_list *list, unsigned methods, ce_products_measured *measured)
{
    char key[CE_PRODUCTS_KEY];
    ce_product_trial trial = { .list = list, .methods = methods, .seconds = max_seconds };
    print_key(key, device, list, methods);
    if (ce_products_cache_get(key, measured) && measured->share >= min_share)
        return;
    measured->share = -1;
    for (int attempt = 0; attempt < 2 && measured->share < min_share; attempt++) {
        ce_product_choice choice = measured->choice;
        ce_device_try_products(device, &trial);
        choice.dtype = list->use[0].dtype;
        double share = ce_products_pick(&choice, &trial);
        if (share > measured->share)
            *measured = (ce_products_measured){ .choice = choice, .share = share, .roof = trial.roof };
    }
    if (measured->share >= min_share)
        ce_products_cache_put(key, measured);
}

static ce_product_choice choose(cs_engine *engine, ce_product_choice choice)
{
    const ce_product_list *list = &engine->products.list;
    unsigned common = engine->products.common;
    bool narrower = ce_device_methods(engine->device, choice.dtype, false) & ~common & 1u << CE_METHOD_NATIVE;
    double flops = 0;
    for (int i = 0; i < list->count; i++)
        flops += list->use[i].flops;
    choice.others = may(common, CE_METHOD_PACKED) ? CE_METHOD_FIXED : CE_METHOD_SGEMM;
    if (flops >= min_flops) {
        ce_products_measured measured = { .choice = choice };
        measure(engine->device, list, common, &measured);
        choice = measured.choice;
        say(list, &choice, &measured);
    }
    if (narrower)
        ce_log(CE_LOG_INFO, "matrix products are converted to fp32, because the CPU of another rank has no native "
                            "products of this type (cspeed.products)");
    return choice;
}

/* ---- all ranks ---- */

/* Sets engine->products.common to the methods that every rank offers. Collective. */
static void intersect(cs_engine *engine, unsigned offered)
{
    int64_t flags[CE_METHODS];
    for (int method = 0; method < CE_METHODS; method++)
        flags[method] = may(offered, (ce_method)method);
    cs_comm_all_reduce(engine->comm, flags, CE_METHODS, CS_I64, CS_MIN);
    engine->products.common = 0;
    for (int method = 0; method < CE_METHODS; method++)
        engine->products.common |= (unsigned)flags[method] << method;
}

/* Replaces this rank's choice of methods by rank 0's choice. Collective. */
static void share(cs_engine *engine, ce_product_choice *choice)
{
    union {
        char text[CE_PRODUCTS_TEXT];
        int64_t words[CE_PRODUCTS_TEXT / sizeof(int64_t)];
    } sent = { { 0 } };
    ce_products_print(sent.text, choice);
    cs_comm_broadcast(engine->comm, sent.words, sizeof sent / sizeof *sent.words, CS_I64, 0);
    CE_ASSERT(ce_products_read(choice, sent.text));
}

/* `here`: whether it is this rank that lacks the method. */
static cs_status refuse(const cs_engine *engine, ce_method asked, bool here)
{
    if (asked >= CE_METHOD_TILES)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: cspeed.products \"%s\", because it multiplies %s matrices, and this training "
                       "multiplies another type; leave the key out",
                       ce_method_name(asked), asked == CE_METHOD_TILES ? "bf16" : "fp32");
    return ce_fail(
        CS_UNSUPPORTED,
        "not supported: cspeed.products \"%s\", because %s for the CPU of %s (rank %d has %s); leave the key "
        "out, or set it to \"fixed\"",
        ce_method_name(asked),
        asked == CE_METHOD_NATIVE ? "oneDNN has no products of this type" : "this build has no such product",
        here ? "this rank" : "another rank", engine->world.rank, ce_device_products_on(engine->device));
}

cs_status ce_products_agree(cs_engine *engine)
{
    int asked = engine->settings->products;
    ce_product_choice choice = { .dtype = engine->settings->precision.products };
    unsigned offered = ce_device_methods(engine->device, choice.dtype, asked != CE_PRODUCTS_AUTO);
    if (offered == 0) {
        if (asked != CE_PRODUCTS_AUTO)
            ce_log(CE_LOG_WARNING, "cspeed.products is for CPUs: this device multiplies in its own way");
        return CS_OK;
    }
    intersect(engine, offered);
    choice.others = asked == CE_PRODUCTS_AUTO ? CE_METHOD_FIXED : (ce_method)(asked - CE_PRODUCTS_FIXED);
    if (!may(engine->products.common, choice.others) && asked != CE_PRODUCTS_AUTO)
        return refuse(engine, choice.others, !may(offered, choice.others));
    if (asked == CE_PRODUCTS_AUTO && engine->world.rank == 0)
        choice = choose(engine, choice);
    share(engine, &choice);
    ce_device_use_products(engine->device, &choice);
    return CS_OK;
}

/* ---- checkpoints ---- */

json_t *ce_products_record(const cs_engine *engine)
{
    char text[CE_PRODUCTS_TEXT];
    const ce_product_choice *choice = ce_device_products(engine->device);
    if (!choice)
        return NULL;
    ce_products_print(text, choice);
    return json_string(text);
}

static bool differ(const ce_product_list *list, const ce_product_choice *a, const ce_product_choice *b)
{
    for (int i = 0; i < list->count; i++)
        if (ce_products_method(a, &list->use[i].of) != ce_products_method(b, &list->use[i].of))
            return true;
    return false;
}

/* All ranks read the same choice from the checkpoint and know the same common methods, so all ranks come to the same
 * decision. */
void ce_products_resume(cs_engine *engine, json_t *provenance)
{
    const char *text = json_string_value(json_object_get(provenance, "products"));
    const ce_product_list *list = &engine->products.list;
    const ce_product_choice *current = ce_device_products(engine->device);
    ce_product_choice saved;
    char kept[128], here[128];
    if (!text || !current || !ce_products_read(&saved, text) || saved.dtype != current->dtype ||
        !differ(list, current, &saved))
        return;
    summarize(kept, list, &saved);
    summarize(here, list, current);
    if (engine->settings->products != CE_PRODUCTS_AUTO)
        ce_log(CE_LOG_WARNING,
               "the checkpoint was made with other methods of products: %s; cspeed.products asks for %s, so this run "
               "rounds differently from here on",
               kept, here);
    else if (ce_products_methods(&saved) & ~engine->products.common)
        ce_log(CE_LOG_WARNING,
               "the checkpoint was made with methods of products that the CPU of a rank does not have: %s; this run "
               "uses %s, and rounds differently from here on",
               kept, here);
    else {
        ce_log(CE_LOG_INFO, "products: %s, as in the checkpoint; measured here: %s (cspeed.products)", kept, here);
        ce_device_use_products(engine->device, &saved);
    }
}
