/* cuda.h - internal header of the CUDA device: streams, workspace, and the host functions that launch kernels.
 * Included by this folder and by comm/nccl.c.
 *
 * Operations are asynchronous: each is put into a stream and returns at once. A training step allocates nothing and
 * does not wait, except where the host needs a number (cs_stream_sync). cs_stream_call on the comm stream calls the
 * function at once in the caller's thread; the function itself puts its work into the comm stream. CUDA errors are
 * fatal and are reported with file and line. */
#ifndef CS_DEVICE_CUDA_H
#define CS_DEVICE_CUDA_H

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "base/must.h"
#include "device/table.h"

/* Calls the CUDA runtime; an error is fatal. */
#define CS_CUDA(call) cs_cuda_check((call), #call, __FILE__, __LINE__)
void cs_cuda_check(cudaError_t error, const char *call, const char *file, int line);

/* Workspaces: device memory that kernels need besides their tensors. Uses that may be alive at the same time have
 * separate workspaces. The sizes settle in the first step. */
typedef enum {
    CS_CUDA_PRODUCT,   /* cuBLASLt's workspace */
    CS_CUDA_REDUCTION, /* partial sums of weight gradients */
    CS_CUDA_SORT,      /* sorted tokens of an embedding's backward */
    CS_CUDA_ATTENTION, /* row sums (delta) of attention backward; partial results of extend.cu; cuDNN's workspace */
    CS_CUDA_WORKSPACES
} cs_cuda_use;
/* At least `bytes` of device memory. It is valid until the next request for the same use, in stream order. */
void *cs_cuda_workspace(cs_device *device, cs_cuda_use use, size_t bytes);

typedef struct {
    int major, minor; /* compute capability */
    int processors;   /* streaming multiprocessors */
    int shared;       /* bytes of shared memory that a block may request */
} cs_cuda_facts;

cudaStream_t cs_cuda_stream(const cs_stream *stream);
cudaStream_t cs_cuda_compute(cs_device *device); /* the compute stream, which runs the operations of models */
const cs_cuda_facts *cs_cuda_facts_of(const cs_device *device);

/* Must be called before anything is put into a stream; cs_launch and cs_stream_copy call it themselves. If it returns
 * true, the caller must skip the operation, because a CUDA graph that contains it is being replayed. `what` is a hash
 * that identifies the operation. */
bool cs_cuda_replays(uint64_t what);
/* Destroys all captured CUDA graphs. To be called before memory or a communicator that they use is freed. */
void cs_cuda_graphs_drop(cs_device *device);
/* Sets bytes to zero in the compute stream. */
void cs_cuda_clear(cs_device *device, void *memory, size_t bytes);
/* Whether the stream has unfinished work. May be called from any thread. */
bool cs_cuda_is_busy(const cs_stream *stream);

/* ---- operations: the functions of the device table (device/table.h, which documents them) ---- */
void cs_cuda_product(cs_device *device, const cs_product *product);
double cs_cuda_roof(cs_device *device, cs_dtype dtype);
void cs_cuda_column_sums(cs_device *device, cs_tensor sums, cs_tensor x);
void cs_cuda_norm(cs_device *device, cs_tensor y, cs_tensor stats, cs_tensor x, cs_tensor weight, cs_tensor bias,
                  float epsilon);
void cs_cuda_norm_grad(cs_device *device, cs_tensor dx, cs_tensor dweight, cs_tensor dbias, cs_tensor dy, cs_tensor x,
                       cs_tensor stats, cs_tensor weight);
void cs_cuda_rms(cs_device *device, cs_tensor y, cs_tensor stats, cs_tensor x, cs_tensor weight, int64_t first,
                 float epsilon);
void cs_cuda_rms_grad(cs_device *device, cs_tensor dx, cs_tensor dweight, cs_tensor dy, cs_tensor x, cs_tensor stats,
                      cs_tensor weight, int64_t first);
void cs_cuda_add_norm(cs_device *device, cs_tensor y, cs_tensor stats, const cs_addition *x, cs_tensor weight,
                      cs_tensor bias, float epsilon);
void cs_cuda_add_rms(cs_device *device, cs_tensor y, cs_tensor stats, const cs_addition *x, cs_tensor weight,
                     float epsilon);
void cs_cuda_norm_grad_add(cs_device *device, cs_tensor dx, cs_tensor dweight, cs_tensor dbias, cs_tensor dy,
                           cs_tensor x, cs_tensor stats, cs_tensor weight, cs_tensor beside);
void cs_cuda_rms_grad_add(cs_device *device, cs_tensor dx, cs_tensor dweight, cs_tensor dy, cs_tensor x,
                          cs_tensor stats, cs_tensor weight, cs_tensor beside);
void cs_cuda_rope(cs_device *device, const cs_turn *turn);
void cs_cuda_gelu(cs_device *device, cs_tensor y, cs_tensor x);
void cs_cuda_gelu_grad(cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x);
void cs_cuda_swiglu(cs_device *device, cs_tensor y, cs_tensor x);
void cs_cuda_swiglu_grad(cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x);
void cs_cuda_add(cs_stream *stream, cs_tensor y, cs_tensor a, cs_tensor b);
void cs_cuda_add_dropout(cs_device *device, cs_tensor y, cs_tensor a, cs_tensor b, cs_dropout dropout);
void cs_cuda_attention(cs_device *device, const cs_attention_args *attention);
void cs_cuda_attention_grad(cs_device *device, const cs_attention_args *attention);
/* Attention by cuDNN: backward if dqkv is present, else forward. Returns false, and does nothing, if cuDNN cannot
 * run it. Both symbols are weak: they are NULL if the module was built without cuDNN's header. */
bool cs_cudnn_attention(cs_device *device, const cs_attention_args *attention) __attribute__((weak));
void cs_cudnn_close(cs_device *device) __attribute__((weak));
void cs_cuda_extend(cs_device *device, const cs_extension *extension);
void cs_cuda_embed(cs_device *device, cs_tensor y, cs_tensor tokens, cs_tensor table, cs_tensor positions,
                   cs_tensor starts);
void cs_cuda_embed_grad(cs_device *device, cs_tensor dtable, cs_tensor dpositions, cs_tensor dy, cs_tensor tokens,
                        cs_tensor starts);
void cs_cuda_cross_entropy(cs_device *device, cs_tensor loss, cs_tensor logits, cs_tensor targets, int64_t classes,
                           cs_tensor dloss);
void cs_cuda_hits(cs_device *device, cs_tensor hits, cs_tensor logits, cs_tensor targets, int64_t classes);
void cs_cuda_squared_error(cs_device *device, cs_tensor loss, cs_tensor y, cs_tensor target);
void cs_cuda_squared_error_grad(cs_device *device, cs_tensor dy, cs_tensor dloss, cs_tensor y, cs_tensor target);
void cs_cuda_cast(cs_device *device, cs_tensor y, cs_tensor x);
void cs_cuda_fill(cs_device *device, cs_tensor y, float value);
void cs_cuda_sum_squares(cs_stream *stream, cs_exact *sum, cs_tensor g, int64_t lead, double unscale);
void cs_cuda_sum(cs_stream *stream, cs_exact *sum, const float *values, int64_t count);
void cs_cuda_judge(cs_stream *stream, cs_verdict *verdict, const cs_step_sums *words, const cs_step_terms *terms);
void cs_cuda_seed(cs_stream *stream, cs_tensor dy, const double *scale, double divisor);
void cs_cuda_convert(cs_stream *stream, cs_tensor to, cs_tensor from, float factor);
void cs_cuda_update(cs_stream *stream, const cs_optimizer *optimizer, cs_hyper hyper, const cs_state_rows *rows);
void cs_cuda_init(cs_stream *stream, float *out, cs_init init, uint64_t key, int64_t from, int64_t count);

#ifdef __cplusplus
}
#endif
#endif
