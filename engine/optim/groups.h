/* groups.h - parameter groups: which optimizer settings apply to which parameter.
 *
 * cspeed.param_groups is a list of {"params": "glob" or ["glob", ...]} with keys of optimizer.params. A parameter
 * belongs to the first group that has a glob which matches the parameter's whole name. Parameters that match no group
 * have the settings of optimizer.params. A group with "train": false freezes its parameters. With Muon each group
 * becomes two: Muon for its matrices and AdamW for its other parameters. With 8-bit state ("optim_bits": 8) each group
 * becomes two: one for the parameters whose state is in blocks, and one for the parameters with 32-bit state. */
#ifndef CE_OPTIM_GROUPS_H
#define CE_OPTIM_GROUPS_H

#include "optim/optim.h"

enum { CE_GROUPS = 64 };

/* Which of the parameters that match a group's patterns the group has. Embeddings, by their names, are in CE_NO_BLOCKS,
 * unless the group itself asks for 8 bits. */
typedef enum { CE_ALL_MATCHES, CE_MATRICES, CE_NO_MATRICES, CE_BLOCKS, CE_NO_BLOCKS } ce_group_side;

typedef struct {
    const json_t *params; /* a glob or a list of globs; NULL means all parameters that are in no other group */
    ce_optim_settings settings;
    ce_optimizer optimizer;
    double ratio; /* group's learning rate divided by optimizer.params.lr; every schedule keeps this ratio */
    bool frozen;  /* True if the group has "train": false, so that its parameters are not trained. */
    bool decays;  /* True if the group sets weight_decay itself; the value then applies to vectors too. */
    ce_group_side side;
    bool asks_bits; /* True if the group sets optim_bits itself; the value then applies to embeddings too. */
    int written;    /* index in cspeed.param_groups, or -1 for the default group */
} ce_group;

typedef struct {
    ce_group group[CE_GROUPS];
    int count;
} ce_groups;

/* Reads the parameter groups. `list` is cspeed.param_groups, or NULL if there is none. `settings` holds the values of
 * optimizer.params. */
void ce_groups_read(ce_json *doc, const json_t *list, const ce_optim_settings *settings, ce_groups *groups);
/* Returns the index of the group to which the parameter belongs. `blocks`: its state can be in blocks. */
int ce_groups_find(const ce_groups *groups, const char *name, bool vector, bool blocks);
bool ce_groups_have_blocks(const ce_groups *groups); /* Returns whether a group has 8-bit state. */
/* Returns whether pattern number `index` of the group matches the name. If `index` is beyond the last pattern, returns
 * false and sets *pattern to NULL. */
bool ce_groups_match(const ce_group *group, size_t index, const char *name, const char **pattern);

#endif
