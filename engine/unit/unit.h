/* unit.h - the inside of a unit and a model: parameters, lenders, the flat layout.
 *
 * A unit's own parameters are consecutive in one flat row of `length` elements. Sharding (zero/) pads and cuts the
 * row, not the tensors. A borrowed parameter is a view of the lender's. A padded parameter is followed by a gap in
 * the row: zero rows, by which matrix products with it are aligned. The parameter's elements come first, so code
 * that uses offset and count does not see the gap. */
#ifndef CS_UNIT_UNIT_H
#define CS_UNIT_UNIT_H

#include "base/status.h"
#include "base/range.h"
#include "base/rng.h"
#include "device/device.h"

enum { CS_UNIT_LENDERS = 4 };

/* The gradient of a parameter for which cs_param_grows was called. cs_param.grad has no data then: an operation that is
 * given that gradient, which may not have been cleared, ends the run instead of adding to undefined numbers. */
struct cs_growth {
    cs_growth *with; /* holds `fresh` for all gradients that one operation writes; may be this one */
    void *data;      /* NULL while the gradient has no memory */
    bool fresh;      /* nothing was added to the gradient yet, and it was not cleared */
};

/* A parameter and its position in the unit's row. */
typedef struct {
    cs_param param; /* the first field, so that the public pointer is a pointer to this struct */
    char *full_name;
    int64_t offset, count;
    int group; /* index of its optimizer parameter group; zero/ sets it */
    cs_growth growth;
} ce_unit_entry;

/* A parameter that another unit borrows. */
typedef struct {
    cs_param param; /* its name is the one that the lender uses */
    cs_unit *lender;
    ce_unit_entry *entry;
} ce_unit_loan;

struct cs_unit {
    const cs_kind *kind;
    char *name;
    ce_unit_entry **entries;
    int entry_count;
    ce_unit_loan **loans;
    int loan_count;
    cs_unit *lenders[CS_UNIT_LENDERS]; /* each lender once */
    int lender_count;
    int64_t length; /* elements of its own parameters, gaps included */
    void *self;
    cs_model *model;
    int index; /* index in the model's list of units */
};

struct cs_model {
    cs_unit **units;
    int count;
    int64_t width;           /* columns of the tensors between units */
    int64_t parameters;      /* number of elements of all parameters */
    int64_t inputs, targets; /* columns of a batch of floats; 0: the batch is tokens */
    cs_dtype target_dtype;   /* of a batch of floats */
};

void ce_unit_free(cs_unit *unit);

const ce_unit_entry *ce_model_find(const cs_model *model, const char *full_name); /* NULL: no such parameter */

/* Computes each parameter's position and cs_param.held: the rows of a padded parameter are rounded up to this
 * multiple (1: there are no gaps, as before this call). To be called before any row of the model is allocated. */
void ce_model_lay_out(cs_model *model, int64_t multiple);
ce_range ce_unit_gap(const ce_unit_entry *entry); /* the elements of the gap behind this parameter */

/* Sets the value or grad of every parameter of the unit, borrowed ones included, to its place in a whole row; NULL:
 * absent. */
void ce_unit_attach_values(cs_unit *unit, void *row, cs_dtype dtype);
void ce_unit_attach_grads(cs_unit *unit, float *row);
bool ce_unit_has_grads(const cs_unit *unit);       /* whether rows of gradients are attached */
void ce_unit_set_fresh(cs_unit *unit, bool fresh); /* for the gradients that grow (cs_param_grows) */
/* Whether the entry's gradient grows, and nothing was added to it yet. */
bool ce_unit_is_fresh(const ce_unit_entry *entry);
/* Copies the lenders' present value and grad pointers to the parameters that this unit borrows. */
void ce_unit_refresh_loans(cs_unit *unit);

#endif
