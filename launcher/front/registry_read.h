/* registry_read.h - reading the registry: which jobs of this user run on this machine. */
#ifndef CS_LAUNCHER_ROSTER_H
#define CS_LAUNCHER_ROSTER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
    char               job[64];
    pid_t              pid;   /* of the front   */
    unsigned long long start; /* of that process, as cs_proc_start says */
    int64_t            since; /* seconds of the wall clock */
    int                ranks;
    char               hosts[256], command[512], run_dir[PATH_MAX];
} cs_roster_job;

/* The folder, made when it is not there. 0, or CS_CODE_SYSTEM when it is not ours alone. */
int cs_roster_folder(char path[PATH_MAX]);

/* FOLDER/JOB.json, any byte of the id that a file name should not have as %XX. */
void cs_roster_file(const char *folder, const char *job, char path[PATH_MAX]);

bool cs_roster_runs(const cs_roster_job *job);

/* One entry of the folder. False: it is none. */
bool cs_roster_read(const char *path, cs_roster_job *job);

/* All that run, oldest first; malloc'ed. Entries and sockets whose process is gone are removed, and counted in `swept`
 * unless that is NULL. 0 or CS_CODE_SYSTEM. */
int cs_roster_list(cs_roster_job **jobs, int *count, int *swept);

/* The running job of this id, or whose id alone begins so. 0, or CS_CODE_NO_FILE, naming what runs. */
int cs_roster_find(cs_roster_job *job, const char *id);

/* What its front says of it, as JSON, malloc'ed; NULL and a sentence in cs_error(). */
char *cs_roster_ask(const cs_roster_job *job);

#endif
