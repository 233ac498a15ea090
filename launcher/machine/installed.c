/* installed.c - the software of this build: version, compiler, libraries, and cspeed's own programs.
 *
 * The version of each library is read by a function that is looked up by its name at run time, so this file needs no
 * header of these libraries. Each of these headers may be included in only one place of the project. */
#include "machine/facts.h"
#include "ground/command.h"
#include "ground/programs.h"

#include "base/status.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Finds a function of `library`, or of the loaded libraries if `library` is NULL. POSIX allows the pointer that dlsym
 * returns to be copied to a function pointer. */
typedef void (*any_function)(void);

static any_function find(const char *library, const char *name)
{
    void *handle = library ? dlopen(library, RTLD_LAZY | RTLD_LOCAL) : dlopen(NULL, RTLD_LAZY);
    void *symbol = handle ? dlsym(handle, name) : NULL;
    any_function function;
    memcpy(&function, &symbol, sizeof function);
    return function;
}

static void add_text(cl_facts *facts, const char *label, const char *name, int argument)
{
    any_function found = find(NULL, name);
    if (found)
        cl_facts_add(facts, label, "%s", ((const char *(*)(int))found)(argument));
    else
        cl_facts_add(facts, label, "not loaded");
}

static void add_hwloc(cl_facts *facts)
{
    any_function found = find(NULL, "hwloc_get_api_version");
    unsigned version = found ? ((unsigned (*)(void))found)() : 0;
    if (found)
        cl_facts_add(facts, "hwloc", "%u.%u.%u", version >> 16, version >> 8 & 0xff, version & 0xff);
    else
        cl_facts_add(facts, "hwloc", "not loaded");
}

/* Adds the version of oneDNN. The launcher does not use oneDNN, but cspeed's programs do. */
static void add_onednn(cl_facts *facts)
{
    static const char *const names[] = { "libdnnl.so", "libdnnl.so.3", "libdnnl.so.2" };
    any_function found = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++)
        found = find(names[i], "dnnl_version");
    const struct {
        int major, minor, patch;
    } *version = found ? ((const void *(*)(void))found)() : NULL;
    if (version)
        cl_facts_add(facts, "oneDNN", "%d.%d.%d", version->major, version->minor, version->patch);
    else
        cl_facts_add(facts, "oneDNN", "not found");
}

static void add_programs(cl_facts *facts)
{
    static const char *const names[] = { "train", "pack", "generate", "eval", "bench" };
    char self_path[PATH_MAX], folder[PATH_MAX] = "", path[PATH_MAX + 32], found[CL_FACTS_VALUE] = "";
    cl_programs_self(self_path);
    bool known = cl_programs_folder(folder);
    cl_facts_add(facts, "binary", "%s", self_path);
    for (size_t i = 0; known && i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        size_t used = strlen(found);
        if (access(path, R_OK) == 0)
            snprintf(found + used, sizeof found - used, "%s%s", used ? " " : "", names[i]);
    }
    cl_facts_add(facts, "programs", "%s%s%s", *found ? found : "none", known ? " in " : "", folder);
}

void cl_installed_list(cl_facts *facts)
{
    cl_facts_add(facts, "cspeed", "%s", CS_VERSION);
    cl_facts_add(facts, "commit", "%s", *cl_commit ? cl_commit : "unknown");
    cl_facts_add(facts, "compiler", "%s", __VERSION__);
    add_programs(facts);
    add_text(facts, "libssh", "ssh_version", 0);
    add_text(facts, "jansson", "jansson_version_str", 0);
    add_text(facts, "libcrypto", "OpenSSL_version", 0);
    add_hwloc(facts);
    add_onednn(facts);
    cl_facts_add(facts, "libc", "%s", ((const char *(*)(void))find(NULL, "gnu_get_libc_version"))());
}
