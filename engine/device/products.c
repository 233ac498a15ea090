/* products.c - the choice of a method for each class of matrix products: as text, and from measured speeds. */
#include "device/table.h"
#include "base/must.h"

#include <stdio.h>
#include <string.h>

static const double min_gain = 1.1;

static const char *const method_names[] = {
#define METHOD(word, name) [CE_METHOD_##word] = name,
    CE_PRODUCT_METHODS(METHOD)
#undef METHOD
};
static const char *const type_names[] = { [CS_F32] = "fp32", [CS_BF16] = "bf16", [CS_F16] = "fp16" };

const char *ce_method_name(ce_method method)
{
    return method_names[method];
}

static bool same(const ce_product_class *a, const ce_product_class *b)
{
    return a->transpose_a == b->transpose_a && a->transpose_b == b->transpose_b && a->rows == b->rows &&
           a->columns == b->columns;
}

ce_product_class ce_product_class_of(const ce_product *product)
{
    int64_t depth = product->transpose_a ? cs_rows(product->a) : cs_columns(product->a);
    return (ce_product_class){ product->transpose_a, product->transpose_b,
                               product->transpose_a ? cs_rows(product->c) : depth, cs_columns(product->c) };
}

ce_product_size ce_product_size_of(const ce_product_class *of, int64_t tokens)
{
    return of->transpose_a ? (ce_product_size){ of->rows, of->columns, tokens }
                           : (ce_product_size){ tokens, of->columns, of->rows };
}

void ce_product_list_add(ce_product_list *list, const ce_product *product)
{
    ce_product_class of = ce_product_class_of(product);
    int64_t tokens = of.transpose_a ? cs_rows(product->a) : cs_rows(product->c);
    ce_product_use *use = list->use;
    while (use < list->use + list->count && !(same(&use->of, &of) && use->dtype == product->a.dtype))
        use++;
    if (use == list->use + CE_PRODUCTS)
        return;
    double before = use < list->use + list->count ? use->flops : 0;
    int64_t max = before > 0 ? use->tokens : 0;
    *use = (ce_product_use){ of,
                             product->a.dtype,
                             product->c.dtype,
                             product->add,
                             product->bias.data != NULL,
                             tokens > max ? tokens : max,
                             before + 2.0 * (double)of.rows * (double)of.columns * (double)tokens };
    list->count += before == 0;
}

/* ---- the choice ---- */

ce_method ce_products_method(const ce_product_choice *choice, const ce_product_class *of)
{
    for (int i = 0; i < choice->count; i++)
        if (same(&choice->entry[i].of, of))
            return choice->entry[i].method;
    return choice->others;
}

static void set(ce_product_choice *choice, const ce_product_class *of, ce_method method)
{
    int at = 0;
    while (at < choice->count && !same(&choice->entry[at].of, of))
        at++;
    if (at == CE_PRODUCTS)
        return;
    choice->entry[at].of = *of;
    choice->entry[at].method = method;
    choice->count += at == choice->count;
}

unsigned ce_products_methods(const ce_product_choice *choice)
{
    unsigned methods = 1u << choice->others;
    for (int i = 0; i < choice->count; i++)
        methods |= 1u << choice->entry[i].method;
    return methods;
}

/* ---- as text ---- */

void ce_products_print(char text[CE_PRODUCTS_TEXT], const ce_product_choice *choice)
{
    int used = snprintf(text, CE_PRODUCTS_TEXT, "%s: ", type_names[choice->dtype]);
    for (int i = 0; i < choice->count; i++) {
        const ce_product_class *of = &choice->entry[i].of;
        used += snprintf(text + used, (size_t)(CE_PRODUCTS_TEXT - used), "%c%c %lldx%lld %s, ",
                         of->transpose_a ? 't' : 'n', of->transpose_b ? 't' : 'n', (long long)of->rows,
                         (long long)of->columns, method_names[choice->entry[i].method]);
        CE_ASSERT(used < CE_PRODUCTS_TEXT);
    }
    used += snprintf(text + used, (size_t)(CE_PRODUCTS_TEXT - used), "others %s", method_names[choice->others]);
    CE_ASSERT(used < CE_PRODUCTS_TEXT);
}

static int index_of(const char *const *names, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

/* Parses one entry of a choice. Returns the entry's length, or 0 if the text does not begin with an entry. */
static int read_entry(ce_product_choice *choice, const char *text)
{
    char a, b, method[16];
    long long rows, columns;
    int length = 0;
    if (sscanf(text, "%c%c %lldx%lld %15[a-z0-9], %n", &a, &b, &rows, &columns, method, &length) < 5 || length == 0)
        return 0;
    int found = index_of(method_names, CE_METHODS, method);
    if (!strchr("nt", a) || !strchr("nt", b) || rows < 1 || columns < 1 || found < 0 || choice->count == CE_PRODUCTS)
        return 0;
    set(choice, &(ce_product_class){ a == 't', b == 't', rows, columns }, (ce_method)found);
    return length;
}

bool ce_products_read(ce_product_choice *choice, const char *text)
{
    char word[16], again[CE_PRODUCTS_TEXT];
    int length = 0, step;
    *choice = (ce_product_choice){ 0 };
    if (sscanf(text, "%15[a-z0-9]: %n", word, &length) < 1 || length == 0)
        return false;
    int type = index_of(type_names, CS_F16 + 1, word);
    for (const char *at = text + length; (step = read_entry(choice, at)) > 0; at += step)
        length += step;
    int others = sscanf(text + length, "others %15[a-z0-9]", word) == 1 ? index_of(method_names, CE_METHODS, word) : -1;
    if (type < 0 || others < 0)
        return false;
    choice->dtype = (cs_dtype)type;
    choice->others = (ce_method)others;
    ce_products_print(again, choice);
    return strcmp(again, text) == 0;
}

/* ---- from measured speeds ---- */

static ce_method fastest(const ce_product_trial *trial, int index)
{
    const double *speed = trial->speed[index];
    ce_method best = trial->fixed[index];
    for (int method = CE_METHOD_NATIVE; method < CE_METHODS; method++)
        if (speed[method] > speed[best])
            best = (ce_method)method;
    return speed[best] >= min_gain * speed[trial->fixed[index]] ? best : trial->fixed[index];
}

/* Returns the index of the measured class whose speeds decide for class `index`. This is `index` itself if class
 * `index` was measured. Otherwise it is the class with the most work among the measured classes with the same
 * transposes. Returns -1 if there is no such class. */
static int judge_of(const ce_product_trial *trial, int index)
{
    int judge = -1;
    const ce_product_use *use = trial->list->use;
    for (int i = 0; i < trial->list->count; i++) {
        bool measured = trial->speed[i][trial->fixed[i]] > 0;
        if (measured && i == index)
            return i;
        if (measured && use[i].of.transpose_a == use[index].of.transpose_a &&
            use[i].of.transpose_b == use[index].of.transpose_b && (judge < 0 || use[i].flops > use[judge].flops))
            judge = i;
    }
    return judge;
}

double ce_products_pick(ce_product_choice *choice, const ce_product_trial *trial)
{
    double flops = 0, seconds = 0;
    choice->count = 0;
    choice->others = trial->methods & 1u << CE_METHOD_PACKED ? CE_METHOD_FIXED : CE_METHOD_SGEMM;
    for (int i = 0; i < trial->list->count; i++) {
        int judge = judge_of(trial, i);
        if (judge < 0)
            continue;
        ce_method method = fastest(trial, judge);
        set(choice, &trial->list->use[i].of, method == trial->fixed[judge] ? trial->fixed[i] : method);
        flops += trial->list->use[i].flops;
        seconds += trial->list->use[i].flops / trial->speed[judge][method];
    }
    return flops > 0 ? flops / seconds / trial->roof : 0;
}

/* ---- the device ---- */

const ce_product_list *ce_device_product_list(const cs_device *device)
{
    return device->table->product_list ? device->table->product_list(device) : NULL;
}

unsigned ce_device_methods(cs_device *device, cs_dtype dtype, bool asked)
{
    return device->table->methods ? device->table->methods(device, dtype, asked) : 0;
}

void ce_device_try_products(cs_device *device, ce_product_trial *trial)
{
    device->table->try_products(device, trial);
}

void ce_device_use_products(cs_device *device, const ce_product_choice *choice)
{
    if (device->table->use_products)
        device->table->use_products(device, choice);
}

const ce_product_choice *ce_device_products(const cs_device *device)
{
    return device->table->products ? device->table->products(device) : NULL;
}

const char *ce_device_products_on(cs_device *device)
{
    return device->table->products_on ? device->table->products_on(device) : "";
}
