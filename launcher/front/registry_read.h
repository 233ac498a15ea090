/* registry_read.h - reads the registry of running jobs: lists the jobs, finds a job by its id, asks a job for its
 * state. */
#ifndef CL_REGISTRY_READ_H
#define CL_REGISTRY_READ_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

typedef struct {
    char job[64];
    pid_t pid;                /* process id of the front process */
    unsigned long long start; /* start time of the front process, as cl_proc_start returns it */
    int64_t since;            /* start time of the job, in seconds of the wall clock */
    int ranks;
    char hosts[256], command[512], run_dir[PATH_MAX];
} cl_registry_job;

/* Writes the path of the registry's folder to `path` and creates the folder if it does not exist. Returns 0, or
 * CL_CODE_SYSTEM if the folder is not private to this user. */
int cl_registry_read_folder(char path[PATH_MAX]);

/* Writes FOLDER/JOB.json to `path`. Bytes of the id that are unsafe in a file name are written as %XX. */
void cl_registry_read_file(const char *folder, const char *job, char path[PATH_MAX]);

/* Returns true if the front process of the job still exists. The start time distinguishes this process from a later
 * process with the same process id. */
bool cl_registry_read_is_running(const cl_registry_job *job);

/* Reads one entry (JOB.json) of the registry. Returns false if the file is not an entry. */
bool cl_registry_read_entry(const char *path, cl_registry_job *job);

/* Returns all running jobs, oldest first, in a malloc'ed array. Entries and sockets of processes that no longer exist
 * are removed; if `swept` is not NULL, *swept receives the number of removed files. Returns 0 or CL_CODE_SYSTEM. */
int cl_registry_read_list(cl_registry_job **jobs, int *count, int *swept);

/* Finds the running job whose id is `id`, or the only running job whose id begins with `id`. Returns 0, or
 * CL_CODE_NO_FILE with a sentence that lists the running jobs. */
int cl_registry_read_find(cl_registry_job *job, const char *id);

/* Finds the running job whose log folder is `folder`. Returns false if there is none. */
bool cl_registry_read_find_folder(cl_registry_job *job, const char *folder);

/* Opens a socket with these flags and calls use(), which is bind or connect, with the address of the job whose front process
 * is `pid`. The path of a socket has at most 107 bytes, so the path begins with /proc/self/fd/N, where N is a descriptor of
 * the folder. Returns the socket, or -1. */
int cl_registry_read_socket(const char *folder, pid_t pid, int flags,
                            int (*use)(int fd, const struct sockaddr *address, socklen_t bytes));

/* Asks the front process of a job for its state and returns the answer as malloc'ed JSON text. Returns NULL, with a
 * sentence in cs_error(), if the front process does not answer. */
char *cl_registry_read_ask(const cl_registry_job *job);

#endif
