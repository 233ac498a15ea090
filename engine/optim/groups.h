/* groups.h - parameter groups: which settings move which parameter.
 *
 * cspeed.param_groups is a list of {"params": "glob" or ["glob", ...], and keys of optimizer.params}; the first whose
 * glob matches a parameter's whole name takes it, and what no group takes follows optimizer.params. Muon makes two of
 * each: its matrices, and AdamW for the rest. */
#ifndef CS_OPTIM_GROUPS_H
#define CS_OPTIM_GROUPS_H

#include "optim/optim.h"

enum { CS_GROUPS = 64 };

typedef struct {
    const json_t *params; /* a glob or a list of them; NULL: all that is left            */
    cs_optim_settings settings;
    cs_optimizer optimizer;
    double ratio;          /* of its rate to optimizer.params.lr, under every schedule   */
    bool decays;           /* gives its own weight_decay, which falls on vectors too     */
    bool matrices, others; /* which of the parameters it names are its own      */
    int written;           /* its number in cspeed.param_groups, from 0; -1: the default */
} cs_group;

typedef struct {
    cs_group group[CS_GROUPS];
    int count;
} cs_groups;

/* `list` is cspeed.param_groups, NULL: none. `settings` are optimizer.params'. */
void cs_groups_read(cs_json *doc, const json_t *list, const cs_optim_settings *settings, cs_groups *groups);
/* The group of a parameter. */
int cs_groups_find(const cs_groups *groups, const char *name, bool vector);
/* Whether pattern `index` of the group matches; false with *pattern NULL behind the last. */
bool cs_groups_match(const cs_group *group, size_t index, const char *name, const char **pattern);

#endif
