/* pass_inside.h - the struct of a pass, for the files that implement pass.h. */
#ifndef CE_UNIT_PASS_INSIDE_H
#define CE_UNIT_PASS_INSIDE_H

#include "unit/pass.h"
#include "unit/unit.h"

typedef struct {
    size_t offset, bytes;
    int references;
    int young;             /* number of `references` that end when the current unit's forward or backward returns */
    const cs_param *terms; /* the matrix of ce_pass_partial */
    size_t owed;           /* how many bytes of the terms are not added up yet */
} ce_live_tensor;

/* The check of what units write (pass_check.c). */
typedef struct {
    bool on;
    uint32_t *words; /* a buffer to fill and to read memory of the device */
    cs_tensor *made; /* the tensors that the present unit's function has made */
    int count, capacity;
    cs_tensor output; /* the tensor that was held last: the output y or the gradient dx */
} ce_pass_checks;

struct cs_pass {
    ce_pass_shape shape;
    unsigned regular_parts;
    ce_pass_batch_info info;
    bool in_unit;
    cs_unit *unit; /* the unit whose function runs; NULL if it is not known */
    ce_pass_way way;
    uintptr_t base;
    size_t peak;
    cs_tensor dloss;
    ce_pass_weigher *weigher; /* weigher is NULL if the weights of the losses are known before forward */
    void *weigher_argument;
    ce_live_tensor *live; /* the tensors that exist at this time, in the order of their offsets */
    int live_count, live_capacity;
    cs_tensor *kept;
    int kept_count, kept_capacity;
    size_t made; /* bytes of the tensors that the present unit's function has made */
    ce_pass_checks check;
};

/* Called for each new tensor, and when a unit's function has returned, before its tensors are released. */
void ce_pass_check_made(cs_pass *pass, cs_tensor tensor);
void ce_pass_check_leave(cs_pass *pass);
/* Returns true if the tensor, which was made by the present unit's function, remains when that function has returned. */
bool ce_pass_outlives(cs_pass *pass, cs_tensor tensor);

#endif
