/* unit.h - inside a unit and a model: parameters, lenders, the flat layout.
 *
 * A unit's own parameters lie one behind the other in one flat row of `length` elements. Sharding cuts the row (padded
 * by zero/), never a tensor; a borrowed parameter is a view of the lender's. Behind a padded parameter the row has a
 * gap: the zero rows by which products with it are aligned. A parameter's elements come first and the gap behind them,
 * so whatever works on offset and count does not see the gap. */
#ifndef CS_UNIT_UNIT_H
#define CS_UNIT_UNIT_H

#include "base/status.h"
#include "base/range.h"
#include "base/rng.h"
#include "device/device.h"

enum { CS_UNIT_LENDERS = 4 };

/* The gradient of a parameter that cs_param_grows names. cs_param.grad has no data then, so that an operation that is
 * given that gradient, which may not have been cleared, ends the run instead of adding to undefined numbers. */
struct cs_growth {
    cs_growth *with; /* holds `fresh` for all gradients that one operation writes; may be this one */
    void *data;      /* NULL while the gradient has no memory */
    bool fresh;      /* nothing was added to the gradient yet, and it was not cleared */
};

/* A parameter and its place in its unit's row. */
typedef struct {
    cs_param param; /* first, so that the public pointer is this one */
    char *full_name;
    int64_t offset, count;
    int group; /* of the optimizer's parameter groups: zero/ sets it */
    cs_growth growth;
} cs_unit_entry;

/* A parameter seen in another unit. */
typedef struct {
    cs_param param; /* name is the lender's */
    cs_unit *lender;
    cs_unit_entry *entry;
} cs_unit_loan;

struct cs_unit {
    const cs_kind *kind;
    char *name;
    cs_unit_entry **entries;
    int entry_count;
    cs_unit_loan **loans;
    int loan_count;
    cs_unit *lenders[CS_UNIT_LENDERS]; /* each once */
    int lender_count;
    int64_t length; /* elements of its own parameters and of the gaps behind them */
    void *self;
    cs_model *model;
    int index; /* in the model's list */
};

struct cs_model {
    cs_unit **units;
    int count;
    int64_t width;           /* columns of what flows between units */
    int64_t parameters;      /* elements in all                     */
    int64_t inputs, targets; /* columns of a float batch; 0: tokens */
};

void cs_unit_free(cs_unit *unit);

/* Sets each parameter's place, and cs_param.held: a padded one's rows are rounded up to a multiple of so many (1: there
 * is no gap, as before this call). Before anything of the model is in memory. */
void cs_model_lay_out(cs_model *model, int64_t multiple);
cs_range cs_unit_gap(const cs_unit_entry *entry); /* elements of the unit's row behind this parameter's own */

/* Points every param's value and grad (its own and its loans' in this unit) into whole rows; NULL: absent. */
void cs_unit_attach_values(cs_unit *unit, void *row, cs_dtype dtype);
void cs_unit_attach_grads(cs_unit *unit, float *row);
bool cs_unit_has_grads(const cs_unit *unit);       /* whether rows of gradients are attached */
void cs_unit_set_fresh(cs_unit *unit, bool fresh); /* the gradients that grow (cs_param_grows) */
/* Whether the entry's gradient grows, and nothing was added to it yet. */
bool cs_unit_is_fresh(const cs_unit_entry *entry);
/* Refreshes the unit's loans from their lenders' present values and grads. */
void cs_unit_refresh_loans(cs_unit *unit);

#endif
