/* syntax.h - the syntax tree of a template. */
#ifndef CS_JINJA_SYNTAX_H
#define CS_JINJA_SYNTAX_H

#include "value.h"

/* Kinds of nodes. The comment behind a kind names the members of ce_jnode that this kind uses. */
typedef enum {
    /* These kinds are statements; the member `next` is the statement that follows. */
    CS_N_DATA,         /* uses value */
    CS_N_PRINT,        /* uses a (what is printed) */
    CS_N_IF,           /* uses a (the condition), body and other */
    CS_N_FOR,          /* uses target, a (the value whose items are visited), b (a filter or NULL), body and other */
    CS_N_SET,          /* uses target and a (the value) */
    CS_N_SET_BLOCK,    /* uses target, b (the filters of a CS_N_BODY_TEXT, or NULL) and body */
    CS_N_MACRO,        /* uses name, items (the parameters, CS_N_PARAMETER) and body */
    CS_N_CALL_BLOCK,   /* uses a (the call), items (the parameters) and body */
    CS_N_FILTER_BLOCK, /* uses b (the filters of a CS_N_BODY_TEXT) and body */
    CS_N_WITH,         /* uses items (nodes CS_N_SET) and body */
    CS_N_GENERATION,   /* uses body */
    CS_N_BREAK,
    CS_N_CONTINUE,
    /* These kinds are expressions. */
    CS_N_CONSTANT,  /* uses value */
    CS_N_BODY_TEXT, /* text that the body of the enclosing block has printed; uses no member */
    CS_N_NAME,      /* uses name */
    CS_N_LIST,      /* uses items */
    CS_N_TUPLE,     /* uses items */
    CS_N_DICT,      /* uses items (keys and values in turn) */
    CS_N_ATTRIBUTE, /* uses a and name */
    CS_N_ITEM,      /* uses a and b (the index) */
    CS_N_SLICE,     /* uses a and items (from, to and step, each of which may be NULL) */
    CS_N_CALL,      /* uses a (what is called) and items (the arguments, CS_N_ARGUMENT) */
    CS_N_FILTER,    /* uses a, name, entry and items (the arguments) */
    CS_N_TEST,      /* uses a, name, entry and items (the arguments) */
    CS_N_NOT,       /* uses a */
    CS_N_NEGATIVE,  /* uses a */
    CS_N_POSITIVE,  /* uses a */
    CS_N_BINARY,    /* uses name (the operator), a and b */
    CS_N_AND,       /* uses a and b */
    CS_N_OR,        /* uses a and b */
    CS_N_COMPARE,   /* uses a and items (the further operands with their operators, CS_N_OPERAND) */
    CS_N_CONDITION, /* expression `a if b else other`, where `other` may be NULL */
    /* These kinds are parts of other nodes. */
    CS_N_PARAMETER, /* uses name and a (the default or NULL) */
    /* uses name, which may be NULL, and a (the value); the arguments `*a` and `**a` have the names "*" and "**" */
    CS_N_ARGUMENT,
    CS_N_OPERAND /* uses name (the operator) and a */
} ce_jnode_kind;

/* The bits of ce_jnode.uses. A macro whose body reads the name caller, varargs or kwargs accepts more arguments than
 * its parameters. */
enum { CS_USES_CALLER = 1, CS_USES_VARARGS = 2, CS_USES_KWARGS = 4 };

typedef struct ce_jnode ce_jnode;
struct ce_jnode {
    ce_jnode_kind kind;
    int line;
    const char *name;
    ce_jvalue value;
    ce_jnode *a, *b, *target, *body, *other, *next;
    ce_jnode **items;
    size_t count;
    const void *entry; /* entry of a filter or test; if NULL, the name is unknown, and evaluating the node fails */
    unsigned uses;     /* CS_USES_* of a macro */
};

/* Parses a template. Returns its first statement, or NULL if the template is empty. */
ce_jnode *ce_jparse_template(ce_jrun *run, const char *source, size_t size);

#endif
