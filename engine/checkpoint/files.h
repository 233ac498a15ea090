/* files.h - files and directories whose every failure is a sentence with the path. Calls interrupted by signals go on.
 */
#ifndef CS_CHECKPOINT_FILES_H
#define CS_CHECKPOINT_FILES_H

#include "base/status.h"

char *cs_files_join(const char *dir, const char *name); /* "dir/name", malloc'ed */

/* The whole file, malloc'ed and NUL-terminated. CS_NOT_FOUND when there is none; CS_BAD_FILE beyond `limit` bytes. */
cs_status cs_files_read(char **text, size_t *length, const char *path, size_t limit);
cs_status cs_files_size(int64_t *bytes, const char *path);
bool cs_files_exists(const char *path);
bool cs_files_holds(const char *dir, const char *name);

/* A new file with these bytes, on the disk when this returns. */
cs_status cs_files_write(const char *path, const void *bytes, size_t count);

/* Why it could not be opened or looked at, of errno. CS_NOT_FOUND or CS_IO_ERROR. */
cs_status cs_files_refuse(const char *path);

cs_status cs_files_open(int *descriptor, const char *path);
/* CS_BAD_FILE when the file ends before. */
cs_status cs_files_read_at(int descriptor, void *bytes, size_t count, int64_t offset, const char *path);
cs_status cs_files_write_at(int descriptor, const void *bytes, size_t count, int64_t offset, const char *path);

cs_status cs_files_rename(const char *from, const char *to);
cs_status cs_files_make_directory(const char *path);
cs_status cs_files_make_directories(const char *path); /* with its parents; one that is there already is fine */
cs_status cs_files_sync_directory(const char *path);   /* its entries are on the disk */
cs_status cs_files_remove_tree(const char *path);      /* what is gone already is fine */

#endif
