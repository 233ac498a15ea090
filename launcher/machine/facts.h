/* facts.h - a list of facts about this build and this machine, collected from libc, /proc and /sys. */
#ifndef CL_FACTS_H
#define CL_FACTS_H

#include <stdbool.h>

enum { CL_FACTS_VALUE = 512 };

typedef struct {
    char name[64], value[CL_FACTS_VALUE];
} cl_fact;

typedef struct {
    cl_fact *list;
    int count;
} cl_facts;

/* Adds a fact. If a fact of this name exists already, the new value is appended to the old value. */
void cl_facts_add(cl_facts *facts, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
void cl_facts_free(cl_facts *facts);

/* Reads the first line of a file. Returns false if there is no such line. */
bool cl_facts_line(const char *path, char line[CL_FACTS_VALUE]);

/* Finds the first line "KEY : value" or "KEY: value" of a file and copies its value. Returns false if the file has no
 * such line. */
bool cl_facts_key(const char *path, const char *key, char value[CL_FACTS_VALUE]);

/* Each of these functions adds the facts that it finds; a missing item is added as absent. */
void cl_installed_list(cl_facts *facts);   /* installed.c: version, compiler, libraries, programs */
void cl_hardware_machine(cl_facts *facts); /* hardware.c: host, kernel, system, container, load */
void cl_hardware_cpu(cl_facts *facts);
void cl_hardware_gpus(cl_facts *facts);
void cl_hardware_network(cl_facts *facts);
void cl_limits_list(cl_facts *facts); /* limits.c: memory, /dev/shm, control group, rlimits */

#endif
