/* pass.h - a pass: one micro-batch in forward and backward, its tensors, and the stack of tensors that forward keeps
 * for backward.
 *
 * All tensors of a pass are in one block of memory, allocated first-fit. A tensor lives until its unit ends; a kept
 * tensor lives until the end of the unit whose backward takes it. The order of requests depends only on the model, so a
 * pass on the dry device finds the needed size of the block before the run (ce_pass_peak), and the block is never too
 * small. */
#ifndef CS_UNIT_PASS_H
#define CS_UNIT_PASS_H

#include "base/status.h"
#include "device/device.h"

/* The key-value cache of text generation: tensors of keys and values of the positions so far, which outlive a pass.
 * Tensors are identified by the order in which the units ask for them. */
typedef struct ce_cache ce_cache;

/* Each tensor has `positions` rows and is allocated when it is first requested. */
cs_status ce_cache_open(ce_cache **cache, cs_device *device, int64_t positions);
void ce_cache_close(ce_cache *cache);  /* accepts NULL */
void ce_cache_rewind(ce_cache *cache); /* the next request returns the first tensor again */
cs_tensor ce_cache_next(ce_cache *cache, cs_dtype dtype, int64_t columns); /* (positions, columns) */

/* A text that a pass continues: its cache holds `start` positions. */
typedef struct {
    ce_cache *cache;
    int64_t start;
} ce_sequence;

/* The number of rows of a chunk is a multiple of this number, because matrix products of so many rows run at full
 * speed. */
enum { CS_PASS_CHUNK_ROWS = 64 };

typedef struct {
    cs_device *device;
    cs_dtype dtype;    /* type of the tensors between units */
    cs_dtype products; /* type of the inputs and outputs of matrix products */
    void *block;       /* block_bytes bytes of device memory; NULL: only measure */
    size_t block_bytes;
    size_t chunk_bytes; /* maximum bytes of a chunk of more than CS_PASS_CHUNK_ROWS rows, see cs_pass_chunk */
} ce_pass_shape;

cs_status ce_pass_open(cs_pass **pass, const ce_pass_shape *shape);
void ce_pass_close(cs_pass *pass);
size_t ce_pass_room(const cs_pass *pass); /* the bytes of its block */
size_t ce_pass_peak(const cs_pass *pass); /* the greatest number of bytes of the block in use at one time so far */

typedef enum { CS_PASS_TRAINING, CS_PASS_EVALUATION } ce_pass_mode;
/* One micro-batch of `batch` samples of `length` positions. */
typedef struct {
    ce_pass_mode mode;
    int64_t batch, length;
    cs_tensor targets;
    const uint64_t *keys;
    cs_tensor starts;             /* where the documents of the batch start (cs_heads.starts), or absent */
    bool no_dropout;              /* dropout is off in training too */
    cs_tensor hits;               /* (rows, 1) f32, the result of cs_pass_hits; absent: no hits are wanted */
    const ce_sequence *sequences; /* the text that each sample continues; NULL: samples begin at position 0 */
} ce_pass_batch_info;
void ce_pass_begin(cs_pass *pass, const ce_pass_batch_info *info);
void ce_pass_weigh(cs_pass *pass, cs_tensor dloss); /* sets the value of cs_pass_dloss until the pass ends */
/* For preference training, where the weights of the rows depend on their losses: the last unit's forward first computes
 * the losses of all rows, and then calls ce_pass_weigh_now once; that calls `weigher`. `weigher` changes the values of
 * cs_pass_dloss. */
typedef void ce_pass_weigher(void *argument, cs_tensor losses);
void ce_pass_weigh_later(cs_pass *pass, ce_pass_weigher *weigher, void *argument);
bool ce_pass_weighs_later(const cs_pass *pass); /* true from ce_pass_weigh_later until ce_pass_weigh_now */
void ce_pass_weigh_now(cs_pass *pass, cs_tensor losses);
bool ce_pass_drops(const cs_pass *pass); /* whether dropout is on */
void ce_pass_end(cs_pass *pass);         /* asserts that nothing is left */

/* Between ce_pass_enter and ce_pass_leave new tensors belong to one unit's forward or backward; ce_pass_leave
 * releases them. */
void ce_pass_enter(cs_pass *pass);
void ce_pass_leave(cs_pass *pass);
/* ce_pass_hold takes a reference that outlives the unit, and ce_pass_let_go releases it; used for the outputs and
 * gradients between units. */
void ce_pass_hold(cs_pass *pass, cs_tensor tensor);
void ce_pass_let_go(cs_pass *pass, cs_tensor tensor);

/* Returns the number of tensors on the stack of kept tensors. */
int ce_pass_mark(const cs_pass *pass);
/* Drops the tensors that were kept since ce_pass_mark returned `mark`; used for recomputation. */
void ce_pass_rewind(cs_pass *pass, int mark);

#endif
