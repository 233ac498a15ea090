/* facts.h - what can be learnt of this build and this machine from libc, /proc and /sys. */
#ifndef CS_LAUNCHER_FACTS_H
#define CS_LAUNCHER_FACTS_H

#include <stdbool.h>

enum { CS_FACTS_VALUE = 512 };

typedef struct {
    char name[64], value[CS_FACTS_VALUE];
} cs_fact;

typedef struct {
    cs_fact *list;
    int      count;
} cs_facts;

/* A name that is there already gets the value behind its own. */
void cs_facts_add(cs_facts *facts, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
void cs_facts_free(cs_facts *facts);

/* The first line of a file; false: there is none. */
bool cs_facts_line(const char *path, char line[CS_FACTS_VALUE]);

/* What stands behind "KEY :" or "KEY:" in a file of such lines, the first of them. */
bool cs_facts_key(const char *path, const char *key, char value[CS_FACTS_VALUE]);

/* Each adds what it finds; what is not there is said to be absent. */
void cs_installed_list(cs_facts *facts);   /* installed.c: version, compiler, libraries, programs */
void cs_hardware_machine(cs_facts *facts); /* hardware.c */
void cs_hardware_cpu(cs_facts *facts);
void cs_hardware_gpus(cs_facts *facts);
void cs_hardware_network(cs_facts *facts);
void cs_limits_list(cs_facts *facts); /* limits.c: memory, /dev/shm, control group, rlimits */

#endif
