/* reference.h - reference implementations of each operation as plain loops in double precision, for tests of every
 * device.
 *
 * Arrays are row-major doubles; the letters for dimensions are those of cspeed/ops.h. Gradients of weights are added to
 * the existing values, as in cspeed/ops.h. */
#ifndef CS_TESTS_REFERENCE_H
#define CS_TESTS_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

/* Computes c = op(a) op(b) + bias, of shape (m, n); `add`: adds to c instead. bias may be NULL. a has shape (m, k), or
 * (k, m) if transposed; b has shape (k, n), or (n, k) if transposed. */
typedef struct {
    int m, n, k;
    bool transpose_a, transpose_b, add;
} reference_shape;
void reference_product(double *c, const double *a, const double *b, const double *bias, reference_shape shape);
void reference_column_sums(double *sums, const double *x, int rows, int columns);

void reference_norm(double *y, double *stats, const double *x, const double *weight, const double *bias, int rows,
                    int columns, double epsilon);
typedef struct {
    double *dx, *dweight, *dbias;
} reference_norm_out;
void reference_norm_grad(reference_norm_out out, const double *dy, const double *x, const double *stats,
                         const double *weight, int rows, int columns);

double reference_gelu(double x);
double reference_gelu_slope(double x);

/* Returns normal number `index` of a key: mean 0, standard deviation 1, by the Box-Muller transform. */
float reference_normal(uint64_t key, uint64_t index);

/* Returns the dropout factor of element `element` of a sample with this key, in the dropout at `place`: 1 / (1 - rate)
 * if it is kept, else 0. */
double reference_keep(uint64_t key, uint64_t place, uint64_t element, float rate);

typedef struct {
    int B, T, H, D;
    float rate;
    uint64_t place;
    const uint64_t *keys;
    const int32_t *starts; /* (B, T): the first row of the keys that each query row attends to; NULL: 0 for all rows */
    double cap;            /* the scores become cap * tanh(scores / cap); 0: there is no cap */
} reference_heads;
void reference_attention(double *y, double *lse, const double *qkv, reference_heads shape);
void reference_attention_grad(double *dqkv, const double *dy, const double *qkv, reference_heads shape);

double reference_cross_entropy(double *lse, const double *logits, int width, int target);
void reference_cross_entropy_grad(double *dlogits, double dloss, const double *logits, int width, int target);

#endif
