/* optim.h - optimizers: the settings, the table of optimizers, the hyper-parameters of one step.
 *
 * An optimizer is one function that updates one element and knows no device, rank or file:
 *
 *     float rule(float p, float g, float *s0, float *s1, ce_hyper h)
 *
 * It returns the new value of the parameter p. The gradient g is already scaled. s0 and s1 point to the element's
 * optimizer state, or are NULL where the optimizer has no such slot. optim/rules.h lists the functions, and
 * device/cpu/update.c makes a loop of each. The steps of LAMB and Muon depend on a norm or on the matrix of the whole
 * tensor. Their functions return a direction, and zero/update.c takes the step along that direction. */
#ifndef CE_OPTIM_OPTIM_H
#define CE_OPTIM_OPTIM_H

#include "json/keys.h"
#include "optim/rule.h"

/* A block is CE_OPTIM_BLOCK consecutive elements of a parameter, counted from its first element. In 8-bit state each block
 * has one fp32 scale for each slot, its greatest absolute value, and an element is the code of its quotient by the scale
 * (base/dynamic_map.h). Parameters with fewer than CE_OPTIM_LEAST elements have 32-bit state. */
enum { CE_OPTIM_SLOTS = 2, CE_OPTIM_BLOCK = 256, CE_OPTIM_LEAST = 4096 };

/* The optimizers: CE_OPTIM_ADAMW and so on. CE_OPTIM_ADAM is Adam with L2 decay; the configuration chooses it by the
 * type "Adam" with "adam_w_mode": false. */
typedef enum {
#define RULE(function, constant, ...) CE_OPTIM_##constant,
#include "optim/rules.h"
    CE_OPTIM_KINDS
} ce_optim_kind;

typedef struct {
    ce_optim_kind kind;
    const char *name; /* name, such as "AdamW" */
    /* number of values of optimizer state for each element (slots), at most 2 */
    int slots;
    const char *slot_names[CE_OPTIM_SLOTS]; /* PyTorch's names of the slots, such as "exp_avg" and "exp_avg_sq" */
    float first_value;                      /* value of every slot before the first step */
    bool directs; /* True if the optimizer's function returns a direction instead of the new parameter. */
    bool blocks;  /* True if the slots are 8-bit codes with a scale for each block. */
} ce_optimizer;

/* The settings of all optimizers. An optimizer reads only the fields that it needs. */
typedef struct {
    int kind; /* a value of ce_optim_kind */
    double rate, betas[2], epsilon, weight_decay;
    double momentum, dampening;
    bool nesterov, bias_correction;
    double lr_decay, first_sum;     /* Adagrad's lr_decay and initial_accumulator_value */
    bool inside_root;               /* for LAMB: true if epsilon is added under the square root */
    double min_ratio, max_ratio;    /* for LAMB: the bounds of the ratio of a tensor's norm to its step's norm */
    double matrix_rate, other_rate; /* Muon's muon_lr and adam_lr; with Muon, `rate` is equal to `matrix_rate` */
    int ns_method;                  /* Muon's ns_method */
    int64_t bits;                   /* optim_bits: 32, or 8 for slots in blocks */
    bool adam_w_mode;               /* value of the key adam_w_mode; if it is true, "Adam" means AdamW */
} ce_optim_settings;

/* Returns the optimizer for these settings. SGD without momentum has no slot. For Muon the result is the optimizer of
 * the matrices. */
ce_optimizer ce_optim_find(const ce_optim_settings *settings);
/* Returns the hyper-parameters of step t, where t counts the applied updates from 1. grad_scale is the factor by which
 * the gradient is multiplied before the rule gets it. */
ce_hyper ce_optim_hyper(const ce_optim_settings *settings, double rate, int64_t t, double grad_scale);
/* Returns whether the optimizer has betas. The momentum cycle of OneCycle changes the first beta. */
bool ce_optim_has_betas(const ce_optim_settings *settings);
/* Returns the settings for the parameters of a group with 8-bit state that have 32-bit state. */
ce_optim_settings ce_optim_beside_blocks(const ce_optim_settings *settings);
/* Returns AdamW's settings for the parameters that Muon does not update: vectors, embeddings and the head. */
ce_optim_settings ce_optim_beside_muon(const ce_optim_settings *settings);

/* Reads the section "optimizer" {type, params}. If `section` is NULL, the optimizer is AdamW with its defaults. Errors
 * are added to doc. A value "auto" in the section is replaced by the value that it stands for. */
void ce_optim_read(ce_json *doc, json_t *section, ce_optim_settings *settings);
/* Reads the values of one parameter group: all keys of `object` except "params", "train" and keys that begin with "_".
 * `settings` holds the values of optimizer.params before the call. */
void ce_optim_override(ce_json *doc, json_t *object, const char *path, ce_optim_settings *settings);
/* Returns the key table of "optimizer.params" for the optimizer of these settings, and sets *count. */
const ce_key *ce_optim_keys(const ce_optim_settings *settings, int *count);
/* Returns the key table of the section "optimizer" itself, and sets *count. */
const ce_key *ce_optim_section(int *count);
/* Prints all key tables. */
void ce_optim_help(void);

#endif
