/* pass.h - one micro-batch going down and up the list: its tensors and what forward kept for backward.
 *
 * All tensors of a pass lie in one block, handed out first-fit and counted: a tensor lives until its unit ends, kept
 * ones until the unit's backward ends that took them. The order of requests depends on the model alone, so the same
 * list walked on the dry device tells the block's size beforehand (cs_pass_peak), and the walk never runs out. */
#ifndef CS_UNIT_PASS_H
#define CS_UNIT_PASS_H

#include "base/status.h"
#include "device/device.h"
#include "unit/cache.h"

typedef struct {
    cs_device *device;
    cs_dtype dtype;    /* of what flows between units                      */
    cs_dtype products; /* of what matrix products take and give            */
    void *block;       /* block_bytes of device memory; NULL: measure only */
    size_t block_bytes;
} cs_pass_shape;

cs_status cs_pass_open(cs_pass **pass, const cs_pass_shape *shape);
void cs_pass_close(cs_pass *pass);
size_t cs_pass_peak(const cs_pass *pass); /* bytes of block that were needed at once so far */

typedef enum { CS_PASS_TRAINING, CS_PASS_EVALUATION } cs_pass_mode;
/* One micro-batch of `batch` samples of `length` positions. */
typedef struct {
    cs_pass_mode mode;
    int64_t batch, length;
    cs_tensor targets;
    const uint64_t *keys;
    int64_t start;    /* position of each sample's first row */
    cs_tensor starts; /* of the batch, or absent */
    cs_tensor hits;   /* (rows, 1) f32 for cs_pass_hits; absent: not wanted */
    cs_cache *cache;  /* of the `start` positions before; NULL: none */
} cs_pass_batch_info;
void cs_pass_begin(cs_pass *pass, const cs_pass_batch_info *info);
void cs_pass_weigh(cs_pass *pass, cs_tensor dloss); /* what cs_pass_dloss returns from here on to the pass's end */
void cs_pass_end(cs_pass *pass);                    /* asserts that nothing is left */

/* Between cs_pass_enter and cs_pass_leave tensors belong to one unit's forward or backward; leave lets go of them. */
void cs_pass_enter(cs_pass *pass);
void cs_pass_leave(cs_pass *pass);
/* Takes and gives back a reference that outlives units: outputs and gradients between them. */
void cs_pass_hold(cs_pass *pass, cs_tensor tensor);
void cs_pass_let_go(cs_pass *pass, cs_tensor tensor);

int cs_pass_mark(const cs_pass *pass);        /* how many tensors are kept                        */
void cs_pass_rewind(cs_pass *pass, int mark); /* forgets what was kept since, for recomputation */

#endif
