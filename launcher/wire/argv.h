/* argv.h - a command line that is made word by word. */
#ifndef CL_ARGV_H
#define CL_ARGV_H

typedef struct {
    char **list; /* NULL-terminated after the first word; the words are malloc'ed */
    int count, room;
} cl_argv;

/* Both end the process if there is no memory. */
void cl_argv_add(cl_argv *words, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cl_argv_add_all(cl_argv *words, const char *const *list); /* a NULL-terminated list */
void cl_argv_print(const cl_argv *words);                      /* to stderr, without the values of secrets */
void cl_argv_free(cl_argv *words);

#endif
