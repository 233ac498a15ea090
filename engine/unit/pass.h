/* pass.h - a pass: one micro-batch in forward and backward, its tensors, and the stack of tensors that forward saves
 * for backward.
 *
 * All tensors of a pass are in one block of memory, allocated first-fit. A tensor lives until its unit's forward or
 * backward returns. A saved tensor lives longer: a unit's backward takes it from the stack, and it lives until this
 * backward returns. The order of requests depends only on the model. So a pass on the dry device finds the size that
 * the block needs before the run (ce_pass_peak), and the block is never too small. */
#ifndef CE_UNIT_PASS_H
#define CE_UNIT_PASS_H

#include "base/status.h"
#include "cspeed/ops.h"
#include "device/device.h"
#include "unit/exchange.h"

/* The key-value cache of text generation: tensors that hold the keys and values of all positions so far. The tensors
 * are kept after a pass ends. A tensor is identified by the order in which the units ask for their tensors. */
typedef struct ce_cache ce_cache;

/* Opens an empty cache. Each of its tensors has `positions` rows and is allocated when it is first requested. */
cs_status ce_cache_open(ce_cache **cache, cs_device *device, int64_t positions);
void ce_cache_close(ce_cache *cache);  /* accepts NULL */
void ce_cache_rewind(ce_cache *cache); /* Makes ce_cache_next return the first tensor again. */
/* Returns the next tensor, which is (positions, columns). */
cs_tensor ce_cache_next(ce_cache *cache, cs_dtype dtype, int64_t columns);

/* A text that a pass continues. The cache holds the first `start` positions of the text. */
typedef struct {
    ce_cache *cache;
    int64_t start;
} ce_sequence;

/* The number of rows of a chunk is a multiple of this number, because matrix products with such numbers of rows run at
 * full speed. */
enum { CE_PASS_CHUNK_ROWS = 64 };

/* What training adds to the loss and to the embeddings; an evaluation does not. */
typedef struct {
    cs_entropy_terms entropy; /* `classes` is set by the layer */
    double noise; /* alpha of NEFTune (Jain et al. 2023): how strong the noise on the embeddings is; 0: no noise */
} ce_regular;

typedef struct {
    cs_device *device;
    cs_dtype dtype;    /* type of the tensors that one unit passes to another */
    cs_dtype products; /* type of the inputs and outputs of matrix products */
    void *block;       /* device memory of block_bytes bytes; NULL: the pass only measures how much it needs */
    size_t block_bytes;
    size_t chunk_bytes; /* maximum bytes of a chunk of more than CE_PASS_CHUNK_ROWS rows, see cs_pass_chunk */
    ce_exchange exchange;
    bool cuts_rows; /* sequence parallelism: the rows of tensors between layers are divided over the ranks */
    ce_regular regular;
} ce_pass_shape;

cs_status ce_pass_open(cs_pass **pass, const ce_pass_shape *shape);
void ce_pass_close(cs_pass *pass);
size_t ce_pass_block_bytes(const cs_pass *pass); /* Returns the size of the pass's block of memory in bytes. */
/* Returns the greatest number of bytes of the block that were in use at the same time so far. */
size_t ce_pass_peak(const cs_pass *pass);

typedef enum { CE_PASS_TRAINING, CE_PASS_EVALUATION } ce_pass_mode;
/* One micro-batch of `batch` samples of `length` positions. */
typedef struct {
    ce_pass_mode mode;
    int64_t batch, length;
    cs_tensor targets;
    const uint64_t *keys;
    /* positions at which the documents of the batch start (cs_heads.starts); absent if each sample is one document */
    cs_tensor starts;
    bool no_dropout; /* True if dropout is off in training too. */
    bool whole_rows; /* True if rows are not divided in this pass, whatever ce_pass_shape.cuts_rows says. */
    /* (rows, 1) f32: the tensor that cs_pass_hits returns; absent if the accuracy is not computed */
    cs_tensor hits;
    const ce_sequence *sequences; /* the text that each sample continues; NULL if samples begin at position 0 */
} ce_pass_batch_info;
void ce_pass_begin(cs_pass *pass, const ce_pass_batch_info *info);
void ce_pass_weigh(cs_pass *pass, cs_tensor dloss); /* Sets the tensor that cs_pass_dloss returns in this pass. */
/* These functions are for preference training, in which the weights of the rows depend on the losses of the rows. The
 * last unit's forward first computes the losses of all rows, and then calls ce_pass_weigh_now once. That function calls
 * `weigher`, which changes the values of the tensor that cs_pass_dloss returns. */
typedef void ce_pass_weigher(void *argument, cs_tensor losses);
void ce_pass_weigh_later(cs_pass *pass, ce_pass_weigher *weigher, void *argument);
/* Returns true after ce_pass_weigh_later until ce_pass_weigh_now is called. */
bool ce_pass_weighs_later(const cs_pass *pass);
void ce_pass_weigh_now(cs_pass *pass, cs_tensor losses);
bool ce_pass_drops(const cs_pass *pass); /* Returns whether dropout is on. */
/* Returns ce_pass_shape.regular in training and zeros in an evaluation. `part` says what the layer reads.
 * ce_pass_regular_parts returns the parts that layers have read so far. */
enum { CE_REGULAR_ENTROPY = 1, CE_REGULAR_NOISE = 2 };
const ce_regular *ce_pass_regular(cs_pass *pass, unsigned part);
unsigned ce_pass_regular_parts(const cs_pass *pass);
void ce_pass_end(cs_pass *pass); /* Asserts that no tensor of the pass is left. */

/* Turns the check of what units write (pass_check.c) on or off; to be called while the pass has no tensors. */
void ce_pass_check(cs_pass *pass, bool on);

/* Tensors that are allocated between ce_pass_enter and ce_pass_leave belong to one unit's forward or backward.
 * ce_pass_leave releases them. Messages about mistakes name the unit (base/misuse.h). */
typedef enum { CE_PASS_FORWARD, CE_PASS_BACKWARD, CE_PASS_AGAIN } ce_pass_way;
void ce_pass_enter(cs_pass *pass, cs_unit *unit, ce_pass_way way); /* `unit` may be NULL */
/* Says for messages that the unit's forward runs again inside its backward (CE_PASS_AGAIN), or that backward follows. */
void ce_pass_turn(const cs_pass *pass, ce_pass_way way);
void ce_pass_leave(cs_pass *pass);
/* ce_pass_hold takes a reference to a tensor, so that the tensor outlives its unit; ce_pass_let_go releases the
 * reference. Both functions are used for the outputs and gradients that units pass to each other. */
void ce_pass_hold(cs_pass *pass, cs_tensor tensor);
void ce_pass_let_go(cs_pass *pass, cs_tensor tensor);

/* Tensor parallelism. A layer whose matrix is cut computes a part of each element's sum; ce_pass_sum replaces these parts
 * by the sum over the ranks. ce_pass_gather sets the rows of `all` to the rows of x of all ranks, one rank after another.
 * Without tensor parallelism both do nothing, and ce_pass_ranks returns 1. */
void ce_pass_sum(cs_pass *pass, cs_tensor x);
/* Says that x, which the layer has just made, will have only this rank's terms of a product with `with`. The process ends
 * with the name of the matrix if they are not added up (ce_pass_sum, ce_pass_sum_rows) before the unit's forward or
 * backward returns, and if a tensor is added up of which this was not said, or for which it was done already. Since the dry
 * run executes the same code, this is found before a training begins. Does nothing without tensor parallelism. */
void ce_pass_partial(cs_pass *pass, cs_tensor x, const cs_param *with);
void ce_pass_gather(cs_pass *pass, cs_tensor all, cs_tensor x);
int ce_pass_ranks(const cs_pass *pass); /* number of ranks of the tensor-parallel group */
int ce_pass_rank(const cs_pass *pass);  /* this rank's number in the group */

/* Sequence parallelism (Korthikanti et al. 2022): between the layers whose matrices are cut, each rank has only its own
 * rows of a micro-batch, as many as every other rank. Without it every rank has all rows. */
bool ce_pass_cuts_rows(const cs_pass *pass);
int64_t ce_pass_rows(const cs_pass *pass); /* number of rows of this rank between layers */
/* Returns all rows of x, which has this rank's rows. */
cs_tensor ce_pass_gather_rows(cs_pass *pass, cs_tensor x);
/* Adds up y, which has all rows, over the ranks. Returns this rank's rows of the sum: y itself if every rank has all
 * rows. ce_pass_sum_rows_into writes them to `own`, which may be y. */
cs_tensor ce_pass_sum_rows(cs_pass *pass, cs_tensor y);
void ce_pass_sum_rows_into(cs_pass *pass, cs_tensor own, cs_tensor y);
/* The same exchanges, but they may run beside the operations that follow, until ce_pass_finish is called. Until then,
 * operations must not write x, and must not access y and the result. Only one of them runs at a time. */
cs_tensor ce_pass_begin_gather_rows(cs_pass *pass, cs_tensor x);
cs_tensor ce_pass_begin_sum_rows(cs_pass *pass, cs_tensor y);
void ce_pass_finish(cs_pass *pass);
cs_tensor ce_pass_own_rows(const cs_pass *pass, cs_tensor x); /* Returns this rank's rows of x, which has all rows. */

/* Returns the number of tensors on the stack of saved tensors. */
int ce_pass_mark(const cs_pass *pass);
/* Removes the tensors that were saved after ce_pass_mark returned `mark`. Recomputation uses this function. */
void ce_pass_rewind(cs_pass *pass, int mark);

#endif
