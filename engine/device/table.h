/* table.h - one device's row of functions, and what an open device is made of; for the files of this room only.
 *
 * device.c and ops.c check and count, then call the row. A function that is NULL does nothing: the dry
 * device has a row of little else. Functions of models' operations work in the compute stream, those of state.h in
 * the stream they are given. Shapes and types are right when a row is called. */
#ifndef CS_DEVICE_TABLE_H
#define CS_DEVICE_TABLE_H

#include <pthread.h>

#include "device/device.h"
#include "cspeed/ops.h"
#include "device/state.h"

/* c (+)= op(a) op(b) + bias, where op transposes or not. c is 16-bit like a and b, or fp32. */
typedef struct {
    cs_tensor c, a, b, bias;
    bool transpose_a, transpose_b;
    bool add; /* to what c holds; c is fp32 then */
} cs_product;

/* Heads of an attention; the tensors are ops.h's. */
typedef struct {
    cs_tensor y, lse, qkv, dy, dqkv; /* dy and dqkv absent in forward */
    cs_heads heads;
    cs_dropout dropout;
} cs_attention_args;

/* Rotary positions: x is turned, or turned back. */
typedef struct {
    cs_tensor x;
    const cs_rope *rope;
    cs_rope_rows rows;
    float sign; /* 1, or -1: back */
} cs_turn;

/* New positions of one sequence against a cache; the tensors are ops.h's. */
typedef struct {
    cs_tensor y, qkv, keys, values;
    cs_heads heads;
    int64_t start;
} cs_extension;

typedef struct {
    const char *kind;
    cs_status (*open)(cs_device *device, const cs_device_settings *settings);
    void (*close)(cs_device *device);
    void *(*alloc)(cs_device *device, size_t bytes); /* NULL when there is none left */
    void (*free)(cs_device *device, void *memory, size_t bytes);
    void *(*alloc_pinned)(cs_device *device, size_t bytes); /* NULL row: not a far device; NULL: none left */
    void (*free_pinned)(cs_device *device, void *memory, size_t bytes);
    void (*copy)(cs_stream *stream, void *to, const void *from, size_t bytes);
    size_t (*room)(cs_device *device); /* bytes that are free; NULL: not known */
    double (*roof)(cs_device *device, cs_dtype dtype);
    bool (*native)(const cs_device *device); /* NULL, all four: there is no choice */
    bool (*has_native)(cs_device *device);
    double (*native_gain)(cs_device *device);
    bool (*set_native)(cs_device *device, bool native);

    void (*enter)(cs_device *device, const char *name); /* a named range of the caller's time, for profilers */
    void (*leave)(cs_device *device);

    void (*call)(cs_stream *stream, void (*call)(void *argument), void *argument);
    uint64_t (*record)(cs_stream *stream);
    void (*wait)(cs_stream *stream, cs_event event); /* the stream goes on after the event; NULL: the caller does */
    void (*sync)(cs_stream *stream);                 /* NULL: wait() for a new event is as much */
    void (*graph_begin)(cs_device *device, uint64_t key); /* NULL, both: it has no graphs */
    void (*graph_end)(cs_device *device);

    void (*product)(cs_device *device, const cs_product *product);
    /* y = gelu(product->c), which is set too; product->c times gelu'(pre). NULL rows: composed in ops.c. */
    void (*product_gelu)(cs_device *device, cs_tensor y, const cs_product *product);
    void (*product_gelu_grad)(cs_device *device, const cs_product *product, cs_tensor pre);
    void (*column_sums)(cs_device *device, cs_tensor sums, cs_tensor x); /* sums f32 += */
    void (*norm)(cs_device *device, cs_tensor y, cs_tensor stats, cs_tensor x, cs_tensor weight, cs_tensor bias,
                 float epsilon);
    void (*norm_grad)(cs_device *device, cs_tensor dx, cs_tensor dweight, cs_tensor dbias, cs_tensor dy, cs_tensor x,
                      cs_tensor stats, cs_tensor weight);
    void (*rms)(cs_device *device, cs_tensor y, cs_tensor stats, cs_tensor x, cs_tensor weight, int64_t first,
                float epsilon);
    void (*rms_grad)(cs_device *device, cs_tensor dx, cs_tensor dweight, cs_tensor dy, cs_tensor x, cs_tensor stats,
                     cs_tensor weight, int64_t first);
    /* NULL rows: composed in ops.c. */
    void (*add_norm)(cs_device *device, cs_tensor y, cs_tensor stats, const cs_addition *x, cs_tensor weight,
                     cs_tensor bias, float epsilon);
    void (*add_rms)(cs_device *device, cs_tensor y, cs_tensor stats, const cs_addition *x, cs_tensor weight,
                    float epsilon);
    void (*norm_grad_add)(cs_device *device, cs_tensor dx, cs_tensor dweight, cs_tensor dbias, cs_tensor dy,
                          cs_tensor x, cs_tensor stats, cs_tensor weight, cs_tensor beside);
    void (*rms_grad_add)(cs_device *device, cs_tensor dx, cs_tensor dweight, cs_tensor dy, cs_tensor x, cs_tensor stats,
                         cs_tensor weight, cs_tensor beside);
    void (*rope)(cs_device *device, const cs_turn *turn);
    void (*gelu)(cs_device *device, cs_tensor y, cs_tensor x);
    void (*gelu_grad)(cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x);
    void (*swiglu)(cs_device *device, cs_tensor y, cs_tensor x);
    void (*swiglu_grad)(cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x);
    void (*add)(cs_stream *stream, cs_tensor y, cs_tensor a, cs_tensor b);
    void (*add_dropout)(cs_device *device, cs_tensor y, cs_tensor a, cs_tensor b, cs_dropout dropout); /* a absent: 0 */
    void (*attention)(cs_device *device, const cs_attention_args *attention);
    void (*attention_grad)(cs_device *device, const cs_attention_args *attention);
    void (*extend)(cs_device *device, const cs_extension *extension);
    void (*embed)(cs_device *device, cs_tensor y, cs_tensor tokens, cs_tensor table, cs_tensor positions,
                  cs_tensor starts);
    void (*embed_grad)(cs_device *device, cs_tensor dtable, cs_tensor dpositions, cs_tensor dy, cs_tensor tokens,
                       cs_tensor starts);
    void (*cross_entropy)(cs_device *device, cs_tensor loss, cs_tensor logits, cs_tensor targets, int64_t classes,
                          cs_tensor dloss);
    void (*hits)(cs_device *device, cs_tensor hits, cs_tensor logits, cs_tensor targets, int64_t classes);
    void (*squared_error)(cs_device *device, cs_tensor loss, cs_tensor y, cs_tensor target);
    void (*squared_error_grad)(cs_device *device, cs_tensor dy, cs_tensor dloss, cs_tensor y, cs_tensor target);
    void (*cast)(cs_device *device, cs_tensor y, cs_tensor x);
    void (*fill)(cs_device *device, cs_tensor y, float value);

    void (*sum_squares)(cs_stream *stream, cs_exact *sum, cs_tensor g, int64_t lead, double unscale);
    void (*sum)(cs_stream *stream, cs_exact *sum, const float *values, int64_t count);
    void (*judge)(cs_stream *stream, cs_verdict *verdict, const cs_step_sums *words, const cs_step_terms *terms);
    void (*seed)(cs_stream *stream, cs_tensor dy, const double *scale, double divisor);
    void (*convert)(cs_stream *stream, cs_tensor to, cs_tensor from, float factor);
    void (*update)(cs_stream *stream, const cs_optimizer *optimizer, cs_hyper hyper, const cs_state_rows *rows);
    void (*init)(cs_stream *stream, float *out, cs_init init, uint64_t key, int64_t from, int64_t count);
} cs_device_table;

extern const cs_device_table cs_device_cpu, cs_device_dry;

struct cs_stream {
    cs_device *device;
    cs_stream_role role;
    void *own; /* the device's */
};

typedef struct {
    void *memory;
    size_t bytes;
    bool pinned;
} cs_device_block;

struct cs_device {
    const cs_device_table *table;
    cs_stream streams[CS_STREAM_ROLES]; /* by role */
    void *own;                          /* the device's */
    int threads;
    char description[160];
    double flops;
    double roofs[CS_F16 + 1];

    pthread_mutex_t lock; /* over what follows: ranks' comm threads allocate too */
    cs_device_block *blocks;
    size_t block_count, block_room;
    size_t allocated, workspace, pinned;
};

#endif
