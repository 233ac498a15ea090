/* faults.h - Collects all faults of a text file and reports them together, one line for each: FILE:LINE:COL:
 * message. */
#ifndef CL_FAULTS_H
#define CL_FAULTS_H

#include <stdbool.h>
#include <stdio.h>

typedef struct {
    char text[3000];
    int length, count;
} cl_faults;

/* Adds one fault. With `line` 0, the message has only the file's name before it. */
void cl_faults_add(cl_faults *faults, const char *file, int line, int column, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Returns 0 if there are no faults, otherwise `code`, with all faults in the message of cs_error(). */
int cl_faults_verdict(const cl_faults *faults, int code);

/* Reads a whole file ("-" is standard input). Returns malloc'ed bytes, terminated by a zero byte, or NULL with errno
 * set. */
char *cl_faults_slurp(const char *path, size_t *length);

#endif
