/* assign.c - assigns parameters to parameter groups, and logs what each group has. */
#include "base/log.h"
#include "zero/zero.h"

#include <stdio.h>

enum { NO_GROUP = -1 };

static bool takes(const ce_groups *groups, const cs_model *model, int written, size_t pattern)
{
    for (int i = 0; i < model->count; i++)
        for (int at = 0; at < model->units[i]->entry_count; at++) {
            const ce_unit_entry *entry = model->units[i]->entries[at];
            const ce_group *group = &groups->group[entry->group == NO_GROUP ? 0 : entry->group];
            const char *text;
            if (entry->group != NO_GROUP && group->written == written &&
                ce_groups_match(group, pattern, entry->full_name, &text))
                return true;
        }
    return false;
}

static cs_status check_group(const ce_groups *groups, const cs_model *model, const ce_group *group)
{
    const char *text = "";
    for (size_t i = 0; group->params && text; i++) {
        ce_groups_match(group, i, "", &text);
        if (text && !takes(groups, model, group->written, i))
            return ce_fail(CS_BAD_CONFIG,
                           "cspeed.param_groups[%d]: \"%s\" matches no parameter: none has such a name, or an "
                           "earlier group matches it too; a pattern is compared with complete names such as \"%s\"",
                           group->written, text, ce_model_first(model));
    }
    return CS_OK;
}

cs_status ce_assign_groups(const ce_groups *groups, cs_model *model)
{
    for (int i = 0; i < model->count; i++)
        for (int at = 0; at < model->units[i]->entry_count; at++) {
            ce_unit_entry *entry = model->units[i]->entries[at];
            if (entry->param.frozen) {
                entry->group = NO_GROUP;
                continue;
            }
            entry->group = ce_groups_find(groups, entry->full_name, entry->param.value.dims < 2,
                                          ce_slots_fit(model->units[i], at));
            entry->param.frozen = groups->group[entry->group].frozen;
        }
    for (int i = 0; i < groups->count; i++)
        CE_TRY(check_group(groups, model, &groups->group[i]));
    return CS_OK;
}

ce_assigned ce_assign_count(const ce_groups *groups, const cs_model *model, int number)
{
    ce_assigned all = { 0 };
    for (int i = 0; i < model->total; i++)
        for (int at = 0; at < model->units[i]->entry_count; at++) {
            const ce_unit_entry *entry = model->units[i]->entries[at];
            if (entry->group != number)
                continue;
            all.tensors++;
            all.elements += ce_cut_count(&entry->cut);
            all.undecayed += !entry->param.decay && !groups->group[number].decays;
        }
    return all;
}

static void print_group(const ce_group *group, ce_assigned has)
{
    char who[32] = "optimizer", decay[96] = "";
    const ce_optim_settings *settings = &group->settings;
    if (group->frozen)
        return;
    if (group->params)
        snprintf(who, sizeof who, "param_groups[%d]", group->written);
    if (settings->weight_decay > 0 && has.undecayed > 0)
        snprintf(decay, sizeof decay, ", none on %lld of them (norms, biases and vectors)", (long long)has.undecayed);
    ce_log(CE_LOG_INFO, "%s: %s updates %lld tensors (%lld elements)%s: lr %g%s, weight_decay %g%s", who,
           group->optimizer.name, (long long)has.tensors, (long long)has.elements,
           group->optimizer.blocks ? " with 8-bit state" : "", settings->rate,
           group->ratio == 1 ? "" : " (in proportion under the schedule)", settings->weight_decay, decay);
}

void ce_assign_print(const ce_groups *groups, const cs_model *model)
{
    for (int number = 0; number < groups->count; number++) {
        ce_assigned has = ce_assign_count(groups, model, number);
        if (has.tensors > 0)
            print_group(&groups->group[number], has);
    }
    if (model->trained < model->parameters)
        ce_log(CE_LOG_INFO,
               "%lld elements are trained, and %lld are frozen: they have no gradients, masters or optimizer state",
               (long long)model->trained, (long long)(model->parameters - model->trained));
}
