/* products.h - the methods by which a CPU multiplies matrices, and the choice of one for each class of products.
 *
 * The methods round differently. Therefore a choice is made once, by measuring, and is then used by all ranks; a
 * checkpoint records it as text. A GPU has no such choice: its methods are none. */
#ifndef CS_DEVICE_PRODUCTS_H
#define CS_DEVICE_PRODUCTS_H

#include "device/device.h"

/* NATIVE: oneDNN's primitives multiply the type itself and add in fp32. SGEMM: oneDNN's sgemm, on fp32 copies of 16-bit
 * matrices. PACKED: cspeed's own product, which converts to fp32 while it packs. FIXED: SGEMM or PACKED by a rule about
 * the shape, without a measurement. The names in text are those of this list. */
#define CS_PRODUCT_METHODS(METHOD)                                                                                     \
    METHOD(FIXED, "fixed") METHOD(NATIVE, "native") METHOD(SGEMM, "sgemm") METHOD(PACKED, "packed")
typedef enum {
#define METHOD(word, name) CS_METHOD_##word,
    CS_PRODUCT_METHODS(METHOD)
#undef METHOD
        CS_METHODS
} ce_method;
const char *ce_method_name(ce_method method);

enum { CS_PRODUCTS = 64, CS_PRODUCTS_TEXT = 4096 };

/* A class of products c (m, n) = op(a) (m, k) op(b) (k, n). "nn", "nt", "tn" say whether a and b are transposed, as in
 * BLAS. The number of tokens does not distinguish classes: it is m if a is not transposed (`rows` is then k), else k
 * (`rows` is then m). `columns` is n. */
typedef struct {
    bool transpose_a, transpose_b;
    int64_t rows, columns;
} ce_product_class;

/* How a class is used: in one forward and backward pass. */
typedef struct {
    ce_product_class of;
    cs_dtype dtype, to; /* type of a and b; of c */
    bool add, bias;     /* the product is added to c; a bias is added to it */
    int64_t tokens;
    double flops;
} ce_product_use;
typedef struct {
    ce_product_use use[CS_PRODUCTS];
    int count;
} ce_product_list;
/* The products that a dry device was asked for, in order of first use; further classes than CS_PRODUCTS are left out. Of
 * several numbers of tokens the greatest counts. NULL: this is not a dry device. */
const ce_product_list *ce_device_product_list(const cs_device *device);
/* m, n and k of a product of this class with so many tokens. */
typedef struct {
    int64_t m, n, k;
} ce_product_size;
ce_product_size ce_product_size_of(const ce_product_class *of, int64_t tokens);

typedef struct {
    cs_dtype dtype;   /* products of other types use FIXED */
    ce_method others; /* the method of classes that are not listed */
    struct {
        ce_product_class of;
        ce_method method;
    } entry[CS_PRODUCTS];
    int count;
} ce_product_choice;
/* "bf16: nn 768x2304 native, tn 768x2304 sgemm, others fixed" */
void ce_products_print(char text[CS_PRODUCTS_TEXT], const ce_product_choice *choice);
/* Returns false, with *choice undefined, unless the text is one that ce_products_print writes. */
bool ce_products_read(ce_product_choice *choice, const char *text);
ce_method ce_products_method(const ce_product_choice *choice, const ce_product_class *of);
unsigned ce_products_methods(const ce_product_choice *choice); /* the methods it uses: bit 1 << method */

/* A measurement of speeds by ce_device_try_products. The caller sets the first three fields. */
typedef struct {
    const ce_product_list *list;
    unsigned methods;                      /* which may be measured: bit 1 << method */
    double seconds;                        /* CPU time it may take; classes with most work are measured first */
    double speed[CS_PRODUCTS][CS_METHODS]; /* FLOP/s of one thread; 0: not measured */
    ce_method fixed[CS_PRODUCTS];          /* the method that FIXED means; SGEMM if that one may not be measured */
    double roof;                           /* the greatest speed that was measured, of a square product too */
} ce_product_trial;
/* Takes the fastest method for each class that was measured. It must be at least 1.1 times as fast as FIXED's, because
 * methods round differently. A class that was not measured follows the measured one with the same transposes that has
 * the most work.
 * Sets everything but choice->dtype. Returns the speed of all products of the list as a share of the roof, 0 to 1. */
double ce_products_pick(ce_product_choice *choice, const ce_product_trial *trial);

/* ---- the device ---- */
/* The methods that this device offers for products of a type: bit 1 << method. With `slow`, NATIVE is among them even if
 * it is the library's reference code. 0: the device has no choice. */
unsigned ce_device_methods(cs_device *device, cs_dtype dtype, bool slow);
/* Measures on one thread, by its CPU time, on parts of the products that take a fraction of a millisecond. */
void ce_device_try_products(cs_device *device, ce_product_trial *trial);
/* The methods must be offered. Without effect on a device that has no choice. */
void ce_device_use_products(cs_device *device, const ce_product_choice *choice);
const ce_product_choice *ce_device_products(const cs_device *device); /* NULL: no choice */
/* What the speed of products depends on: "AMD EPYC, AVX-512 BF16, oneDNN 2.6.3, 2 threads"; "" if there is no choice. */
const char *ce_device_products_on(cs_device *device);

#endif
