/* flags.h - the table of launch flags: a row is a flag, its names, its kind, its field in cl_options, its help. */
#ifndef CL_FLAGS_H
#define CL_FLAGS_H

#include "options.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum {
    CL_FLAG_SWITCH,   /* bool; takes no value on the command line, 1 or 0 in the environment */
    CL_FLAG_COUNT,    /* int from 0; -1: not given, as in DeepSpeed                          */
    CL_FLAG_PORT,     /* int, 0 to 65535                                                     */
    CL_FLAG_SECONDS,  /* double: 90, 15m, 2h, 1d                                             */
    CL_FLAG_TEXT,     /* const char *, not empty                                             */
    CL_FLAG_MAYBE,    /* const char *; "" is not given, as in DeepSpeed and torchrun         */
    CL_FLAG_RAW,      /* const char *, "" too                                                */
    CL_FLAG_LIST,     /* cl_repeated                                                         */
    CL_FLAG_CHOICE,   /* int, the index into `value`                                         */
    CL_FLAG_SIGNAL,   /* int                                                                 */
    CL_FLAG_CHECKED,  /* const char *, after check(flag, value) has found it good            */
    CL_FLAG_CALL,     /* call(options, flag, value) does it                                  */
    CL_FLAG_OPTIONAL, /* const char *; "" without =VALUE                                     */
    CL_FLAG_INERT,    /* taken, and of no effect; with a value if the row has one            */
    CL_FLAG_REFUSED   /* an error, but for the harmless values: "a|b", "*" for any           */
} cl_flag_kind;

typedef struct {
    const char *names; /* apart by spaces; one letter is a short flag; '+' before one that has a PET_ twin */
    cl_flag_kind kind;
    size_t offset;
    const char *value; /* how help calls it; NULL: none is taken */
    const char *text;  /* what it does; why it is refused        */
    int (*check)(const char *flag, const char *value);
    int (*call)(cl_options *options, const char *flag, const char *value);
    const char *sets; /* of a CALL: the flags it stands for, for their origin */
    bool bare;        /* has no twins in the environment                    */
} cl_flag;

/* In the order of help; a row with an empty `names` begins the group that its `text` names. */
extern const cl_flag cl_flags_table[];
extern const int cl_flags_count;

enum { CL_FLAGS_NAME = 64 };

/* The names of a row, one a call; `place` begins as flag->names. False after the last; *twin: it has a PET_ twin. */
bool cl_flags_name(const char **place, char name[CL_FLAGS_NAME], bool *twin);

/* The row that has this name, or NULL. */
const cl_flag *cl_flags_find(const char *name);

/* Whether a row's names stand on the command line with a value behind them. */
bool cl_flags_takes_value(const cl_flag *flag);

/* Which of "a|b|c" `value` is, or -1. */
int cl_flags_choice(const char *choices, const char *value);

#endif
