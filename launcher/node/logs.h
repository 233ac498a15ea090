/* logs.h - a file for each rank and output: every byte as it came, before it is shown anywhere. */
#ifndef CL_LOGS_H
#define CL_LOGS_H

#include "plan/order.h"

/* One file; when it would grow past the limit it becomes NAME.1 (NAME.1 becomes NAME.2, the oldest of three goes). */
typedef struct {
    int fd; /* -1: none */
    long long bytes, max;
    char path[PATH_MAX];
} cl_log_file;

/* mkdir -p for a job's files. They follow umask, but neither the group nor others may write to them: what ranks print
 * is evidence. A part of the path may be a link to a folder. 0 or CL_CODE_LOG with a sentence. */
int cl_logs_folder(const char *path);

/* A file of a job in such a folder, made when it is not there; `flags` are O_APPEND or O_TRUNC. Only a regular file is
 * opened, never what a link points to: who may write to the folder could have any file of the user's overwritten.
 * Returns the descriptor, or -1 with errno and a sentence in cs_error(). */
int cl_logs_create(const char *path, int flags);

/* LOG_DIR/attempt_N/RANK.out (which 0) or .err. Without a log_dir the file is absent. 0 or CL_CODE_LOG. */
int cl_logs_open(cl_log_file *file, const cl_order *order, int local, int which);
void cl_logs_close(cl_log_file *file);

/* Whether all bytes were taken. A file that takes no more is closed: the ranks go on, and the caller says so once. */
bool cl_logs_write(cl_log_file *file, const char *bytes, size_t count);

#endif
