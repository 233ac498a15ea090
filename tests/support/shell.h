/* shell.h - helpers for tests that run the programs as a user does: temporary folders, commands, their output and exit
 * codes. */
#ifndef CS_TESTS_SHELL_H
#define CS_TESTS_SHELL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Creates a temporary folder for the test and enters it; shell_leave removes it. */
void shell_enter(void);
void shell_leave(void);

void shell_write(const char *path, const char *content);
/* Writes the file `file` below the folder `root`, and creates the folders of its path. */
void shell_write_below(const char *root, const char *file, const char *content);
/* Returns the content of a file with a NUL at the end; the caller frees it. If `bytes` is not NULL, *bytes receives the
 * size without the NUL. Fails the test if there is no file. */
char *shell_read(const char *path, size_t *bytes);

/* Flips one bit of the byte at `offset`, as a faulty disk may do. */
void shell_flip(const char *path, long offset);

/* Runs a command with sh, with its output in "out.txt". Returns its exit code, or 128 + signal if it was killed. */
int shell_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Runs the cspeed command and checks its exit code, and that its output contains `words`. */
void shell_expect(int code, const char *words, const char *arguments);
/* Checks that the exit code `got` of the last command is `code`, and that its output contains `words`. */
void shell_ended(int code, int got, const char *words);
bool shell_says(const char *words);                     /* whether the last command's output contains the words */
int shell_count_of(const char *text, const char *part); /* number of times that `part` occurs in `text` */
/* Starts a command in a new process group; its output goes to "out.txt". Returns the process id. */
pid_t shell_start(const char *format, ...) __attribute__((format(printf, 1, 2)));
int shell_wait(pid_t child);

/* Returns the id of a process with this program name that has the word in its environment, or 0 if there is none. */
pid_t shell_find(const char *word, const char *name);
/* As shell_find, for the process that is rank `local_rank` of its host. There may be at most 10 ranks. */
pid_t shell_find_rank(const char *word, int local_rank, const char *name);

/* Returns the number of processes, except this test, that have this word in their environment or command line. */
int shell_left(const char *word);
void shell_await_left(const char *word, int count); /* waits until shell_left(word) is `count` */
/* Repeats a command with sh until it succeeds. The command does not write to "out.txt". */
void shell_await(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
