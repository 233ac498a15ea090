/* logs.h - log files: one for each rank and output stream. Every byte is written to the file as received, before it is
 * shown. */
#ifndef CL_LOGS_H
#define CL_LOGS_H

#include "plan/order.h"

#include <sys/types.h>

/* One log file. Before a write would make the file larger than `max` bytes (0: no limit), the file is renamed to
 * NAME.1. The previous NAME.1 becomes NAME.2, and the previous NAME.2 is deleted. */
typedef struct {
    int fd; /* -1: no file is open */
    long long bytes, max;
    long long lost; /* the number of bytes that could not be written since the last write that succeeded */
    char path[PATH_MAX];
} cl_log_file;

/* Creates a folder for a job's files, with its parents. The permissions follow the umask, but neither the group nor
 * others may write to the folder, so that no other user can change what the ranks printed. A component of the path may
 * be a link to a folder. Returns 0, or CL_CODE_LOG with a message. */
int cl_logs_folder(const char *path);

/* Creates a folder and its parents. The path is changed in the meantime. Returns false and sets errno on failure. */
bool cl_logs_make_folders(char *path, mode_t mode);

/* Opens a file in a folder that cl_logs_folder created, and creates the file if needed. `flags` is O_APPEND or O_TRUNC.
 * Only a regular file is opened, never the target of a link: otherwise a person who may write to the folder could have
 * any file of the user overwritten. Returns the descriptor, or -1 with errno set and a message in cs_error(). */
int cl_logs_create(const char *path, int flags);

/* Opens LOG_DIR/attempt_N/RANK.out (`which` is 0) or RANK.err (1). Without a log_dir, writes to `file` do nothing.
 * Returns 0 or CL_CODE_LOG. */
int cl_logs_open(cl_log_file *file, const cl_order *order, int local, int which);
void cl_logs_close(cl_log_file *file);

/* Returns false and sets errno if the file cannot be written. The file is then closed, and the next call opens it
 * again. */
bool cl_logs_write(cl_log_file *file, const char *bytes, size_t count);

#endif
