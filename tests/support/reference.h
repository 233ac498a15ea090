/* reference.h - each operation as plain loops in double: the judge of every device.
 *
 * Arrays are row-major doubles; legend as in device/ops.h. Gradients of weights are added to, as there. */
#ifndef CS_TESTS_REFERENCE_H
#define CS_TESTS_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

/* c (m, n) (+)= op(a) op(b) + bias or NULL; a is (m, k) or, transposed, (k, m); b (k, n) or (n, k). */
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

/* 1 / (1 - rate) where element `element` of a sample with this key is kept at `place`, else 0. */
double reference_keep(uint64_t key, uint64_t place, uint64_t element, float rate);

typedef struct {
    int B, T, H, D;
    float rate;
    uint64_t place;
    const uint64_t *keys;
    const int32_t *starts; /* (B, T): the first row that each row sees; NULL: 0 */
} reference_heads;
void reference_attention(double *y, double *lse, const double *qkv, reference_heads shape);
void reference_attention_grad(double *dqkv, const double *dy, const double *qkv, reference_heads shape);

double reference_cross_entropy(double *lse, const double *logits, int width, int target);
void reference_cross_entropy_grad(double *dlogits, double dloss, const double *logits, int width, int target);

#endif
