/* fuzz_hosts.c - reads any bytes as a hostfile, a list of hosts and filters: nothing crashes, and an accepted result is
 * consistent. The first line has the filters, include and exclude, separated by a tab; the rest is the hostfile. */
#include "plan/allocation.h"
#include "plan/hosts.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const cl_hosts *hosts)
{
    for (int i = 0; i < hosts->count; i++) {
        const cl_host *host = &hosts->list[i];
        if (host->slot_count < 1 || !*host->name || *host->name == '-')
            abort();
        for (int slot = 1; slot < host->slot_count; slot++)
            if (host->slots[slot] <= host->slots[slot - 1])
                abort();
    }
    if (hosts->count < 1)
        abort();
}

static void ignore(const char *name, void *argument)
{
    (void)argument;
    if (!*name)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char two[] = "w0 slots=4\nw-1 gpus=0-1,6\n[::1] slots=1\n";
    const char *text = (const char *)data, *newline = memchr(text, '\n', size);
    size_t first = newline ? (size_t)(newline - text) : size;
    char *include = strndup(text, first), *exclude = include ? strchr(include, '\t') : NULL;
    cl_hosts hosts;
    if (!include)
        return 0;
    if (exclude)
        *exclude++ = '\0';
    if (cl_hosts_parse(&hosts, "two", two, sizeof two - 1) != 0)
        abort();
    if (cl_select_hosts(&hosts, *include ? include : NULL, exclude) == 0)
        check(&hosts);
    cl_hosts_free(&hosts);
    if (cl_hosts_parse_list(&hosts, include) == 0)
        check(&hosts);
    cl_hosts_free(&hosts);
    cl_allocation_expand(include, ignore, NULL);
    if (newline && cl_hosts_parse(&hosts, "fuzz", newline + 1, size - first - 1) == 0) {
        check(&hosts);
        if (cl_select_hosts(&hosts, *include ? include : NULL, exclude) == 0)
            check(&hosts);
        cl_hosts_free(&hosts);
    }
    free(include);
    return 0;
}
