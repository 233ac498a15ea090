/* argv.h - builds a command line word by word. */
#ifndef CL_ARGV_H
#define CL_ARGV_H

typedef struct {
    char **list; /* malloc'ed words; NULL-terminated once a word was added */
    int count, capacity;
} cl_argv;

/* The next two functions end the process if there is no memory. */
void cl_argv_add(cl_argv *words, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cl_argv_add_all(cl_argv *words, const char *const *list); /* appends the words of a NULL-terminated list */
/* prints the command line to stderr, without the values of secrets */
void cl_argv_print(const cl_argv *words);
void cl_argv_free(cl_argv *words);

#endif
