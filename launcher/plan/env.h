/* env.h - the environment that travels to every node: env files, --env, forwarded prefixes, and where each came from.
 *
 * The rules are in ds_env.example. Later wins: forwarded by prefix; ~/.deepspeed_env, ~/.cspeed_env, ./.deepspeed_env,
 * ./.cspeed_env (or the name in CSPEED_ENV_FILE, DS_ENV_FILE); each --env_file; --env. A host's env.X= beats all. */
#ifndef CS_LAUNCHER_ENV_H
#define CS_LAUNCHER_ENV_H

#include "options.h"

#include <stddef.h>

typedef struct {
    char *name, *value; /* malloc'ed */
    char *origin;       /* "caller (NCCL*)", ".deepspeed_env:3", "--env" */
} cs_env_entry;

typedef struct {
    cs_env_entry *list; /* in order of names */
    int           count;
} cs_env;

/* Reads what the options and the caller's environment say. 0, or CS_CODE_FILE, CS_CODE_NO_FILE with every fault. */
int  cs_env_collect(cs_env *env, const cs_options *options);
int  cs_env_parse(cs_env *env, const char *file, const char *text, size_t length, bool expand); /* adds; later wins */
void cs_env_set(cs_env *env, const char *name, const char *value, const char *origin);
void cs_env_free(cs_env *env);

/* Whether a name is that of a secret (KEY, TOKEN, SECRET, PASSWORD): such a value is never printed. */
bool cs_env_is_secret(const char *name);

/* Stands where a secret's value is not printed. */
#define CS_ENV_MASKED "(secret)"

/* A word of a command line without the values of secrets: HF_TOKEN=x becomes HF_TOKEN=(secret), whatever follows it in
 * that word too, and the word behind --api_key becomes (secret). `*hide` is false before the first word; calls carry it
 * from word to word. The result is the word itself, or stands in `room`. */
const char *cs_env_masked(const char *word, bool *hide, char *room, size_t room_bytes);

#endif
