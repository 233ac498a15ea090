/* page.h - reads a page of the documents, and runs the commands of the page; CONTRIBUTING.md, "Documents", has the
 * rules. */
#ifndef CS_TESTS_PAGE_H
#define CS_TESTS_PAGE_H

#include <stdbool.h>

enum { PAGE_STEPS = 256 };

typedef enum {
    PAGE_COMMAND, /* text: the command; content: what the page shows as its output     */
    PAGE_FILE,    /* text: the name of a file; content: what is written into it        */
    PAGE_NOT_RUN, /* text: why the block is not run; content: the block                */
} page_kind;

typedef struct {
    page_kind kind;
    int line; /* line of the command or of the block in the page, from 1 */
    char *text, *content;
} page_step;

typedef struct {
    const char *path;
    /* LABEL of `<!-- commands: LABEL -->`: "short", "slow" or "as PAGE"; "": no block is run. */
    char label[128];
    page_step step[PAGE_STEPS];
    int count;
    int faults; /* number of mistakes in the page's form and of outputs that differ; each is printed to stderr */
} page;

void page_read(page *it, const char *path);
void page_free(page *it);

/* Prints "PATH:LINE: ..." to stderr and counts a fault. */
void page_fault(page *it, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Runs the steps of a page in order, in one shell and in an empty folder below the working directory. Prints differing
 * outputs to stderr and counts them as faults. Returns the number of commands that were run. */
int page_run(page *it);

#endif
