/* shell.h - tests that use the product as a user does: folders of their own, commands, what they printed and returned.
 */
#ifndef CS_TESTS_SHELL_H
#define CS_TESTS_SHELL_H

#include <stddef.h>
#include <sys/types.h>

/* Makes a folder of the test's own and enters it; leave removes it. */
void shell_enter(void);
void shell_leave(void);

void shell_write(const char *path, const char *content);
char *shell_read(const char *path,
                 size_t *bytes); /* malloc'ed, a NUL behind it; fails the test when there is no such file */

/* One bit of the byte there, as a disk may do. */
void shell_flip(const char *path, long offset);

/* Runs a command by sh with its output in "out.txt", and returns its exit code, 128 + signal if it was killed. */
int shell_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Starts it in a process group of its own. */
pid_t shell_start(const char *format, ...) __attribute__((format(printf, 1, 2)));
int shell_wait(pid_t child);

/* A process of this program name that carries the word in its environment; 0: none. */
pid_t shell_find(const char *word, const char *name);

/* How many processes carry this word in their environment or command line, this test's own aside; waits up to
 * `seconds` for none. */
int shell_left(const char *word, double seconds);

#endif
