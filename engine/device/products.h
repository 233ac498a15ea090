/* products.h - the methods by which a CPU multiplies matrices, and the choice of one for each class of products.
 *
 * The methods round differently. Therefore a choice is made once, by measuring, and is then used by all ranks; a
 * checkpoint records the choice as text. A GPU offers no methods, so a GPU has no choice. */
#ifndef CE_DEVICE_PRODUCTS_H
#define CE_DEVICE_PRODUCTS_H

#include "device/device.h"

/* NATIVE: oneDNN's primitives, which read the matrices in their own type, without fp32 copies, and add in fp32. SGEMM:
 * oneDNN's sgemm, on fp32 copies of 16-bit matrices. PACKED: cspeed's own product, which converts to fp32 while it
 * packs. TILES: cspeed's own product of bf16 matrices on the tile registers of AMX. X6 and X3: the same of fp32 matrices,
 * each factor as the sum of three or two bf16 parts, of which six or three products are added up. FIXED: SGEMM or PACKED
 * by a rule about the shape, without a measurement. This list also gives the names of the methods in text. */
#define CE_PRODUCT_METHODS(METHOD)                                                                                     \
    METHOD(FIXED, "fixed")                                                                                             \
    METHOD(NATIVE, "native")                                                                                           \
    METHOD(SGEMM, "sgemm") METHOD(PACKED, "packed") METHOD(TILES, "tiles") METHOD(X6, "x6") METHOD(X3, "x3")
typedef enum {
#define METHOD(word, name) CE_METHOD_##word,
    CE_PRODUCT_METHODS(METHOD)
#undef METHOD
        CE_METHODS
} ce_method;
const char *ce_method_name(ce_method method);

enum { CE_PRODUCTS = 64, CE_PRODUCTS_TEXT = 4096 };

/* A class of products c (m, n) = op(a) (m, k) op(b) (k, n). "nn", "nt", "tn" say whether a and b are transposed, as in
 * BLAS. If a is not transposed, the number of tokens is m, and `rows` is k; if a is transposed, the number of tokens is
 * k, and `rows` is m. `columns` is n. Products that differ only in the number of tokens belong to the same class. */
typedef struct {
    bool transpose_a, transpose_b;
    int64_t rows, columns;
} ce_product_class;

/* All products of one class whose factors have the type `dtype`, as the dry device has counted them. `tokens` is the
 * greatest number of tokens of these products; `flops` are the floating-point operations of all these products. `to`,
 * `add` and `bias` belong to the product that was counted last. */
typedef struct {
    ce_product_class of;
    cs_dtype dtype, to; /* dtype: the type of a and b; to: the type of c */
    bool add, bias;     /* add: the product is added to c; bias: a bias is added to the product */
    int64_t tokens;
    double flops;
} ce_product_use;
typedef struct {
    ce_product_use use[CE_PRODUCTS];
    int count;
} ce_product_list;
/* Returns the products that the dry device was asked for, in the order of first use, but at most the first CE_PRODUCTS
 * classes. If a class is used with several numbers of tokens, the list has the greatest number. Returns NULL if the
 * device is not a dry device. */
const ce_product_list *ce_device_product_list(const cs_device *device);
/* The sizes m, n and k of a product of a class. ce_product_size_of computes them for a number of tokens. */
typedef struct {
    int64_t m, n, k;
} ce_product_size;
ce_product_size ce_product_size_of(const ce_product_class *of, int64_t tokens);

typedef struct {
    cs_dtype dtype;   /* the type of products for which methods are chosen; products of other types use FIXED */
    ce_method others; /* the method of the classes that are not listed in `entry` */
    struct {
        ce_product_class of;
        ce_method method;
    } entry[CE_PRODUCTS];
    int count;
} ce_product_choice;
/* Writes a choice as text, such as "bf16: nn 768x2304 native, tn 768x2304 sgemm, others fixed". */
void ce_products_print(char text[CE_PRODUCTS_TEXT], const ce_product_choice *choice);
/* Reads a choice from text. Returns true if ce_products_print could have written the text. Otherwise returns false, and
 * *choice is undefined. */
bool ce_products_read(ce_product_choice *choice, const char *text);
ce_method ce_products_method(const ce_product_choice *choice, const ce_product_class *of);
/* Returns the methods that occur in the choice, as bits 1 << method. */
unsigned ce_products_methods(const ce_product_choice *choice);

/* A measurement of speeds by ce_device_try_products. The caller sets the first three fields. */
typedef struct {
    const ce_product_list *list;
    unsigned methods; /* the methods that may be measured, as bits 1 << method */
    /* CPU time in seconds for the measurement; classes with the most work are measured first */
    double seconds;
    /* speed of each class by each method, in FLOP/s of one thread; 0: not measured */
    double speed[CE_PRODUCTS][CE_METHODS];
    /* for each class: the method that the rule of FIXED chooses, or SGEMM if that method may not be measured */
    ce_method fixed[CE_PRODUCTS];
    double roof; /* FLOP/s: the greatest speed that was measured, including square products */
} ce_product_trial;
/* Chooses the fastest method for each class that was measured. A method replaces trial->fixed only if it is at least
 * 1.1 times as fast, because methods round differently. A class that was not measured gets the method of the measured
 * class with the same transposes that has the most work. The function sets all members of *choice but dtype. Returns
 * the speed at which the chosen methods compute the products of trial->list, divided by the peak rate: a number from 0
 * to 1. */
double ce_products_pick(ce_product_choice *choice, const ce_product_trial *trial);

/* ---- methods of an open device ---- */
/* Returns the methods that this device offers for products of a type, as bits 1 << method. If `asked` is true, the
 * methods are included that only a user chooses: NATIVE even if oneDNN has only reference code for it, TILES and X6 even
 * if the CPU has no tile registers (tiles.h), and X3, which is less exact than fp32. The result is 0 if the device has
 * no choice of methods. */
unsigned ce_device_methods(cs_device *device, cs_dtype dtype, bool asked);
/* Measures the speed of the products of trial->list by running parts of them, and stores the results in *trial. A part
 * takes a fraction of a millisecond of one thread's CPU time. */
void ce_device_try_products(cs_device *device, ce_product_trial *trial);
/* Sets the method of each class of products. The device must offer every method in `choice`. This has no effect on a
 * device that has only one method. */
void ce_device_use_products(cs_device *device, const ce_product_choice *choice);
/* Returns the methods that the device uses now. Returns NULL if the device has no choice of methods. */
const ce_product_choice *ce_device_products(const cs_device *device);
/* Returns the facts on which the speed of products depends, such as "AMD EPYC, AVX-512 BF16, oneDNN 2.6.3, 2 threads",
 * or "" if the device has no choice of methods. */
const char *ce_device_products_on(cs_device *device);

#endif
