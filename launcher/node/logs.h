/* logs.h - Log files: one for each rank and output stream, with every byte as received, written before it is shown. */
#ifndef CL_LOGS_H
#define CL_LOGS_H

#include "plan/order.h"

/* One log file. Before a write that would make the file larger than `max` bytes, it is renamed to NAME.1, and NAME.1 to
 * NAME.2; the previous NAME.2 is deleted. */
typedef struct {
    int fd; /* -1: none */
    long long bytes, max;
    char path[PATH_MAX];
} cl_log_file;

/* Creates a folder for a job's files, with parents. Its permissions follow umask, but neither the group nor others may
 * write to it, so that no other user can change what the ranks printed. A component of the path may be a link to a
 * folder. Returns 0, or CL_CODE_LOG with a message. */
int cl_logs_folder(const char *path);

/* Opens a file of a job in such a folder, creating it if needed; `flags` are O_APPEND or O_TRUNC. Only a regular
 * file is opened, never the target of a link: otherwise someone with write access to the folder could have any file
 * of the user overwritten. Returns the descriptor, or -1 with errno set and a message in cs_error(). */
int cl_logs_create(const char *path, int flags);

/* Opens LOG_DIR/attempt_N/RANK.out (which 0) or .err. Without a log_dir, `file` writes nothing. Returns 0 or
 * CL_CODE_LOG. */
int cl_logs_open(cl_log_file *file, const cl_order *order, int local, int which);
void cl_logs_close(cl_log_file *file);

/* Returns true if all bytes were written. A file that cannot be written is closed: the ranks continue, and the
 * caller reports it once. */
bool cl_logs_write(cl_log_file *file, const char *bytes, size_t count);

#endif
