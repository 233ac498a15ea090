/* flags.h - the table of launch flags: a row is a flag, its names, its kind, its field in cs_options, its help. */
#ifndef CS_LAUNCHER_FLAGS_H
#define CS_LAUNCHER_FLAGS_H

#include "options.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum {
    CS_FLAG_SWITCH,   /* bool; takes no value on the command line, 1 or 0 in the environment */
    CS_FLAG_COUNT,    /* int from 0; -1: not given, as in DeepSpeed                          */
    CS_FLAG_PORT,     /* int, 0 to 65535                                                     */
    CS_FLAG_SECONDS,  /* double: 90, 15m, 2h, 1d                                             */
    CS_FLAG_TEXT,     /* const char *, not empty                                             */
    CS_FLAG_MAYBE,    /* const char *; "" is not given, as in DeepSpeed and torchrun         */
    CS_FLAG_RAW,      /* const char *, "" too                                                */
    CS_FLAG_LIST,     /* cs_repeated                                                         */
    CS_FLAG_CHOICE,   /* int, the index into `value`                                         */
    CS_FLAG_SIGNAL,   /* int                                                                 */
    CS_FLAG_CHECKED,  /* const char *, after check(flag, value) has found it good            */
    CS_FLAG_CALL,     /* call(options, flag, value) does it                                  */
    CS_FLAG_OPTIONAL, /* const char *; "" without =VALUE                                     */
    CS_FLAG_INERT,    /* taken, and of no effect; with a value if the row has one            */
    CS_FLAG_REFUSED   /* an error, but for the harmless values: "a|b", "*" for any           */
} cs_flag_kind;

typedef struct {
    const char  *names; /* apart by spaces; one letter is a short flag; '+' before one that has a PET_ twin */
    cs_flag_kind kind;
    size_t       offset;
    const char  *value; /* how help calls it; NULL: none is taken */
    const char  *text;  /* what it does; why it is refused        */
    int (*check)(const char *flag, const char *value);
    int (*call)(cs_options *options, const char *flag, const char *value);
    const char *sets; /* of a CALL: the flags it stands for, for their origin */
    bool        bare; /* has no twins in the environment                    */
} cs_flag;

/* In the order of help; a row with an empty `names` begins the group that its `text` names. */
extern const cs_flag cs_flags_table[];
extern const int     cs_flags_count;

enum { CS_FLAGS_NAME = 64 };

/* The names of a row, one a call; `place` begins as flag->names. False after the last; *twin: it has a PET_ twin. */
bool cs_flags_name(const char **place, char name[CS_FLAGS_NAME], bool *twin);

/* The row that has this name, or NULL. */
const cs_flag *cs_flags_find(const char *name);

/* Whether a row's names stand on the command line with a value behind them. */
bool cs_flags_takes_value(const cs_flag *flag);

/* Which of "a|b|c" `value` is, or -1. */
int cs_flags_choice(const char *choices, const char *value);

#endif
