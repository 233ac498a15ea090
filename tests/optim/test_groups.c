/* test_groups.c - parameter groups: which parameters and settings each group has, and which settings are refused. */
#include "optim/groups.h"
#include "suite.h"

#include <string.h>

/* Reads the groups of a configuration. groups->group[].params points into *doc, which the caller closes. */
static cs_status read_text(const char *text, ce_groups *groups, ce_json **doc)
{
    ce_optim_settings settings;
    ck_assert_int_eq(ce_json_parse(doc, text, strlen(text), "file"), CS_OK);
    ce_optim_read(*doc, ce_json_find(*doc, "optimizer"), &settings);
    ce_groups_read(*doc, ce_json_find(*doc, "cspeed.param_groups"), &settings, groups);
    return ce_json_verdict(*doc);
}

START_TEST(the_first_that_matches_takes_it)
{
    ce_groups groups;
    ce_json *doc;
    const char *text = "{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 1e-2, \"weight_decay\": 0.5}},"
                       "\"cspeed\": {\"param_groups\": [{\"params\": [\"*.bias\", \"a.?.x\"], \"lr\": 1e-3},"
                       "{\"params\": \"a.*\", \"weight_decay\": 0, \"betas\": [0.5, 0.25], \"_why\": 1}]}}";
    ck_assert_int_eq(read_text(text, &groups, &doc), CS_OK);
    ck_assert_int_eq(groups.count, 3);
    static const struct {
        const char *name;
        int group;
    } names[] = { { "a.1.bias", 0 }, { "a.1.x", 0 }, { "a.12.x", 1 }, { "b.x", 2 }, { "bias", 2 }, { "b.bias", 0 } };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_msg(ce_groups_find(&groups, names[i].name, false, false) == names[i].group, "%s", names[i].name);
    ck_assert(groups.group[0].ratio == 1e-3 / 1e-2 && groups.group[1].ratio == 1 && groups.group[2].ratio == 1);
    ck_assert(groups.group[0].settings.weight_decay == 0.5 && groups.group[1].settings.weight_decay == 0);
    ck_assert(!groups.group[0].decays && groups.group[1].decays && !groups.group[2].decays);
    ck_assert(groups.group[1].settings.betas[1] == 0.25 && groups.group[2].settings.betas[1] == 0.999);
    ce_json_close(doc);
}
END_TEST

/* Muon updates a matrix unless its name says that it is an embedding or the head. */
START_TEST(muon_has_two_sides)
{
    static const struct {
        const char *name;
        bool vector;
        int group;
    } names[] = {
        { "h.0.mlp.weight", false, 2 }, { "h.0.mlp.bias", true, 3 }, { "model.embed_tokens.weight", false, 3 },
        { "LM_HEAD.weight", false, 3 }, { "x.Embedding", false, 3 }, { "transformer.wte.weight", false, 3 },
        { "special.weight", false, 0 }, { "special.bias", true, 1 },
    };
    ce_groups groups;
    ce_json *doc;
    const char *text = "{\"optimizer\": {\"type\": \"Muon\", \"params\": {\"muon_lr\": 0.5, \"adam_lr\": 0.125}},"
                       "\"cspeed\": {\"param_groups\": [{\"params\": \"special*\", \"lr\": 0.25}]}}";
    ck_assert_int_eq(read_text(text, &groups, &doc), CS_OK);
    ck_assert_int_eq(groups.count, 4);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_msg(ce_groups_find(&groups, names[i].name, names[i].vector, false) == names[i].group, "%s",
                      names[i].name);
    ck_assert(groups.group[0].optimizer.kind == CE_OPTIM_MUON && groups.group[0].ratio == 0.5);
    ck_assert(groups.group[1].optimizer.kind == CE_OPTIM_ADAMW && groups.group[1].ratio == 0.5);
    ck_assert(groups.group[2].ratio == 1 && groups.group[3].ratio == 0.25);
    ce_json_close(doc);
}
END_TEST

START_TEST(mistakes_are_named)
{
    static const struct {
        const char *optimizer, *groups, *sentence;
    } bad[] = {
        { "AdamW", "{}", "a list of at most 31 groups is needed" },
        { "AdamW", "[1]", "group 0: an object is needed" },
        { "AdamW", "[{\"lr\": 1}]", "group 0: an object is needed whose \"params\"" },
        { "AdamW", "[{\"params\": []}]", "group 0: an object" },
        { "AdamW", "[{\"params\": [\"a\", 1]}]", "group 0: an object" },
        { "AdamW", "[{\"params\": \"a\", \"weight_decya\": 1}]", "the nearest known one is \"weight_decay\"" },
        { "AdamW", "[{\"params\": \"a\"}, {\"params\": \"b\", \"lr\": -1}]", "param_groups[1].lr: at least 0" },
        { "AdamW", "[{\"params\": \"a\", \"lr\": \"auto\"}]", "cannot be resolved here" },
        { "AdamW", "[{\"params\": \"a\", \"adam_w_mode\": false}]", "a parameter group cannot set this key" },
        { "AdamW", "[{\"params\": \"a\", \"torch_adam\": true}]", "a parameter group cannot set this key" },
        { "AdamW", "[{\"params\": \"a\", \"betas\": [0.9, 1]}]", "both must be below 1" },
        { "SGD", "[{\"params\": \"a\", \"nesterov\": true}]", "Nesterov needs a momentum" },
        { "Muon", "[{\"params\": \"a\", \"ns_method\": \"gram\"}]", "a parameter group cannot set this key" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[256];
        ce_groups groups;
        ce_json *doc;
        snprintf(text, sizeof text, "{\"optimizer\": {\"type\": \"%s\"}, \"cspeed\": {\"param_groups\": %s}}",
                 bad[i].optimizer, bad[i].groups);
        ck_assert_int_eq(read_text(text, &groups, &doc), CS_BAD_CONFIG);
        ck_assert_msg(strstr(cs_error(), bad[i].sentence) != NULL, "%s: %s", text, cs_error());
        ce_json_close(doc);
    }
}
END_TEST

SUITE_MAIN("groups", the_first_that_matches_takes_it, muon_has_two_sides, mistakes_are_named)
