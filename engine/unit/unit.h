/* unit.h - the inside of a unit and a model: parameters, lenders, the flat layout.
 *
 * A unit's own parameters are consecutive in one flat row of `length` elements. Sharding (zero/) pads and cuts the row,
 * not the tensors. A borrowed parameter is a view of the lender's. A padded parameter is followed by a gap in the row:
 * rows of zeros, which make the size of matrix products with this parameter a multiple of their alignment. The
 * parameter's elements come first, so code that uses offset and count does not see the gap.
 *
 * Frozen parameters, which are not trained, are moved from their unit to the store of that unit. A store is a further
 * unit, behind the units that compute; its row has values, but no gradients and no optimizer state. The pointers that
 * layers hold stay valid. */
#ifndef CS_UNIT_UNIT_H
#define CS_UNIT_UNIT_H

#include "base/status.h"
#include "base/range.h"
#include "base/rng.h"
#include "device/device.h"

enum { CS_UNIT_LENDERS = 4 };

/* The gradient of a parameter for which cs_param_grows was called. For such a parameter cs_param.grad has no data,
 * because its memory may not have been cleared: an operation that adds to cs_param.grad ends the run instead of adding
 * to undefined numbers. */
struct cs_growth {
    cs_growth *with; /* the struct whose `fresh` is used for all gradients that one operation writes */
    void *data;      /* NULL while the gradient has no memory */
    bool fresh;      /* nothing has been written to the gradient yet, not even zeros */
};

/* A parameter and its position in the unit's row. */
typedef struct {
    cs_param param; /* the first field, so that the public pointer is a pointer to this struct */
    char *full_name;
    int64_t offset, count;
    int group; /* index of its optimizer parameter group, which zero/ sets; a frozen parameter may have no group */
    bool lora; /* the parameter belongs to an adapter (layer/lora.h), so it is not among the base model's weights */
    cs_growth growth;
} ce_unit_entry;

/* A parameter that another unit borrows. */
typedef struct {
    cs_param param; /* param.name is the name that the lender uses */
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
    int index;      /* index in the model's list of units */
    cs_unit *store; /* the unit that has the frozen parameters of this unit; NULL: there are none */
    bool frozen;    /* this unit is such a store */
};

/* What the experts of a model's layers share. All arrays belong to the model and are in host memory: there are no
 * experts on a GPU yet. */
typedef struct {
    int64_t layers, experts;
    int64_t idle;          /* elements of the experts that do not compute a token, in all layers */
    float coefficient;     /* of the load-balancing loss; 0: the loss is not computed */
    int32_t *tokens;       /* (layers, experts): slots of each expert in the last micro-batch, see cs_routing */
    float *probabilities;  /* (layers, experts), as in cs_routing */
    float *dprobabilities; /* (experts), as in cs_balance */
} ce_load;
/* Adds a layer with this number of experts, which is the same for all layers, and returns its index. `idle`: elements
 * of the layer's experts that do not compute a token. */
int64_t ce_load_add(cs_model *model, int64_t experts, int64_t idle, float coefficient);

struct cs_model {
    cs_unit **units; /* `count` units that compute, then the stores of frozen parameters: `total` in all */
    int count, total;
    int first_trained;       /* index of the first unit with a trained parameter: backward ends there */
    int64_t width;           /* columns of the tensors between units */
    int64_t parameters;      /* number of elements of all parameters */
    int64_t trained;         /* number of elements of the trained parameters, after ce_model_freeze */
    int64_t inputs, targets; /* columns of a batch of floats; 0: the batch is tokens */
    cs_dtype target_dtype;   /* of a batch of floats */
    ce_load load;            /* layers 0: no layer has experts */
};

void ce_unit_free(cs_unit *unit);

/* Moves the parameters whose `param.frozen` is set to stores. To be called once, when all parameters are
 * declared and before ce_model_lay_out. CS_BAD_CONFIG if no parameter is left to train, or if one cannot be frozen. */
cs_status ce_model_freeze(cs_model *model);

/* The name of a parameter of the first unit. */
const char *ce_model_first(const cs_model *model);
const ce_unit_entry *ce_model_find(const cs_model *model, const char *full_name); /* NULL: no such parameter */

/* Computes the position of each parameter, and cs_param.held: the number of rows of a padded parameter, rounded up to a
 * multiple of `multiple`. With 1 there are no gaps, as before this call. To be called before any row of the model is
 * allocated. */
void ce_model_lay_out(cs_model *model, int64_t multiple);
ce_range ce_unit_gap(const ce_unit_entry *entry); /* the range of the padding elements behind it */

/* Sets the value or grad of every parameter of the unit, borrowed ones included, to its place in a whole row; NULL:
 * absent. */
void ce_unit_attach_values(cs_unit *unit, void *row, cs_dtype dtype);
void ce_unit_attach_grads(cs_unit *unit, float *row);
bool ce_unit_has_grads(const cs_unit *unit);       /* whether rows of gradients are attached */
void ce_unit_set_fresh(cs_unit *unit, bool fresh); /* sets `fresh` of all gradients that grow (cs_param_grows) */
/* True if the entry's gradient grows (cs_param_grows) and nothing has been written to it yet. */
bool ce_unit_is_fresh(const ce_unit_entry *entry);
/* Copies the lenders' present value and grad pointers to the parameters that this unit borrows. */
void ce_unit_refresh_loans(cs_unit *unit);

#endif
