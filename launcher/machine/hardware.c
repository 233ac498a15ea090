/* hardware.c - the hardware of this machine: CPU and its instruction sets, GPUs, network interfaces. */
#include "machine/facts.h"

#include "base/processors.h"
#include "device/device.h"
#include "device/module.h"
#include "device/products.h"
#include "plan/gpus.h"

#include <arpa/inet.h>
#include <glob.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

void cl_hardware_machine(cl_facts *facts)
{
    struct utsname name;
    char value[CL_FACTS_VALUE];
    uname(&name);
    cl_facts_add(facts, "host", "%s", name.nodename);
    cl_facts_add(facts, "kernel", "%s %s %s", name.sysname, name.release, name.machine);
    FILE *file = fopen("/etc/os-release", "re");
    char line[CL_FACTS_VALUE];
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "PRETTY_NAME=\"%255[^\"]", value) == 1)
            cl_facts_add(facts, "system", "%s", value);
    if (file)
        fclose(file);
    const char *pod = getenv("KUBERNETES_SERVICE_HOST");
    cl_facts_add(facts, "container", "%s",
                 pod                                       ? "a pod of Kubernetes"
                 : access("/.dockerenv", F_OK) == 0        ? "docker"
                 : access("/run/.containerenv", F_OK) == 0 ? "podman"
                                                           : "none seen");
    if (cl_facts_line("/proc/uptime", value))
        cl_facts_add(facts, "up", "%.1f hours", strtod(value, NULL) / 3600);
    if (cl_facts_line("/proc/loadavg", value))
        cl_facts_add(facts, "load", "%s", value);
}

/* Copies those words of `wanted` that occur in `list`, a text of words separated by spaces. */
static void choose_words(const char *list, const char *const *wanted, char chosen[CL_FACTS_VALUE])
{
    chosen[0] = '\0';
    for (; *wanted; wanted++) {
        size_t length = strlen(*wanted), used = strlen(chosen);
        for (const char *at = list; (at = strstr(at, *wanted)); at += length)
            if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) {
                snprintf(chosen + used, CL_FACTS_VALUE - used, "%s%s", used ? " " : "", *wanted);
                break;
            }
    }
}

static void add_flags(cl_facts *facts)
{
    static const char *const wanted[] = { "avx2",     "fma",         "f16c",        "avx512f",
                                          "avx512bw", "avx512_vnni", "avx512_bf16", "avx512_fp16",
                                          "avx_vnni", "amx_tile",    "amx_int8",    "amx_bf16",
                                          "asimd",    "sve",         "bf16",        NULL };
    char chosen[CL_FACTS_VALUE], *line = NULL;
    size_t capacity = 0;
    FILE *file = fopen("/proc/cpuinfo", "re");
    bool found = false;
    while (file && !found && getline(&line, &capacity, file) > 0) {
        found = strncmp(line, "flags", 5) == 0 || strncmp(line, "Features", 8) == 0;
        line[strcspn(line, "\n")] = '\0';
    }
    if (file)
        fclose(file);
    choose_words(found ? line : "", wanted, chosen);
    free(line);
    cl_facts_add(facts, "instructions", "%s", *chosen ? chosen : "nothing wide");
    cl_facts_add(facts, "AVX-512", "%s", strstr(chosen, "avx512f") ? "yes" : "no");
    cl_facts_add(facts, "AMX", "%s", strstr(chosen, "amx_tile") ? "yes" : "no");
}

/* Adds the sets of CPU instructions for which this CPU can run kernels, and the set that is used, under the names that
 * CSPEED_CPU_ISA accepts. */
static void add_isa(cl_facts *facts)
{
    char list[CE_ISA_LIST];
    ce_isa isa;
    const char *wanted = getenv("CSPEED_CPU_ISA");
    ce_isa_list(ce_isa_available(), list);
    cl_facts_add(facts, "kernels for", "%s", *list ? list : "no set of instructions of this CPU");
    if (ce_isa_choose(&isa, ce_isa_available(), wanted) != CS_OK)
        cl_facts_add(facts, "kernels used", "none: %s", cs_error());
    else
        cl_facts_add(facts, "kernels used", "%s, %s", ce_isa_name(isa),
                     wanted && *wanted ? "which CSPEED_CPU_ISA names" : "the highest set; CSPEED_CPU_ISA lowers it");
}

/* Returns the three matrix products of a linear layer (forward and backward), with sizes that are typical of training.
 */
static ce_product_list linear_layer(cs_dtype dtype)
{
    enum { INPUTS = 768, OUTPUTS = 3072, TOKENS = 1024 };
    ce_product_list list = { .count = 3 };
    list.use[0] = (ce_product_use){ { false, false, INPUTS, OUTPUTS }, dtype, dtype, false, true, TOKENS, 1 };
    list.use[1] = (ce_product_use){ { false, true, OUTPUTS, INPUTS }, dtype, dtype, false, false, TOKENS, 1 };
    list.use[2] = (ce_product_use){ { true, false, INPUTS, OUTPUTS }, dtype, CS_F32, true, false, TOKENS, 1 };
    return list;
}

/* Returns a clause about what the matrix library lacks for this data type. Returns "" if the library's own products of
 * this type are fast. */
static const char *weakness(unsigned fast, unsigned any, const double *speed)
{
    const unsigned native = 1u << CE_METHOD_NATIVE;
    bool slow = fast & native && (speed[CE_METHOD_NATIVE] < 0.8 * speed[CE_METHOD_SGEMM] ||
                                  speed[CE_METHOD_NATIVE] < 0.8 * speed[CE_METHOD_PACKED]);
    return slow            ? "; the library's native products are slow here"
           : fast & native ? ""
           : any & native  ? "; the library's native products are reference code here, which is slow"
                           : "; the library has no native products for this CPU";
}

/* Adds the speed of each method, measured as for cspeed.products "auto": the mean over the three matrix products. */
static void add_speeds(cl_facts *facts, cs_device *device, const char *name, cs_dtype dtype)
{
    ce_product_list list = linear_layer(dtype);
    unsigned fast = ce_device_methods(device, dtype, false), any = ce_device_methods(device, dtype, true);
    ce_product_trial trial = { .list = &list, .methods = fast, .seconds = 0.03 };
    double speed[CE_METHODS] = { 0 };
    char text[CL_FACTS_VALUE] = "";
    ce_device_try_products(device, &trial);
    for (int method = CE_METHOD_NATIVE; method < CE_METHODS; method++) {
        if (!(fast & 1u << method))
            continue;
        for (int i = 0; i < list.count; i++)
            speed[method] += trial.speed[i][method] / list.count;
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s %.0f", used ? ", " : "", ce_method_name((ce_method)method),
                 1e-9 * speed[method]);
    }
    cl_facts_add(facts, name, "%s GFLOP/s a thread%s", text, weakness(fast, any, speed));
}

static void add_products(cl_facts *facts)
{
    static const char name[] = "matrix library";
    cs_device *device;
    if (ce_device_open(&device, &(ce_device_settings){ .kind = "cpu", .threads = 1, .local_ranks = 1 }) != CS_OK) {
        cl_facts_add(facts, name, "not measured: %s", cs_error());
        return;
    }
    cl_facts_add(facts, name, "%s", ce_device_products_on(device));
    add_speeds(facts, device, "fp32 products", CS_F32);
    add_speeds(facts, device, "bf16 products", CS_BF16);
    add_speeds(facts, device, "fp16 products", CS_F16);
    ce_device_close(device);
}

void cl_hardware_cpu(cl_facts *facts)
{
    char value[CL_FACTS_VALUE];
    bool known = cl_facts_key("/proc/cpuinfo", "model name", value);
    cl_facts_add(facts, "model", "%s", known ? value : "not known");
    cl_facts_add(facts, "CPUs", "%ld online, %d allowed here", sysconf(_SC_NPROCESSORS_ONLN), ce_processors_allowed());
    if (cl_facts_line("/sys/devices/system/cpu/smt/active", value))
        cl_facts_add(facts, "hardware threads", "%s", *value == '1' ? "several per core" : "one per core");
    bool nodes = cl_facts_line("/sys/devices/system/node/online", value);
    cl_facts_add(facts, "NUMA nodes", "%s", nodes ? value : "not known");
    add_flags(facts);
    add_isa(facts);
    add_products(facts);
}

/* Adds what the CUDA device module reports, or the reason why this module cannot be loaded. */
static void add_module(cl_facts *facts)
{
    const ce_module *module;
    if (ce_module_open(&module) != CS_OK) {
        cl_facts_add(facts, "CUDA module", "%s", cs_error());
        return;
    }
    char *report = module->report(), *rest;
    for (char *name = report ? strtok_r(report, "\t", &rest) : NULL; name; name = strtok_r(NULL, "\t", &rest)) {
        const char *value = strtok_r(NULL, "\n", &rest);
        cl_facts_add(facts, name, "%s", value ? value : "");
    }
    free(report);
}

void cl_hardware_gpus(cl_facts *facts)
{
    char value[CL_FACTS_VALUE], why[128];
    glob_t found;
    int count = cl_gpus_count(why);
    cl_facts_add(facts, "NVIDIA", "%d%s%s", count, *why ? ": " : "", why);
    if (cl_facts_line("/proc/driver/nvidia/version", value))
        cl_facts_add(facts, "driver", "%s", value);
    if (glob("/proc/driver/nvidia/gpus/*/information", 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            if (cl_facts_key(found.gl_pathv[i], "Model", value)) {
                char name[32];
                snprintf(name, sizeof name, "GPU %zu", i);
                cl_facts_add(facts, name, "%s", value);
            }
        globfree(&found);
    }
    add_module(facts);
    cl_facts_add(facts, "/dev/kfd (AMD)", "%s", access("/dev/kfd", F_OK) == 0 ? "there" : "absent");
}

static void add_interface(cl_facts *facts, const struct ifaddrs *one)
{
    char address[INET6_ADDRSTRLEN] = "", path[64 + IFNAMSIZ], speed[CL_FACTS_VALUE];
    bool old = one->ifa_addr->sa_family == AF_INET;
    const void *bytes = old ? (const void *)&((const struct sockaddr_in *)(const void *)one->ifa_addr)->sin_addr
                            : &((const struct sockaddr_in6 *)(const void *)one->ifa_addr)->sin6_addr;
    inet_ntop(one->ifa_addr->sa_family, bytes, address, sizeof address);
    snprintf(path, sizeof path, "/sys/class/net/%s/speed", one->ifa_name);
    bool told = cl_facts_line(path, speed) && atoi(speed) > 0;
    cl_facts_add(facts, one->ifa_name, "%s, %s%s%s%s", address, one->ifa_flags & IFF_RUNNING ? "up" : "down",
                 told ? ", " : "", told ? speed : "", told ? " Mbit/s" : "");
}

void cl_hardware_network(cl_facts *facts)
{
    struct ifaddrs *all = NULL;
    glob_t found;
    if (getifaddrs(&all) == 0)
        for (const struct ifaddrs *one = all; one; one = one->ifa_next)
            if (one->ifa_addr && (one->ifa_addr->sa_family == AF_INET || one->ifa_addr->sa_family == AF_INET6))
                add_interface(facts, one);
    freeifaddrs(all);
    bool fabric = glob("/sys/class/infiniband/*", 0, NULL, &found) == 0;
    char names[CL_FACTS_VALUE] = "";
    for (size_t i = 0; fabric && i < found.gl_pathc; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? " " : "",
                 strrchr(found.gl_pathv[i], '/') + 1);
    if (fabric)
        globfree(&found);
    cl_facts_add(facts, "InfiniBand", "%s", fabric ? names : "absent");
}
