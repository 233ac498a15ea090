/* plan_print.c - prints the plan of a job as text and as JSON. The values of secret variables are never printed. */
#include "plan/hostplan.h"

#include "base/plural.h"
#include "plan/bind.h"
#include "plan/mesh.h"
#include "plan/order.h"
#include "node/program.h"
#include "show/quote.h"
#include "node/ranks.h"

#include "base/must.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 80 };

/* ---- as text ---- */

/* Prints numbers as a list of ranges: "0-3,6". */
static void print_numbers(FILE *out, const int *numbers, int count)
{
    for (int from = 0, to; from < count; from = to + 1) {
        for (to = from; to + 1 < count && numbers[to + 1] == numbers[to] + 1;)
            to++;
        fprintf(out, from ? ",%d" : "%d", numbers[from]);
        if (to > from)
            fprintf(out, "-%d", numbers[to]);
    }
}

/* Prints a word as a shell needs it: in quotes, unless the word has no special characters. */
static void print_word(const char *word)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
    if (*word && strspn(word, plain) == strlen(word)) {
        fputs(word, stdout);
        return;
    }
    bool odd = false;
    for (const char *c = word; *c; c++)
        odd |= (unsigned char)*c < ' ' || (unsigned char)*c == 0x7f;
    fputs(odd ? "$'" : "'", stdout);
    for (const char *c = word; *c; c++)
        if (odd && ((unsigned char)*c < ' ' || (unsigned char)*c == 0x7f))
            printf("\\%03o", (unsigned char)*c);
        else if (*c == '\'')
            fputs(odd ? "\\'" : "'\\''", stdout);
        else if (odd && *c == '\\')
            fputs("\\\\", stdout);
        else
            putchar(*c);
    putchar('\'');
}

static void print_head(const cl_plan *plan)
{
    printf("job       %s (%s)\n", plan->id,
           plan->options->job_id ? cl_options_origin("job_id")
           : plan->no_ssh        ? "the port where the ranks connect"
                                 : "random");
    printf("hosts     %s\n", plan->hosts.origin);
    printf("ranks     %d on %d node%s", plan->rank_count, plan->node_count, ce_plural(plan->node_count));
    if (plan->min_nodes < plan->max_nodes)
        printf(", elastic: %d to %d nodes", plan->min_nodes, plan->max_nodes);
    printf("\nmaster    %s (%s), port ", *plan->master_addr ? plan->master_addr : "?", plan->master_addr_origin);
    if (plan->master_port)
        printf("%d ", plan->master_port);
    printf("(%s)\n", plan->master_port_origin);
    if (plan->no_ssh && plan->node_rank >= 0)
        printf("this is   node %d (%s)\n", plan->node_rank, plan->node_rank_origin);
    else if (plan->no_ssh)
        printf("this is   a node whose rank is %s\n", plan->node_rank_origin);
}

static int widest(const cl_plan *plan, const char *(*text)(const cl_host *host), int min)
{
    for (int i = 0; i < plan->node_count; i++) {
        int width = (int)strlen(text(plan->nodes[i].host));
        min = width > min ? width : min;
    }
    return min;
}

static const char *name_of(const cl_host *host)
{
    return host->name;
}

static void print_nodes(const cl_plan *plan)
{
    int names = widest(plan, name_of, 4), addresses = widest(plan, cl_hosts_address, 7);
    printf("\n  node  %-*s  %-*s  %-10s  slots\n", names, "host", addresses, "address", "ranks");
    for (int i = 0; i < plan->node_count; i++) {
        const cl_plan_node *node = &plan->nodes[i];
        char ranks[32];
        int last = node->first_rank + node->host->slot_count - 1;
        snprintf(ranks, sizeof ranks, last > node->first_rank ? "%d-%d" : "%d", node->first_rank, last);
        printf("  %-4d  %-*s  %-*s  %-10s  ", i, names, node->host->name, addresses, cl_hosts_address(node->host),
               ranks);
        print_numbers(stdout, node->host->slots, node->host->slot_count);
        printf("%s\n", node->here ? "  (this machine)" : "");
    }
}

static void print_ranks(const cl_order *order, const cl_binding *binding)
{
    cl_variable list[CL_RANKS_VARIABLES];
    for (int local = 0; local < order->rank_count; local++) {
        int count = cl_ranks_variables(order, binding, local, list);
        int column = 0;
        printf("\nrank %d\n ", order->first_rank + local);
        for (int i = 0; i < count; i++) {
            bool later = strcmp(list[i].name, "MASTER_PORT") == 0 && order->master_port == 0;
            later |= strcmp(list[i].name, "MASTER_ADDR") == 0 && !*order->master_addr;
            const char *value = later ? "?" : list[i].value;
            int width = (int)(strlen(list[i].name) + strlen(value)) + 2;
            if (column + width > COLUMNS - 1 && column > 0) {
                printf("\n ");
                column = 0;
            }
            column += width;
            printf(" %s=%s", list[i].name, value);
        }
        printf("\n");
    }
}

/* Prints the core binding of this machine. Other nodes determine their core binding after they receive their order. */
static void print_binding(const cl_plan *plan)
{
    for (int i = 0; i < plan->node_count; i++) {
        cl_order order;
        cl_binding binding;
        if (!plan->nodes[i].here)
            continue;
        ce_mesh mesh = cl_mesh_find(plan);
        cl_order_plan(&order, plan, &mesh, i);
        snprintf(order.master_addr, sizeof order.master_addr, "%s", plan->master_addr);
        if (cl_bind_assign(&binding, &order)) {
            printf("\nbinding   cannot be done: %s\n", cs_error());
            ce_clear_error();
            continue;
        }
        printf("\nbinding   %s%s\n", binding.text, plan->node_count > 1 ? "; each other node uses its own cores" : "");
        print_ranks(&order, &binding);
        cl_bind_free(&binding);
        return;
    }
    printf("\nbinding   each node binds its ranks to its own cores\n");
}

static void print_variable(const char *name, const char *value)
{
    printf("  %s=", name);
    if (cl_env_is_secret(name))
        fputs(CL_ENV_MASKED, stdout);
    else
        print_word(value);
}

static void print_environment(const cl_plan *plan)
{
    printf("\nenvironment for every rank%s\n",
           plan->env.count ? "" : ": no variables in addition to those of its node");
    for (int i = 0; i < plan->env.count; i++) {
        const cl_env_entry *entry = &plan->env.list[i];
        print_variable(entry->name, entry->value);
        printf("    # %s\n", entry->origin);
    }
    for (int node = 0; node < plan->node_count; node++)
        for (char **each = plan->nodes[node].host->env; each && *each; each++) {
            CE_FREED char *name = ce_must_copy_part(*each, strcspn(*each, "="));
            print_variable(name, *each + strlen(name) + 1);
            printf("    # %s alone (%s)\n", plan->nodes[node].host->name, plan->hosts.origin);
        }
}

static void print_flag(const char *name, const char *value, const char *origin, void *argument)
{
    char masked[512];
    bool hide = false;
    (void)argument;
    printf("  %s%s", name, value ? " " : "");
    if (value)
        print_word(cl_env_masked(value, &hide, masked, sizeof masked));
    printf("    # %s\n", origin);
}

void cl_plan_print(const cl_plan *plan)
{
    char path[PATH_MAX];
    print_head(plan);
    print_nodes(plan);
    cl_mesh_print(plan);
    print_binding(plan);
    print_environment(plan);
    printf("\nflags that were given\n");
    cl_options_given(print_flag, NULL);
    printf("\nworkdir   %s\n", plan->workdir);
    if (!plan->arguments[0])
        return;
    if (cl_program_find(plan->arguments[0], path) == 0)
        printf("program   %s\n", path);
    else
        printf("program   not found on this machine: %s\n", cs_error());
    ce_clear_error();
    printf("command  ");
    bool hide = false;
    for (char **argument = plan->arguments; *argument; argument++) {
        char masked[512];
        putchar(' ');
        print_word(cl_env_masked(*argument, &hide, masked, sizeof masked));
    }
    if (plan->options->local_rank_flag)
        printf(" %s=$LOCAL_RANK", plan->options->local_rank_flag);
    putchar('\n');
}

/* ---- as JSON ---- */

static void print_member(const char *before, const char *name, const char *value)
{
    fputs(before, stdout);
    cl_quote(stdout, name);
    fputs(": ", stdout);
    cl_quote(stdout, value);
}

static void print_node_json(const cl_plan_node *node, int index)
{
    print_member(index ? ",\n    {" : "\n    {", "host", node->host->name);
    print_member(", ", "addr", cl_hosts_address(node->host));
    printf(", \"node_rank\": %d, \"slots\": [", index);
    for (int i = 0; i < node->host->slot_count; i++)
        printf("%s%d", i ? ", " : "", node->host->slots[i]);
    printf("], \"ranks\": [");
    for (int i = 0; i < node->host->slot_count; i++)
        printf("%s%d", i ? ", " : "", node->first_rank + i);
    printf("]}");
}

void cl_plan_print_json(const cl_plan *plan, const char *memory)
{
    printf("{\n  \"nodes\": [");
    for (int i = 0; i < plan->node_count; i++)
        print_node_json(&plan->nodes[i], i);
    printf("\n  ],\n  \"world_size\": %d,", plan->rank_count);
    print_member("\n  ", "master_addr", plan->master_addr);
    printf(",\n  \"master_port\": %d,\n  \"command\": [", plan->master_port);
    bool hide = false;
    for (char **argument = plan->arguments; *argument; argument++) {
        char masked[512];
        fputs(argument > plan->arguments ? ", " : "", stdout);
        cl_quote(stdout, cl_env_masked(*argument, &hide, masked, sizeof masked));
    }
    if (plan->options->local_rank_flag && *plan->arguments)
        printf(", \"%s=$LOCAL_RANK\"", plan->options->local_rank_flag);
    printf("],\n  \"env\": {");
    for (int i = 0; i < plan->env.count; i++) {
        const cl_env_entry *entry = &plan->env.list[i];
        print_member(i ? ",\n    " : "\n    ", entry->name,
                     cl_env_is_secret(entry->name) ? CL_ENV_MASKED : entry->value);
    }
    printf("%s}%s%s\n}\n", plan->env.count ? "\n  " : "", memory ? ",\n  \"memory\": " : "", memory ? memory : "");
}
