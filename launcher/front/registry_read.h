/* registry_read.h - reading the registry: which jobs of this user run on this machine. */
#ifndef CL_REGISTRY_READ_H
#define CL_REGISTRY_READ_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
    char job[64];
    pid_t pid;                /* of the front   */
    unsigned long long start; /* of that process, as cl_proc_start says */
    int64_t since;            /* seconds of the wall clock */
    int ranks;
    char hosts[256], command[512], run_dir[PATH_MAX];
} cl_registry_job;

/* The folder, made when it is not there. 0, or CL_CODE_SYSTEM when it is not ours alone. */
int cl_registry_read_folder(char path[PATH_MAX]);

/* FOLDER/JOB.json, any byte of the id that a file name should not have as %XX. */
void cl_registry_read_file(const char *folder, const char *job, char path[PATH_MAX]);

bool cl_registry_read_is_running(const cl_registry_job *job);

/* One entry of the folder. False: it is none. */
bool cl_registry_read_entry(const char *path, cl_registry_job *job);

/* All that run, oldest first; malloc'ed. Entries and sockets whose process is gone are removed, and counted in `swept`
 * unless that is NULL. 0 or CL_CODE_SYSTEM. */
int cl_registry_read_list(cl_registry_job **jobs, int *count, int *swept);

/* The running job of this id, or whose id alone begins so. 0, or CL_CODE_NO_FILE, naming what runs. */
int cl_registry_read_find(cl_registry_job *job, const char *id);

/* What its front says of it, as JSON, malloc'ed; NULL and a sentence in cs_error(). */
char *cl_registry_read_ask(const cl_registry_job *job);

#endif
