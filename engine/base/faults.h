/* faults.h - collects the faults of a text that a user wrote, so that they are reported together, one on each line:
 * `FILE:LINE:COL: sentence`, or `FILE:LINE:COL at JSON.PATH: sentence`. */
#ifndef CS_BASE_FAULTS_H
#define CS_BASE_FAULTS_H

enum { CS_FAULTS = 40 };

typedef struct {
    int line, column, begin; /* begin: offset in the list's text, where each sentence ends with a zero */
} ce_fault;

/* All zeros: there are no faults. */
typedef struct {
    ce_fault list[CS_FAULTS];
    char text[16000];
    int count, used; /* used elements of `list`, and used bytes of `text` */
    int more;        /* number of faults that did not fit; they are only counted */
} ce_faults;

/* Adds a fault. If `line` is 0, only `file` stands before the sentence. If `path` is "", the fault does not concern a
 * value of JSON. The text is made printable. */
void ce_faults_add(ce_faults *faults, const char *file, int line, int column, const char *path, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* Returns 0 if there are no faults, otherwise `code`, with all faults in the message of cs_error(). */
int ce_faults_verdict(const ce_faults *faults, int code);

/* Replaces the control characters of a text by '?', so that names from a file do not reach a terminal as commands. */
void ce_faults_make_printable(char *text);

/* Sorts the faults of one file by line and column. */
void ce_faults_sort(ce_faults *faults);

#endif
