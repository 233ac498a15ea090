/* flags.h - The table of launch flags: each row is one flag with its names, kind, field in cl_options, and help. */
#ifndef CL_FLAGS_H
#define CL_FLAGS_H

#include "options.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum {
    CL_FLAG_SWITCH,   /* bool; no value on the command line, 1 or 0 in the environment */
    CL_FLAG_COUNT,    /* int, 0 or more; -1 means not given, as in DeepSpeed */
    CL_FLAG_PORT,     /* int, 0 to 65535                                                     */
    CL_FLAG_SECONDS,  /* double: 90, 15m, 2h, 1d                                             */
    CL_FLAG_TEXT,     /* const char *, must not be empty */
    CL_FLAG_MAYBE,    /* const char *; "" means not given, as in DeepSpeed and torchrun */
    CL_FLAG_RAW,      /* const char *, may be empty */
    CL_FLAG_LIST,     /* cl_repeated                                                         */
    CL_FLAG_CHOICE,   /* int, index into the choices of `value` */
    CL_FLAG_SIGNAL,   /* int                                                                 */
    CL_FLAG_CHECKED,  /* const char *, accepted by check(flag, value) */
    CL_FLAG_CALL,     /* handled by call(options, flag, value) */
    CL_FLAG_OPTIONAL, /* const char *; "" if given without =VALUE */
    CL_FLAG_INERT,    /* accepted and ignored; takes a value if the row has one */
    CL_FLAG_REFUSED   /* an error, except for harmless values: "a|b", "*" for any */
} cl_flag_kind;

typedef struct {
    /* separated by spaces; a single letter is a short flag; '+' before a name that also has a PET_ variable */
    const char *names;
    cl_flag_kind kind;
    size_t offset;
    const char *value; /* placeholder in help; NULL: the flag takes no value */
    const char *text;  /* help text, or the reason for the refusal */
    int (*check)(const char *flag, const char *value);
    int (*call)(cl_options *options, const char *flag, const char *value);
    const char *sets; /* CALL only: the flags that it sets, to record their origin */
    bool bare;        /* has no environment variables */
} cl_flag;

/* In the order of help. A row with empty `names` begins a group, whose title is its `text`. */
extern const cl_flag cl_flags_table[];
extern const int cl_flags_count;

enum { CL_FLAGS_NAME = 64 };

/* Iterates over the names of a row: each call writes one name. Set `place` to flag->names at first. Returns false
 * after the last name; *twin is true if the name has a PET_ variable. */
bool cl_flags_name(const char **place, char name[CL_FLAGS_NAME], bool *twin);

/* Returns the row that has this name, or NULL. */
const cl_flag *cl_flags_find(const char *name);

/* Returns true if the flag takes a value on the command line. */
bool cl_flags_takes_value(const cl_flag *flag);

/* Returns the index of `value` in "a|b|c", or -1. */
int cl_flags_choice(const char *choices, const char *value);

#endif
