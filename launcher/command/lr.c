/* lr.c - `cspeed lr`: the learning rate, and the momentum if it changes, over the steps, as a table and as a diagram.
 */
#include "ground/codes.h"
#include "ground/command.h"
#include "config/config.h"
#include "config/resolve.h"
#include "cspeed/plot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 1000000000, MAX_POINTS = 1200 };

typedef struct {
    const char *file, *plot;
    cs_option_list sets;
    int64_t steps, every;
} request;

static int check(const request *r)
{
    if (!r->file)
        return cl_codes_fail(CL_CODE_USAGE, "lr: name a configuration");
    if (r->plot && cs_plot_form_of(r->plot) == CS_PLOT_NO_FORM)
        return cl_codes_fail(CL_CODE_USAGE, "lr: --plot %s: give the file a name that ends in .svg, .html or .png",
                             r->plot);
    return 0;
}

static int read_arguments(request *r, char **at)
{
    static const cs_option table[] = {
        { CL_COMMAND_OPTION(WHOLE, "steps", steps, "N"), .min = 1, .max = MAX_STEPS },
        { CL_COMMAND_OPTION(WHOLE, "every", every, "N"), .min = 1, .max = MAX_STEPS },
        { CL_COMMAND_OPTION(RAW, "plot", plot, "FILE") },
        { CL_COMMAND_OPTION(LIST, "set", sets, "KEY.PATH=VALUE") },
    };
    static const cs_options_form form = { CL_COMMAND_FORM("lr", 0, 1, NULL), CS_OPTIONS_TABLE(table) };
    r->every = 1;
    int code = cs_options_read(&form, r, &at);
    r->file = *at;
    return code ? code : check(r);
}

/* Reads only the keys on which the schedule depends. The command therefore also works for a configuration whose batch
 * size does not match this process's world size. */
static cs_status read_schedule(cs_config *config, request *r)
{
    json_t *total = ce_json_find(config->doc, "cspeed.steps");
    if (r->steps == 0)
        r->steps = json_is_integer(total) ? json_integer_value(total) : 0;
    if (r->steps <= 0)
        return ce_fail(CS_BAD_CONFIG, "lr: --steps N is needed, because %s has no cspeed.steps", r->file);
    ce_templates_check(config);
    CE_TRY(ce_json_verdict(config->doc));
    ce_auto_resolve(config);
    config->settings.steps = r->steps;
    ce_steps_read_rates(config);
    return ce_json_verdict(config->doc);
}

static void print_table(const request *r, const ce_schedule_settings *schedule)
{
    double beta1, beta2;
    bool cycled = ce_schedule_momentum(schedule, 1, &beta1, &beta2);
    printf("%12s  %-*s%s\n", "step", cycled ? 16 : 0, "lr", cycled ? "  beta1" : "");
    for (int64_t step = 1; step <= r->steps; step += r->every) {
        printf("%12lld  %-*.9g", (long long)step, cycled ? 16 : 0, ce_schedule_rate(schedule, step - 1));
        if (cycled && ce_schedule_momentum(schedule, step - 1, &beta1, &beta2))
            printf("  %.9g", beta1);
        putchar('\n');
    }
}

static int draw(const request *r, const ce_schedule_settings *schedule)
{
    cs_plot_point points[MAX_POINTS];
    cs_plot_curve curve = { .name = "lr", .points = points };
    int64_t stride = (r->steps - 1) / MAX_POINTS + 1;
    for (int64_t step = 1; step <= r->steps; step += stride)
        points[curve.count++] = (cs_plot_point){ (double)step, ce_schedule_rate(schedule, step - 1) };
    cs_plot plot = { .title = "learning rate", .curves = &curve, .count = 1, .full = true };
    return cs_plot_write(r->plot, cs_plot_form_of(r->plot), r->file, &plot, 1) == CS_OK ? 0 : CL_CODE_LOG;
}

static int show(const request *r, const ce_schedule_settings *schedule)
{
    print_table(r, schedule);
    return r->plot ? draw(r, schedule) : 0;
}

static int run(const cl_options *options, char **arguments)
{
    request r = { 0 };
    cs_config *config = NULL;
    int code = read_arguments(&r, arguments);
    (void)options;
    if (code)
        return code;
    cs_status status = cs_config_open(&config, r.file);
    for (int i = 0; status == CS_OK && i < r.sets.count; i++)
        status = cs_config_set(config, r.sets.list[i]);
    if (status == CS_OK)
        status = read_schedule(config, &r);
    code = status == CS_OK ? show(&r, &config->settings.schedule) : cs_exit_code(status);
    cs_config_close(config);
    return code;
}

const cl_command cl_command_lr = {
    .name = "lr",
    .group = "Look",
    .summary = "show the learning rate of a configuration at each step",
    .usage = "cspeed lr FILE [--steps N] [--every K] [--plot FILE]\n"
             "                 [--set KEY.PATH=VALUE]",
    .text =
        "Prints the learning rate of each optimizer step, and beta1 if a OneCycle schedule changes it.\n"
        "--every K prints only each K-th step, --plot draws the curve into FILE.svg, FILE.html or FILE.png, and --set overrides\n"
        "a key of the configuration. --steps N replaces cspeed.steps of the file, as it does for train; a schedule\n"
        "whose total_num_steps is \"auto\" ends there.\n",
    .example = "cspeed lr ds_config.json --steps 1000 --every 50 --plot rate.svg",
    .run = run,
};
