/* faults.h - collects the faults of a text that a user wrote, so that all of them are reported together. Each fault is
 * one line: `FILE:LINE:COL: sentence`, or `FILE:LINE:COL at JSON.PATH: sentence`. */
#ifndef CE_BASE_FAULTS_H
#define CE_BASE_FAULTS_H

enum { CE_FAULTS = 40 };

typedef struct {
    /* `begin` is the offset of the fault's text in the member `text` of ce_faults. A zero byte ends the fault's
     * text. */
    int line, column, begin;
} ce_fault;

/* A list of faults. A struct that is all zeros is an empty list. */
typedef struct {
    ce_fault list[CE_FAULTS];
    char text[16000];
    int count, used; /* number of used elements of `list`, and of used bytes of `text` */
    int more;        /* number of faults that did not fit into `list` and are only counted */
} ce_faults;

/* Adds a fault. If `line` is 0, only `file` stands before the sentence. If `path` is "", the fault does not concern a
 * value of JSON. Control characters in the fault's text are replaced by '?'. */
void ce_faults_add(ce_faults *faults, const char *file, int line, int column, const char *path, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* Returns 0 if there are no faults. Otherwise puts all faults into the message of cs_error() and returns `code`. */
int ce_faults_verdict(const ce_faults *faults, int code);

/* Replaces the control characters of a text, except those in `kept`, by '?', so that names from a file or a folder do not
 * reach a terminal as commands. */
void ce_faults_make_printable(char *text, const char *kept);

/* Sorts the faults of one file by line and column. */
void ce_faults_sort(ce_faults *faults);

#endif
