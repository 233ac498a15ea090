/* optim.h - optimizers: the settings, name to optimizer, hyper-parameters at step t.
 *
 * A rule updates one element and knows no device, rank or file: float rule(float p, float g, float *s0, float *s1,
 * cs_hyper h) returns the new p. rules.h lists them; device/cpu/update.c makes a loop of each. g is scaled already; a
 * slot the optimizer lacks is NULL. */
#ifndef CS_OPTIM_OPTIM_H
#define CS_OPTIM_OPTIM_H

#include "base/keys.h"
#include "optim/rule.h"

enum { CS_OPTIM_SLOTS = 2 };

typedef enum {
    CS_OPTIM_ADAMW,
    CS_OPTIM_ADAM,
    CS_OPTIM_SGD
} cs_optim_kind; /* Adam here is L2 decay (adam_w_mode false) */

typedef struct {
    cs_optim_kind kind;
    const char   *name;                       /* "AdamW"                                         */
    int           slots;                      /* floats of state an element: 2, 2, 0 or 1        */
    const char   *slot_names[CS_OPTIM_SLOTS]; /* "exp_avg", "exp_avg_sq"; "momentum_buffer": PyTorch's */
} cs_optimizer;

typedef struct {
    int    kind; /* cs_optim_kind */
    double rate, betas[2], epsilon, weight_decay;
    double momentum, dampening;
    bool   nesterov, bias_correction;
    bool   adam_w_mode; /* as the file says it: "Adam" with it is AdamW */
} cs_optim_settings;

/* The optimizer for these settings: SGD without momentum has no slot. */
cs_optimizer cs_optim_find(const cs_optim_settings *settings);
/* t counts applied updates from 1. */
cs_hyper cs_optim_hyper(const cs_optim_settings *settings, double rate, int64_t t, double grad_scale);
/* Reads the "optimizer" section {type, params}; NULL: AdamW with its defaults. Faults go to doc; "auto" is resolved in
 * place. */
void cs_optim_read(cs_json *doc, json_t *section, cs_optim_settings *settings);
/* The key table of these settings' kind, for "optimizer.params". */
const cs_key *cs_optim_keys(const cs_optim_settings *settings, int *count);
void          cs_optim_help(void); /* the tables, printed */

#endif
