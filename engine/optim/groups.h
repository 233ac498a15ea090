/* groups.h - parameter groups: which optimizer settings apply to which parameter.
 *
 * cspeed.param_groups is a list of {"params": "glob" or ["glob", ...]} with keys of optimizer.params. A parameter
 * belongs to the first group that has a glob which matches the parameter's whole name. Parameters that match no group
 * have the settings of optimizer.params. A group with "train": false freezes its parameters. With Muon each group
 * becomes two: Muon for its matrices and AdamW for its other parameters. */
#ifndef CS_OPTIM_GROUPS_H
#define CS_OPTIM_GROUPS_H

#include "optim/optim.h"

enum { CS_GROUPS = 64 };

typedef struct {
    const json_t *params; /* a glob or a list of globs; NULL: all parameters that no other group has */
    ce_optim_settings settings;
    ce_optimizer optimizer;
    double ratio;          /* the group's rate divided by optimizer.params.lr; every schedule keeps this ratio */
    bool frozen;           /* "train": false: its parameters are not trained */
    bool decays;           /* the group sets weight_decay itself, which then applies to vectors too */
    bool matrices, others; /* of the parameters that `params` names, the group has the matrices if `matrices` is true,
                            * and all others if `others` is true */
    int written;           /* index in cspeed.param_groups; -1: the default group */
} ce_group;

typedef struct {
    ce_group group[CS_GROUPS];
    int count;
} ce_groups;

/* `list` is cspeed.param_groups, or NULL if there is none. `settings` holds the values of optimizer.params. */
void ce_groups_read(ce_json *doc, const json_t *list, const ce_optim_settings *settings, ce_groups *groups);
/* Returns the index of the group that has this parameter. */
int ce_groups_find(const ce_groups *groups, const char *name, bool vector);
/* Returns whether pattern number `index` of the group matches the name. After the last pattern, returns false and
 * sets *pattern to NULL. */
bool ce_groups_match(const ce_group *group, size_t index, const char *name, const char **pattern);

#endif
