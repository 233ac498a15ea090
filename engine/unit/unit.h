/* unit.h - the inside of a unit and a model: parameters, owners, the flat layout.
 *
 * A unit's own parameters are consecutive in one flat row of `length` elements. Sharding (zero/) pads and cuts the row,
 * not the tensors. A shared parameter is a view of a parameter of another unit, its owner. In the row, a padded
 * parameter is followed by a gap: rows of zeros, so that the parameter and the gap together have a number of rows with
 * which matrix products are aligned. The parameter's elements come first, so code that uses offset and count does not
 * see the gap.
 *
 * Frozen parameters, which are not trained, are moved from their unit to the store of that unit. A store is a further
 * unit, behind the units that compute; its row has values, but no gradients and no optimizer state. The pointers that
 * layers hold stay valid. Those weights that are quantised to 4 bits are moved to a store of their own, whose elements are
 * bytes. */
#ifndef CE_UNIT_UNIT_H
#define CE_UNIT_UNIT_H

#include "base/four_bit.h"
#include "base/status.h"
#include "base/range.h"
#include "base/rng.h"
#include "device/device.h"
#include "unit/cut.h"

enum { CE_UNIT_OWNERS = 4 };

/* The gradient of a parameter for which cs_param_overwrites was called. For such a parameter cs_param.grad has no data,
 * because the memory of the gradient may not have been cleared: an operation that adds to cs_param.grad ends the run
 * instead of adding to undefined numbers. */
struct cs_gradient {
    /* Gradients that one operation writes together have the same `with`; only with->unwritten is used, for all of them. */
    cs_gradient *with;
    void *data;     /* address of the gradient; NULL while the gradient has no memory */
    bool unwritten; /* true while nothing has been written to the gradient, not even zeros */
};

/* A frozen weight of 4 bits (base/four_bit.h). cs_param.value is then the matrix (rows, columns / 2) of its codes, of type
 * CS_U8. `absmax` and `nested` are bytes too: parameters of the same row. */
typedef struct cs_four_bit_weight {
    ce_four_bit_type type;
    int64_t rows, columns;
    cs_param *absmax, *nested; /* `nested` is NULL without double quantisation */
    const cs_param *next;      /* the weight of the layer's next part; NULL if there is none */
} ce_four_bit_weight;

/* A parameter and its position in the row of its unit. */
typedef struct {
    /* `param` must be the first member, so that a pointer to the public cs_param is also a pointer to this struct */
    cs_param param;
    char *full_name;
    int64_t offset, count; /* `count`: number of elements that this rank holds if parameters are not sharded */
    ce_cut cut;            /* which elements of the whole parameter these are */
    int group; /* index of the parameter's optimizer group, which zero/ sets; a frozen parameter may have no group */
    /* True if the parameter belongs to an adapter (layer/lora.h); it is then not among the base model's weights. */
    bool lora;
    ce_four_bit_type packs;    /* ce_model_freeze makes a 4-bit weight of this parameter, without the numbers */
    ce_four_bit_weight packed; /* cs_param.four_bit points here */
    cs_gradient gradient;
} ce_unit_entry;

/* A parameter of another unit that this unit uses too. */
typedef struct {
    cs_param param; /* param.name is the name of the parameter in its owner */
    cs_unit *owner;
    ce_unit_entry *entry;
} ce_unit_shared;

struct cs_unit {
    const cs_kind *kind;
    char *name;
    ce_unit_entry **entries;
    int entry_count;
    ce_unit_shared **shared;
    int shared_count;
    cs_unit *owners[CE_UNIT_OWNERS]; /* units whose parameters this unit uses too; each is listed once */
    int owner_count;
    int64_t length; /* number of elements of the unit's own parameters, gaps included */
    void *self;
    size_t self_bytes;
    struct {
        int64_t rows;
        size_t bytes[2]; /* of the tensors of forward and backward */
    } measured;          /* the unit in the pass that measured the memory of this number of rows; 0 rows: none did */
    int kept_before;     /* number of saved tensors before this unit's forward in the present pass */
    cs_model *model;
    int index; /* index of the unit in the model's list of units */
    /* unit that holds the frozen parameters of this unit; NULL if no parameter of this unit is frozen. If some of them are
     * 4-bit weights, the store has a store too, which holds these. */
    cs_unit *store;
    bool frozen; /* true if this unit holds the frozen parameters of another unit */
    bool bytes;  /* true if this unit holds 4-bit weights: the elements of its row are bytes */
};

/* The data that the experts of all layers of a model share. The arrays are in the memory that ce_load_place gets, which
 * operations on the device access. */
typedef struct {
    int64_t layers, experts;
    int64_t idle; /* number of parameter elements in the experts that do not compute a given token, over all layers */
    float coefficient; /* coefficient of the load-balancing loss; 0 means that the loss is not computed */
    /* (layers, experts): number of slots of each expert in the last micro-batch, see cs_routing */
    int32_t *tokens;
    float *probabilities;  /* (layers, experts): sums of probabilities, as in cs_routing */
    float *dprobabilities; /* (experts): gradient of the probabilities, as in cs_balance */
} ce_load;
/* Adds a layer with experts to the model and returns the layer's index. `experts` is the number of experts, which must
 * be the same for all layers. `idle` is the number of parameter elements in those experts of the layer that do not
 * compute a given token. */
int64_t ce_load_add(cs_model *model, int64_t experts, int64_t idle, float coefficient);
/* Returns the size of the arrays of ce_load in bytes; 0 if no layer has experts. */
size_t ce_load_bytes(const ce_load *load);
/* Places the arrays in device memory of ce_load_bytes bytes, aligned to 4 bytes. Must be called before the first
 * pass. */
void ce_load_place(ce_load *load, void *memory);

struct cs_model {
    cs_unit **units; /* `total` units: first `count` units that compute, then the stores of frozen parameters */
    int count, total;
    int first_trained;  /* index of the first unit that has a trained parameter; backward ends at this unit */
    int64_t width;      /* number of columns of the tensors that one unit passes to another */
    int64_t parameters; /* number of elements of all parameters, as if no layer were cut */
    int64_t trained;    /* number of elements of the trained parameters, after ce_model_freeze */
    /* number of columns of the inputs and of the targets of a batch of floats; 0 if a batch consists of tokens */
    int64_t inputs, targets;
    cs_dtype target_dtype; /* type of the targets of a batch of floats */
    ce_load load;          /* load.layers is 0 if no layer has experts */
    ce_cut_group tp;       /* the tensor-parallel group, over whose ranks layers cut their parameters */
};

/* Sets the tensor-parallel group of a model that has no unit yet. */
void ce_model_divide(cs_model *model, ce_cut_group group);
/* Declares that the ranks of the group have copies of a complete model, whose layers cut nothing and exchange nothing.
 * Called after all parameters are declared. */
void ce_model_copy(cs_model *model, ce_cut_group group);

void ce_unit_free(cs_unit *unit);
const char *ce_unit_label(const cs_unit *unit); /* the unit's name, or the name of its kind if the unit has none */

/* Moves the frozen parameters (param.frozen is true) from their units to stores. Called once, after all parameters are
 * declared and before ce_model_lay_out. Returns CS_BAD_CONFIG if no parameter is left to train. Returns
 * CS_UNSUPPORTED if a parameter cannot be frozen. If `twice` is true, the absmax of 4-bit weights are quantised too. */
cs_status ce_model_freeze(cs_model *model, bool twice);

/* Returns the name of a parameter of the model's first unit. */
const char *ce_model_first(const cs_model *model);
/* Returns the parameter with this name, or NULL if there is none. */
const ce_unit_entry *ce_model_find(const cs_model *model, const char *full_name);
/* The same; sets *unit to the index of the parameter's unit. */
const ce_unit_entry *ce_model_locate(const cs_model *model, const char *full_name, int *unit);

/* Computes the position of each parameter in its unit's row. A parameter begins at a multiple of `align`, unless one
 * product uses it together with the parameter before it. For a padded parameter, sets cs_param.held to the
 * parameter's number of rows, rounded up to a multiple of `multiple`. If `multiple` is 1, there are no gaps. To be
 * called before memory for any row is allocated. */
void ce_model_lay_out(cs_model *model, int64_t multiple, int64_t align);
/* Returns whether the parameters are adjacent in the row, because one product uses both. */
bool ce_unit_are_adjacent(const ce_unit_entry *a, const ce_unit_entry *b);
/* Returns the range of the gap (padding elements) behind the parameter. */
ce_range ce_unit_gap(const ce_unit_entry *entry);

/* Set the addresses of the values or gradients of the unit's own parameters to the parameters' places in `row`, which
 * has all elements of the unit. If `row` is NULL, the values or gradients become absent. Parameters that are shared
 * from this unit get the new addresses only from ce_unit_refresh_shared. */
void ce_unit_attach_values(cs_unit *unit, void *row, cs_dtype dtype);
void ce_unit_attach_grads(cs_unit *unit, float *row);
bool ce_unit_has_grads(const cs_unit *unit); /* Returns whether a row of gradients is attached. */
/* Sets the flag `unwritten` of all gradients for which cs_param_overwrites was called. */
void ce_unit_set_unwritten(cs_unit *unit, bool unwritten);
/* Returns true if cs_param_overwrites was called for the parameter and nothing has been written to its gradient yet. */
bool ce_unit_is_unwritten(const ce_unit_entry *entry);
/* Copies the current pointers to values and gradients from the owners' parameters to the parameters that this unit
 * shares. */
void ce_unit_refresh_shared(cs_unit *unit);

#endif
