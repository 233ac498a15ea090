/* syntax.h - the syntax tree of a template. */
#ifndef CS_JINJA_SYNTAX_H
#define CS_JINJA_SYNTAX_H

#include "value.h"

/* Kinds of nodes. The comment behind a kind lists the members of ce_jnode that it uses. */
typedef enum {
    /* statements; `next` is the statement that follows */
    CS_N_DATA,         /* value */
    CS_N_PRINT,        /* a: what */
    CS_N_IF,           /* a: condition; body; other */
    CS_N_FOR,          /* target; a: the value whose items are visited; b: filter or NULL; body; other */
    CS_N_SET,          /* target; a: value */
    CS_N_SET_BLOCK,    /* target; b: filters of a CS_N_BODY_TEXT, or NULL; body */
    CS_N_MACRO,        /* name; items: parameters (CS_N_PARAMETER); body */
    CS_N_CALL_BLOCK,   /* a: call; items: parameters; body */
    CS_N_FILTER_BLOCK, /* b: filters of a CS_N_BODY_TEXT; body */
    CS_N_WITH,         /* items: CS_N_SET; body */
    CS_N_GENERATION,   /* body */
    CS_N_BREAK,
    CS_N_CONTINUE,
    /* expressions */
    CS_N_CONSTANT,  /* value */
    CS_N_BODY_TEXT, /* the text that the body of the enclosing block has printed */
    CS_N_NAME,      /* name */
    CS_N_LIST,      /* items */
    CS_N_TUPLE,     /* items */
    CS_N_DICT,      /* items: keys and values in turn */
    CS_N_ATTRIBUTE, /* a; name */
    CS_N_ITEM,      /* a; b: the index */
    CS_N_SLICE,     /* a; items: from, to and step, each may be NULL */
    CS_N_CALL,      /* a: what is called; items: arguments (CS_N_ARGUMENT) */
    CS_N_FILTER,    /* a; name; entry; items: arguments */
    CS_N_TEST,      /* a; name; entry; items: arguments */
    CS_N_NOT,       /* a */
    CS_N_NEGATIVE,  /* a */
    CS_N_POSITIVE,  /* a */
    CS_N_BINARY,    /* name: the operator; a; b */
    CS_N_AND,       /* a; b */
    CS_N_OR,        /* a; b */
    CS_N_COMPARE,   /* a; items: further operands, each with the operator in `name` (CS_N_OPERAND) */
    CS_N_CONDITION, /* a if b else other; other may be NULL */
    /* parts */
    CS_N_PARAMETER, /* name; a: default or NULL */
    CS_N_ARGUMENT,  /* name or NULL; a: value; `*a` and `**a` have the names "*" and "**" */
    CS_N_OPERAND    /* name: the operator; a */
} ce_jnode_kind;

/* Names that make a macro take further arguments. */
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
    const void *entry; /* the entry of a filter or test; NULL: the name is unknown, and evaluating the node fails */
    unsigned uses;     /* of a macro: CS_USES_* */
};

/* Parses a template; returns its first statement, NULL for an empty template. */
ce_jnode *ce_jparse_template(ce_jrun *run, const char *source, size_t size);

#endif
