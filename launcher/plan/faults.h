/* faults.h - all faults of a file, told in one go: FILE:LINE:COL: sentence, a line each. */
#ifndef CL_FAULTS_H
#define CL_FAULTS_H

#include <stdbool.h>
#include <stdio.h>

typedef struct {
    char text[3000];
    int length, count;
} cl_faults;

/* `line` 0: the sentence stands behind the file's name alone. */
void cl_faults_add(cl_faults *faults, const char *file, int line, int column, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* 0, or `code` with every fault as the sentence. */
int cl_faults_verdict(const cl_faults *faults, int code);

/* The whole of a file, malloc'ed, a NUL behind it; NULL with errno set. "-" is standard input. */
char *cl_faults_slurp(const char *path, size_t *length);

#endif
