/* files.h - file and directory operations whose error messages name the path. Calls interrupted by signals are retried.
 * Calls that read are also retried a few times after an error that may pass, such as EIO, ESTALE or ENFILE, as long as
 * the pauses of all such calls have lasted less than half a minute. */
#ifndef CE_BASE_FILES_H
#define CE_BASE_FILES_H

#include "base/status.h"

char *ce_files_join(const char *dir, const char *name); /* returns "dir/name", which the caller frees */

/* Reads the whole file into *text, which is NUL-terminated and freed by the caller. Returns CS_NOT_FOUND if there is no
 * such file, and CS_BAD_FILE if the file is longer than `limit` bytes. */
cs_status ce_files_read(char **text, size_t *length, const char *path, size_t limit);
cs_status ce_files_size(int64_t *bytes, const char *path);
/* Returns true also if an error that may pass does not: opening the file then names the error. */
bool ce_files_exists(const char *path);
bool ce_files_is_folder(const char *path);
bool ce_files_holds(const char *dir, const char *name);
bool ce_files_holds_tokenizer(const char *dir); /* returns true if the folder has a file with a vocabulary */

/* Creates a new file with `count` bytes and flushes it to the disk. */
cs_status ce_files_write(const char *path, const void *bytes, size_t count);

/* Sets the message for the current errno after `path` could not be opened or examined. Returns CS_NOT_FOUND or
 * CS_IO_ERROR. */
cs_status ce_files_refuse(const char *path);

cs_status ce_files_open(int *descriptor, const char *path);
/* Reads exactly `count` bytes from `offset` on. Returns CS_BAD_FILE if the file ends before the last of these bytes. */
cs_status ce_files_read_at(int descriptor, void *bytes, size_t count, int64_t offset, const char *path);
cs_status ce_files_write_at(int descriptor, const void *bytes, size_t count, int64_t offset, const char *path);

/* Writes the path of cspeed's folder in the user's cache: $XDG_CACHE_HOME/cspeed, or $HOME/.cache/cspeed. Returns false if
 * neither variable is an absolute path, or if the path is too long. */
bool ce_files_cache(char *path, size_t capacity);

cs_status ce_files_rename(const char *from, const char *to);
cs_status ce_files_make_directory(const char *path);
/* Creates the directory and its parents. Directories that exist already are accepted. */
cs_status ce_files_make_directories(const char *path);
cs_status ce_files_sync_directory(const char *path); /* flushes the directory's entries to the disk */
/* Lets the system drop its copies of all files below the directory, so that the next reads come from the disk or the file
 * server. */
void ce_files_forget_tree(const char *path);
/* Removes a directory and its contents; a path that does not exist is accepted. */
cs_status ce_files_remove_tree(const char *path);

#endif
