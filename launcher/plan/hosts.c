/* hosts.c - reads hosts from a hostfile or a list, and recognises this machine. */
#include "plan/hosts.h"

#include "ground/codes.h"
#include "base/faults.h"
#include "plan/slurp.h"
#include "plan/hostline.h"

#include "base/must.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { MAX_HOSTS = 65536, NAME_BYTES = 256 };

static void add(cl_hosts *hosts, const cl_hostline_place *place, const cl_host *host)
{
    for (int i = 0; i < hosts->count; i++)
        if (cl_hostline_same(hosts->list[i].name, host->name)) {
            ce_faults_add(place->faults, place->file, place->line, 1, "", "%s is listed twice", host->name);
            cl_host twin = *host;
            cl_hostline_free(&twin);
            return;
        }
    hosts->list = ce_must_resize(hosts->list, sizeof *host * ((size_t)hosts->count + 1));
    hosts->list[hosts->count++] = *host;
}

/* Returns the length of a line without its comment and without its line end. */
static size_t bare_length(const char *line, size_t length)
{
    const char *comment = memchr(line, '#', length);
    if (comment)
        length = (size_t)(comment - line);
    while (length && strchr(" \t\r", line[length - 1]))
        length--;
    return length;
}

static void read_line(cl_hosts *hosts, cl_hostline_place *place, size_t length)
{
    cl_host host;
    if (memchr(place->start, '\0', length))
        ce_faults_add(place->faults, place->file, place->line, 1, "", "there is a NUL byte in this line");
    else if ((length = bare_length(place->start, length)) > 0 && strspn(place->start, " \t") < length &&
             cl_hostline_read(&host, place, place->start, length))
        add(hosts, place, &host);
}

int cl_hosts_parse(cl_hosts *hosts, const char *name, const char *text, size_t length)
{
    ce_faults faults = { .count = 0 };
    cl_hostline_place place = { .file = name, .faults = &faults };
    const char *end = text + length;
    *hosts = (cl_hosts){ .origin = ce_must_copy(name) };
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3; /* skips a byte order mark of UTF-8 */
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        place.line++;
        place.start = text;
        read_line(hosts, &place, (size_t)((newline ? newline : end) - text));
        text = newline ? newline + 1 : end;
    }
    if (hosts->count == 0 && faults.count == 0)
        ce_faults_add(&faults, name, 0, 0, "", "names no host; a line is NAME slots=N");
    int code = ce_faults_verdict(&faults, CL_CODE_FILE);
    if (code)
        cl_hosts_free(hosts);
    return code;
}

int cl_hosts_read(cl_hosts *hosts, const char *path)
{
    size_t length;
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    CE_FREED char *text = cl_slurp(path, &length);
    *hosts = (cl_hosts){ 0 };
    if (!text && (errno == ENOENT || errno == ENOTDIR))
        return cl_codes_fail(CL_CODE_NO_FILE, "%s: the hostfile does not exist", path);
    if (!text)
        return cl_codes_fail(CL_CODE_NO_FILE, "%s: the hostfile cannot be read: %s", name, strerror(errno));
    return cl_hosts_parse(hosts, name, text, length);
}

int cl_hosts_parse_list(cl_hosts *hosts, const char *list)
{
    ce_faults faults = { .count = 0 };
    cl_hostline_place place = { .file = "--hosts", .line = 1, .start = list, .faults = &faults };
    *hosts = (cl_hosts){ .origin = ce_must_copy("--hosts") };
    for (const char *item = list;; item++) {
        cl_host host;
        size_t length = strcspn(item, ",");
        if (cl_hostline_read_item(&host, &place, item, length))
            add(hosts, &place, &host);
        item += length;
        if (!*item)
            break;
    }
    int code = ce_faults_verdict(&faults, CL_CODE_FILE);
    if (code)
        cl_hosts_free(hosts);
    return code;
}

int cl_hosts_local(cl_hosts *hosts, int slot_count)
{
    cl_host here = { .name = ce_must_copy("localhost"),
                     .slot_count = slot_count,
                     .slots = ce_must_alloc((size_t)slot_count * sizeof *here.slots) };
    *hosts = (cl_hosts){ .list = ce_must_alloc(sizeof here), .count = 1, .origin = ce_must_copy("this machine") };
    for (int i = 0; i < slot_count; i++)
        here.slots[i] = i;
    hosts->list[0] = here;
    return 0;
}

/* ---- this machine ---- */

/* Returns true if `name` is this machine's host name. A domain that only one of the two names has is ignored:
 * "worker-1" equals "worker-1.cluster.local". Names with different domains mean different hosts. */
static bool is_own_name(const char *name)
{
    char host_name[NAME_BYTES] = "";
    gethostname(host_name, sizeof host_name - 1);
    size_t length = strcspn(host_name, "."), wanted = strcspn(name, ".");
    if (length != wanted || length == 0 || strncasecmp(host_name, name, length) != 0)
        return false;
    return !host_name[length] || !name[wanted] || cl_hostline_same(host_name, name);
}

/* 127.0.0.1 is this machine. 127.0.0.2 counts as another machine, even if an interface of this machine has that
 * address. */
static bool is_own_address(const char *name)
{
    struct ifaddrs *all;
    char text[INET6_ADDRSTRLEN];
    bool found = cl_hostline_same(name, "127.0.0.1") || cl_hostline_same(name, "::1");
    if (found || strncmp(name, "127.", 4) == 0 || (!strchr(name, ':') && strspn(name, "0123456789.") < strlen(name)) ||
        getifaddrs(&all) < 0)
        return found;
    for (const struct ifaddrs *each = all; each && !found; each = each->ifa_next) {
        int family = each->ifa_addr ? each->ifa_addr->sa_family : AF_UNSPEC;
        if (family == AF_INET)
            inet_ntop(family, &((const struct sockaddr_in *)(const void *)each->ifa_addr)->sin_addr, text, sizeof text);
        else if (family == AF_INET6)
            inet_ntop(family, &((const struct sockaddr_in6 *)(const void *)each->ifa_addr)->sin6_addr, text,
                      sizeof text);
        else
            continue;
        found = cl_hostline_same(name, text);
    }
    freeifaddrs(all);
    return found;
}

bool cl_hosts_is_here(const cl_host *host)
{
    static const char *const loopback_names[] = { "localhost", "localhost.localdomain", "ip6-localhost",
                                                  "ip6-loopback" };
    const char *name = cl_hosts_address(host);
    for (size_t i = 0; i < sizeof loopback_names / sizeof *loopback_names; i++)
        if (cl_hostline_same(name, loopback_names[i]))
            return true;
    return is_own_name(name) || is_own_address(name);
}

const char *cl_hosts_address(const cl_host *host)
{
    return host->address ? host->address : host->name;
}

void cl_hosts_free(cl_hosts *hosts)
{
    for (int i = 0; i < hosts->count; i++)
        cl_hostline_free(&hosts->list[i]);
    free(hosts->list);
    free(hosts->origin);
    *hosts = (cl_hosts){ 0 };
}
