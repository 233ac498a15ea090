/* groups.h - parameter groups: which optimizer settings apply to which parameter.
 *
 * cspeed.param_groups is a list of {"params": "glob" or ["glob", ...]} with keys of optimizer.params. A parameter
 * belongs to the first group that has a glob which matches the parameter's whole name. Parameters that match no group
 * have the settings of optimizer.params. A group with "train": false freezes its parameters. With Muon each group
 * becomes two: Muon for its matrices and AdamW for its other parameters. */
#ifndef CE_OPTIM_GROUPS_H
#define CE_OPTIM_GROUPS_H

#include "optim/optim.h"

enum { CE_GROUPS = 64 };

typedef struct {
    const json_t *params; /* a glob or a list of globs; NULL means all parameters that are in no other group */
    ce_optim_settings settings;
    ce_optimizer optimizer;
    double ratio; /* group's learning rate divided by optimizer.params.lr; every schedule keeps this ratio */
    bool frozen;  /* True if the group has "train": false, so that its parameters are not trained. */
    bool decays;  /* True if the group sets weight_decay itself; the value then applies to vectors too. */
    /* Of the parameters that match `params`, the group has the matrices if `matrices` is true, and all others if
     * `others` is true. */
    bool matrices, others;
    int written; /* index in cspeed.param_groups, or -1 for the default group */
} ce_group;

typedef struct {
    ce_group group[CE_GROUPS];
    int count;
} ce_groups;

/* Reads the parameter groups. `list` is cspeed.param_groups, or NULL if there is none. `settings` holds the values of
 * optimizer.params. */
void ce_groups_read(ce_json *doc, const json_t *list, const ce_optim_settings *settings, ce_groups *groups);
/* Returns the index of the group to which the parameter belongs. */
int ce_groups_find(const ce_groups *groups, const char *name, bool vector);
/* Returns whether pattern number `index` of the group matches the name. If `index` is beyond the last pattern, returns
 * false and sets *pattern to NULL. */
bool ce_groups_match(const ce_group *group, size_t index, const char *name, const char **pattern);

#endif
