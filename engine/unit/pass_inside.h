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
};

#endif
