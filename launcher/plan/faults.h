/* faults.h - all faults of a file, told in one go: FILE:LINE:COL: sentence, a line each. */
#ifndef CS_LAUNCHER_FAULTS_H
#define CS_LAUNCHER_FAULTS_H

#include <stdbool.h>
#include <stdio.h>

typedef struct {
    char text[3000];
    int  length, count;
} cs_faults;

/* `line` 0: the sentence stands behind the file's name alone. */
void cs_faults_add(cs_faults *faults, const char *file, int line, int column, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* 0, or `code` with every fault as the sentence. */
int cs_faults_verdict(const cs_faults *faults, int code);

/* The whole of a file, malloc'ed, a NUL behind it; NULL with errno set. "-" is standard input. */
char *cs_faults_slurp(const char *path, size_t *length);

#endif
