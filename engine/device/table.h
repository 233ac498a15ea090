/* table.h - the table of functions that a device implements, and the struct of an open device. Only files of this
 * folder and its subfolders include it.
 *
 * device.c and ops.c check the arguments, count memory and flops, and then call the function of the table. If the
 * function is NULL, nothing is called; most functions of the dry device are NULL. Operations of models run in the
 * compute stream; operations of state.h run in the stream that is passed. The functions may assume that shapes and
 * types are right. */
#ifndef CE_DEVICE_TABLE_H
#define CE_DEVICE_TABLE_H

#include <math.h>
#include <pthread.h>

#include "base/range.h"
#include "device/device.h"
#include "device/products.h"
#include "cspeed/ops.h"
#include "device/state.h"

/* The product c = op(a) op(b) + bias, where op(x) is x or its transpose. The type of c is that of a and b, or fp32. */
typedef struct {
    cs_tensor c, a, b, bias;
    bool transpose_a, transpose_b;
    bool add;      /* add: whether the product is added to the values of c; if so, c has type fp32 */
    int64_t pitch; /* elements from one row of c to the next, if c is some columns of a matrix; 0: the columns of c */
} ce_product;
/* functions of products.c */
ce_product_class ce_product_class_of(const ce_product *product);
void ce_product_list_add(ce_product_list *list, const ce_product *product);

/* The products of E experts. Each matrix of `product` holds the data of all experts. In two of the matrices a row is a
 * slot: in c and a, or, with transpose_a, in a and b. The slots of expert e are rows bounds[e] to bounds[e + 1] - 1;
 * `bounds` has E + 1 elements of type i32. The third matrix has E parts of equal size, one for each expert. */
typedef struct {
    ce_product product;
    cs_tensor bounds;
} ce_experts;
/* Returns the part of the product that expert `e` computes, if `slots` is the range of the expert's slots. */
ce_product ce_experts_part(const ce_experts *job, int64_t e, ce_range slots);

/* The arguments of an attention; ops.h describes the tensors. */
typedef struct {
    cs_tensor y, lse, qkv, dy, dqkv; /* dy and dqkv are absent in forward */
    cs_heads heads;
    cs_dropout dropout;
} ce_attention_args;

/* Returns the factor of the scores of heads with `width` columns. */
static inline float ce_heads_scale(cs_heads heads, int64_t width)
{
    return heads.scale > 0 ? heads.scale : 1 / sqrtf((float)width);
}

/* Rotary positions: the pairs of x are rotated forward, or back for the gradient. */
typedef struct {
    cs_tensor x;
    const cs_rope *rope;
    cs_rope_rows rows;
    float sign; /* sign: 1 to rotate forward, -1 to rotate back */
} ce_turn;

/* Adds a narrow matrix to some columns of a wide matrix, or copies these columns to the narrow matrix; ops.h describes
 * the tensors. */
typedef struct {
    cs_tensor wide, narrow;
    int64_t first;
    float scale;
    bool takes;
} ce_columns;

/* y = a b if `multiplies`, otherwise a + factor b, or factor b if a is absent. b has as many rows as y, or one, and as
 * many columns as y, or one. */
typedef struct {
    cs_tensor y, a, b;
    float factor;
    bool multiplies;
} ce_broadcast;

/* The loss of an element whose mean over the columns is computed; ops.h has the formulas. */
typedef enum { CE_SQUARED, CE_ABSOLUTE, CE_LOGISTIC } ce_error;

/* Computes the values of some rows and columns of a matrix of 4-bit numbers; ops.h describes the tensors. */
typedef struct {
    cs_tensor y;
    cs_four_bit matrix;
    int64_t row, column;
    const float *values, *scales; /* the values of the 16 codes, and of the 256 codes of absmax (base/four_bit.h) */
} ce_dequantize;

/* Returns the number of columns from one head to the next. */
static inline int64_t ce_rope_head(const cs_rope *rope)
{
    return rope->head > 0 ? rope->head : rope->width;
}

/* Attention of the new positions of one sequence to a key-value cache; ops.h describes the tensors. */
typedef struct {
    cs_tensor y, lse, qkv, keys, values;
    cs_heads heads;
    int64_t start;
} ce_extension;

typedef struct {
    const char *kind;
    cs_status (*open)(cs_device *device, const ce_device_settings *settings);
    void (*close)(cs_device *device);
    void *(*alloc)(cs_device *device, size_t bytes); /* returns NULL if no memory is left */
    void (*free)(cs_device *device, void *memory, size_t bytes);
    /* alloc_pinned allocates pinned host memory; it returns NULL if no memory is left. The pointer alloc_pinned is NULL
     * if the device uses host memory. */
    void *(*alloc_pinned)(cs_device *device, size_t bytes);
    void (*free_pinned)(cs_device *device, void *memory, size_t bytes);
    void (*copy)(cs_stream *stream, void *to, const void *from, size_t bytes);
    /* returns the number of free bytes; `free_bytes` is NULL if this number is not known */
    size_t (*free_bytes)(cs_device *device);
    double (*roof)(cs_device *device, cs_dtype dtype);
    /* Limits the libraries to the instructions of the set `isa`, which is lower than device->isa, and sets device->isa
     * to `isa`. `lower` is NULL if the device is not a CPU. */
    cs_status (*lower)(cs_device *device, ce_isa isa);
    /* product_list is NULL except in the dry device */
    const ce_product_list *(*product_list)(const cs_device *device);
    /* methods, try_products, use_products, products and products_on are NULL if the device has no choice of methods */
    unsigned (*methods)(cs_device *device, cs_dtype dtype, bool asked);
    void (*try_products)(cs_device *device, ce_product_trial *trial);
    void (*use_products)(cs_device *device, const ce_product_choice *choice);
    const ce_product_choice *(*products)(const cs_device *device);
    const char *(*products_on)(cs_device *device);

    void (*enter)(cs_device *device, const char *name); /* begins a named range of the caller's time, for profilers */
    void (*leave)(cs_device *device);

    void (*call)(cs_stream *stream, void (*call)(void *argument), void *argument);
    uint64_t (*record)(cs_stream *stream);
    void (*wait)(cs_stream *stream, ce_event event); /* if stream is NULL, the caller waits */
    /* if sync is NULL, ce_stream_sync records an event and waits for it by wait() */
    void (*sync)(cs_stream *stream);
    /* graph_begin and graph_end are NULL if the device has no graphs */
    void (*graph_begin)(cs_device *device, uint64_t key);
    void (*graph_end)(cs_device *device);

/* The operations. The pointer of a FUSED operation is NULL if the device does not implement it. */
#define OPERATION(name, parameters) void(*name) parameters;
#include "device/ops_list.h"
} ce_device_table;

/* The CPU kernels are compiled once for each set of instructions that has kernels of its own (isa.h). CMakeLists.txt
 * gives ce_device_cpu another name in each of these builds, such as ce_device_cpu_avx2 (isa.c). */
extern const ce_device_table ce_device_cpu, ce_device_dry;
const ce_device_table *ce_isa_kernels(ce_isa isa); /* isa.c: returns the table of the CPU for this set */

struct cs_stream {
    cs_device *device;
    ce_stream_role role;
    void *private_data; /* the state of the device's implementation */
};

typedef struct {
    void *memory;
    size_t bytes;
    bool pinned;
} ce_device_block;

struct cs_device {
    const ce_device_table *table;
    cs_stream streams[CE_STREAM_ROLES]; /* the index is a ce_stream_role */
    void *private_data;                 /* the state of the device's implementation */
    int threads;
    ce_isa isa;
    char description[160];
    /* flops: all floating-point operations so far; gradient_flops: those that computed gradients */
    double flops, gradient_flops;
    double roofs[CS_F16 + 1];

    pthread_mutex_t lock; /* the lock protects the members below, because threads of comm allocate too */
    ce_device_block *blocks;
    size_t block_count, block_capacity;
    size_t allocated, workspace, pinned;
};

#endif
