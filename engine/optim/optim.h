/* optim.h - optimizers: the settings, name to optimizer, hyper-parameters at step t.
 *
 * A rule updates one element and knows no device, rank or file: float rule(float p, float g, float *s0, float *s1,
 * cs_hyper h) returns the new p. rules.h lists them; device/cpu/update.c makes a loop of each. g is scaled already; a
 * slot the optimizer lacks is NULL. LAMB and Muon need a norm or a matrix of the whole tensor: their rules return a
 * direction, and zero/update.c takes the step. */
#ifndef CS_OPTIM_OPTIM_H
#define CS_OPTIM_OPTIM_H

#include "base/keys.h"
#include "optim/rule.h"

enum { CS_OPTIM_SLOTS = 2 };

typedef enum {
    CS_OPTIM_ADAMW,
    CS_OPTIM_ADAM,
    CS_OPTIM_SGD,
    CS_OPTIM_ADAGRAD,
    CS_OPTIM_LION,
    CS_OPTIM_LAMB,
    CS_OPTIM_MUON
} cs_optim_kind; /* Adam here is L2 decay (adam_w_mode false) */

typedef struct {
    cs_optim_kind kind;
    const char *name;                       /* "AdamW"                                                      */
    int slots;                              /* floats of state an element: 2, 1 or 0                        */
    const char *slot_names[CS_OPTIM_SLOTS]; /* "exp_avg", "exp_avg_sq"; "momentum_buffer"; "sum": PyTorch's */
    float first_value;                      /* of every slot, before the first step                         */
    bool directs;                           /* its rule returns a direction                                 */
} cs_optimizer;

typedef struct {
    int kind; /* cs_optim_kind */
    double rate, betas[2], epsilon, weight_decay;
    double momentum, dampening;
    bool nesterov, bias_correction;
    double lr_decay, first_sum;     /* Adagrad                                                    */
    bool inside_root;               /* LAMB                                                       */
    double min_ratio, max_ratio;    /* LAMB                                                       */
    double matrix_rate, other_rate; /* Muon's muon_lr and adam_lr; rate is the first of these two */
    int ns_method;                  /* Muon                                                       */
    bool adam_w_mode;               /* as the file says it: "Adam" with it is AdamW */
} cs_optim_settings;

/* The optimizer for these settings: SGD without momentum has no slot. Of Muon: what moves its matrices. */
cs_optimizer cs_optim_find(const cs_optim_settings *settings);
/* t counts applied updates from 1. */
cs_hyper cs_optim_hyper(const cs_optim_settings *settings, double rate, int64_t t, double grad_scale);
/* Whether it has betas, which OneCycle's momentum cycle moves. */
bool cs_optim_has_betas(const cs_optim_settings *settings);
/* Muon leaves vectors, embeddings and the head to AdamW: the settings of that side. */
cs_optim_settings cs_optim_beside_muon(const cs_optim_settings *settings);

/* Reads the "optimizer" section {type, params}; NULL: AdamW with its defaults. Faults go to doc; "auto" is resolved in
 * place. */
void cs_optim_read(cs_json *doc, json_t *section, cs_optim_settings *settings);
/* A parameter group's own values: of `object`, but its "params", into settings that hold what optimizer.params says. */
void cs_optim_override(cs_json *doc, json_t *object, const char *path, cs_optim_settings *settings);
/* The key table of these settings' kind, for "optimizer.params". */
const cs_key *cs_optim_keys(const cs_optim_settings *settings, int *count);
const cs_key *cs_optim_section(int *count); /* the key table of "optimizer" itself */
void cs_optim_help(void);                   /* the tables, printed                 */

#endif
