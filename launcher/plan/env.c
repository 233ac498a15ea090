/* env.c - collects the environment variables that are sent to the ranks of every node, and where each value comes from.
 */
#include "plan/env.h"

#include "ground/codes.h"
#include "base/faults.h"
#include "plan/slurp.h"

#include "base/must.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ORIGIN_BYTES = 128 };

extern char **environ;

/* Returns the index of a name in the sorted list. If the list does not contain the name, returns the index at which the
 * name must be inserted. */
static int place_of(const cl_env *env, const char *name)
{
    int from = 0, to = env->count;
    while (from < to) {
        int middle = (from + to) / 2;
        if (strcmp(env->list[middle].name, name) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static bool is_at(const cl_env *env, int place, const char *name)
{
    return place < env->count && strcmp(env->list[place].name, name) == 0;
}

const char *cl_env_value(const cl_env *env, const char *name)
{
    int at = place_of(env, name);
    return is_at(env, at, name) ? env->list[at].value : NULL;
}

const char *cl_env_find(const char *text, size_t length, const char *name)
{
    size_t bytes = strlen(name);
    for (const char *at = text; at < text + length; at += strlen(at) + 1)
        if (strncmp(at, name, bytes) == 0 && at[bytes] == '=')
            return at + bytes + 1;
    return NULL;
}

static void free_entry(cl_env_entry *entry)
{
    free(entry->name);
    free(entry->value);
    free(entry->origin);
}

void cl_env_set(cl_env *env, const char *name, const char *value, const char *origin)
{
    int at = place_of(env, name);
    cl_env_entry entry = { ce_must_copy(name), ce_must_copy(value), ce_must_copy(origin) };
    if (is_at(env, at, name)) {
        free_entry(&env->list[at]);
    } else {
        env->list = ce_must_resize(env->list, sizeof entry * ((size_t)env->count + 1));
        memmove(&env->list[at + 1], &env->list[at], sizeof entry * (size_t)(env->count++ - at));
    }
    env->list[at] = entry;
}

void cl_env_free(cl_env *env)
{
    for (int i = 0; i < env->count; i++)
        free_entry(&env->list[i]);
    free(env->list);
    *env = (cl_env){ 0 };
}

bool cl_env_is_name(const char *name)
{
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    return *name && !isdigit((unsigned char)*name) && !name[strspn(name, good)];
}

bool cl_env_is_secret(const char *name)
{
    static const char *const words[] = { "KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasestr(name, words[i]))
            return true;
    return false;
}

/* Returns a pointer to the '=' of an assignment to a secret variable in a word; NULL: there is none. The word may be a
 * shell script: "A=1 HF_TOKEN=x python3". */
static const char *find_secret(const char *word)
{
    for (const char *sign = word; (sign = strchr(sign, '=')); sign++) {
        char name[256];
        const char *begin = sign;
        while (begin > word && (isalnum((unsigned char)begin[-1]) || strchr("_-.", begin[-1])))
            begin--;
        snprintf(name, sizeof name, "%.*s", (int)(sign - begin), begin);
        if (cl_env_is_secret(name))
            return sign;
    }
    return NULL;
}

const char *cl_env_masked(const char *word, bool *hide, char *buffer, size_t buffer_bytes)
{
    const char *sign = find_secret(word);
    bool hidden = *hide;
    *hide = word[0] == '-' && !strchr(word, '=') && cl_env_is_secret(word) && !hidden;
    if (hidden)
        return CL_ENV_MASKED;
    if (!sign)
        return word;
    snprintf(buffer, buffer_bytes, "%.*s=%s", (int)(sign - word), word, CL_ENV_MASKED);
    return buffer;
}

/* ---- variables forwarded by prefix ---- */

/* Returns true for a variable that is not sent to other nodes: it belongs to one host or rank, or the launcher sets it.
 */
static bool is_local(const char *name)
{
    static const char *const names[] = {
        "CUDA_VISIBLE_DEVICES", "CSPEED_JOB_ID", "CSPEED_ATTEMPT",   "CSPEED_HOST",      "CSPEED_SLOT",
        "CSPEED_RUN_DIR",       "CSPEED_BOUND",  "CSPEED_TERMINAL",  "CSPEED_AGENT",     "CSPEED_BEAT_FD",
        "CSPEED_KEY_FD",        "CSPEED_JOIN",   "CSPEED_MASTER_FD", "CSPEED_NODE_RANK", "CSPEED_INSECURE_JOIN",
        "CSPEED_HOST_RANKS",    "CSPEED_MESH",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    /* on Azure, the names of network cards differ between nodes, so NCCL_IB_HCA and UCX_NET_DEVICES are not sent to
     * other nodes */
    return getenv("AISC_JOB_NAME") && (strcmp(name, "NCCL_IB_HCA") == 0 || strcmp(name, "UCX_NET_DEVICES") == 0);
}

static const char *prefix_of(const char *name)
{
    static const char *const prefixes[] = { "NCCL",   "UCX",  "MLFLOW", "PYTHON", "MV2",
                                            "CSPEED", "OMP_", "GLOO",   "FI_",    "CUDA_" };
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return prefixes[i];
    return NULL;
}

/* Calls each(env, name, value, argument) for the variables of this process. Entries of the environment without a name
 * are skipped. */
static void each_own(cl_env *env, void (*each)(cl_env *env, const char *name, const char *value, const void *argument),
                     const void *argument)
{
    for (char **entry = environ; *entry; entry++) {
        const char *equals = strchr(*entry, '=');
        CE_FREED char *name = equals && equals > *entry ? ce_must_copy_part(*entry, (size_t)(equals - *entry)) : NULL;
        if (name)
            each(env, name, equals + 1, argument);
    }
}

static void forward(cl_env *env, const char *name, const char *value, const void *argument)
{
    char origin[ORIGIN_BYTES];
    const char *prefix = prefix_of(name);
    (void)argument;
    if (!prefix || is_local(name) || cl_env_is_secret(name))
        return;
    snprintf(origin, sizeof origin, "caller (%s*)", prefix);
    cl_env_set(env, name, value, origin);
}

/* ---- files ---- */

typedef struct {
    cl_env *env;
    bool expand;
    ce_faults faults;
    bool missing; /* true: a file that the user named cannot be read */
    int read;
} collection;

static bool read_file(collection *all, const char *path, bool required)
{
    size_t length;
    char *text = cl_slurp(path, &length);
    if (text) {
        cl_envfile_read(all->env, path, text, length, all->expand, &all->faults);
        all->read++;
    } else if (required || (errno != ENOENT && errno != ENOTDIR)) {
        ce_faults_add(&all->faults, path, 0, 0, "", "the environment file cannot be read: %s", strerror(errno));
        all->missing = true;
    }
    free(text);
    return text != NULL;
}

static bool same_folder(const char *one, const char *other)
{
    char full[2][PATH_MAX];
    return realpath(one, full[0]) && realpath(other, full[1]) && strcmp(full[0], full[1]) == 0;
}

/* Reads the environment files with these names in the home folder, then the files with these names in the current
 * folder. If both are the same folder, each file is read only once. */
static void read_both(collection *all, const char *const *names, int count)
{
    char path[PATH_MAX];
    const char *home = getenv("HOME");
    for (int i = 0; home && *home && !same_folder(home, ".") && i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", home, names[i]);
        read_file(all, path, false);
    }
    for (int i = 0; i < count; i++)
        read_file(all, names[i], false);
}

static void read_default_files(collection *all)
{
    static const char *const usual[] = { ".deepspeed_env", ".cspeed_env" };
    const char *cspeed_file = getenv("CSPEED_ENV_FILE"), *deepspeed_file = getenv("DS_ENV_FILE");
    const char *name = cspeed_file && *cspeed_file ? cspeed_file : deepspeed_file;
    int before = all->read;
    if (!name || !*name) {
        read_both(all, usual, 2);
    } else if (*name == '/') {
        read_file(all, name, true);
    } else {
        read_both(all, &name, 1);
        if (all->read == before && all->faults.count == 0) {
            ce_faults_add(&all->faults, name, 0, 0, "",
                          "%s names this environment file, which is neither in the home folder nor in the current "
                          "folder",
                          cspeed_file && *cspeed_file ? "CSPEED_ENV_FILE" : "DS_ENV_FILE");
            all->missing = true;
        }
    }
}

/* ---- --env ---- */

static void take_matching(cl_env *env, const char *name, const char *value, const void *pattern)
{
    /* A secret variable is sent only if the pattern has the word that makes the variable a secret, as "*TOKEN*" does;
     * "*" sends no secret. */
    bool asked = !cl_env_is_secret(name) || cl_env_is_secret(pattern);
    if (fnmatch(pattern, name, 0) == 0 && !is_local(name) && asked)
        cl_env_set(env, name, value, "--env (pattern)");
}

static void take(collection *all, const char *text)
{
    size_t length = strcspn(text, "=");
    CE_FREED char *name = ce_must_copy_part(text, length);
    if (!text[length] && strpbrk(name, "*?["))
        each_own(all->env, take_matching, name);
    else if (!cl_env_is_name(name))
        ce_faults_add(&all->faults, "--env", 0, 0, "", "\"%s\" is not the name of a variable", name);
    else if (text[length])
        cl_env_set(all->env, name, text + length + 1, "--env");
    else if (getenv(name))
        cl_env_set(all->env, name, getenv(name), "--env (caller)");
    else
        ce_faults_add(&all->faults, "--env", 0, 0, "",
                      "%s without a value copies the variable of this machine, but it is not set here", name);
}

int cl_env_collect(cl_env *env, const cl_options *options)
{
    collection all = { .env = env, .expand = options->env_expand };
    *env = (cl_env){ 0 };
    if (!options->no_env_defaults) {
        each_own(env, forward, NULL);
        read_default_files(&all);
    }
    for (int i = 0; i < options->env_files.count; i++)
        read_file(&all, options->env_files.list[i], true);
    for (int i = 0; i < options->env.count; i++)
        take(&all, options->env.list[i]);
    int code = ce_faults_verdict(&all.faults, all.missing ? CL_CODE_NO_FILE : CL_CODE_FILE);
    if (code)
        cl_env_free(env);
    return code;
}
