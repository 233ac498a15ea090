/* syntax.h - the syntax tree of a template. */
#ifndef CE_JINJA_SYNTAX_H
#define CE_JINJA_SYNTAX_H

#include "value.h"

/* Kinds of nodes. The comment behind a kind names the members of ce_jnode that this kind uses. */
typedef enum {
    /* These kinds are statements; the member `next` is the statement that follows. */
    CE_N_DATA,  /* member: `value` */
    CE_N_PRINT, /* member: `a` (the value to print) */
    CE_N_IF,    /* members: `a` (the condition), `body` and `other` (the else branch) */
    /* members: `target`, `a` (the value whose items are visited), `b` (the condition after "if", or NULL), `body` and
     * `other` (the else branch) */
    CE_N_FOR,
    CE_N_SET,          /* members: `target` and `a` (the value) */
    CE_N_SET_BLOCK,    /* members: `target`, `b` (filters of the CE_N_BODY_TEXT, or NULL) and `body` */
    CE_N_MACRO,        /* members: `name`, `items` (the parameters, CE_N_PARAMETER), `body` and `uses` */
    CE_N_CALL_BLOCK,   /* members: `name` ("caller"), `a` (the call), `items` (the parameters), `body` and `uses` */
    CE_N_FILTER_BLOCK, /* members: `b` (filters of the CE_N_BODY_TEXT) and `body` */
    CE_N_WITH,         /* members: `items` (nodes CE_N_SET) and `body` */
    CE_N_GENERATION,   /* member: `body` */
    CE_N_BREAK,
    CE_N_CONTINUE,
    /* These kinds are expressions. */
    CE_N_CONSTANT,  /* member: `value` */
    CE_N_BODY_TEXT, /* no members; the text that the body of the enclosing block has printed */
    CE_N_NAME,      /* member: `name` */
    CE_N_LIST,      /* member: `items` */
    CE_N_TUPLE,     /* member: `items` */
    CE_N_DICT,      /* member: `items` (keys and values in turn) */
    CE_N_ATTRIBUTE, /* members: `a` (the object) and `name` */
    CE_N_ITEM,      /* members: `a` (the object) and `b` (the index) */
    CE_N_SLICE,     /* members: `a` (the object) and `items` (from, to and step, each of which may be NULL) */
    CE_N_CALL,      /* members: `a` (the callable) and `items` (the arguments, CE_N_ARGUMENT) */
    CE_N_FILTER,    /* members: `a` (the value), `name`, `entry` and `items` (the arguments) */
    CE_N_TEST,      /* members: `a` (the value), `name`, `entry` and `items` (the arguments) */
    CE_N_NOT,       /* member: `a` */
    CE_N_NEGATIVE,  /* member: `a` */
    CE_N_POSITIVE,  /* member: `a` */
    CE_N_BINARY,    /* members: `name` (the operator), `a` and `b` */
    CE_N_AND,       /* members: `a` and `b` */
    CE_N_OR,        /* members: `a` and `b` */
    CE_N_COMPARE,   /* members: `a` (the first operand) and `items` (the other operands, CE_N_OPERAND) */
    CE_N_CONDITION, /* members: `a`, `b` and `other` of the expression `a if b else other`; `other` may be NULL */
    /* These kinds are parts of other nodes. */
    CE_N_PARAMETER, /* members: `name` and `a` (the default, or NULL) */
    /* members: `name`, which may be NULL, and `a` (the value). In the arguments `*a` and `**a`, `name` is "*" or
     * "**". */
    CE_N_ARGUMENT,
    CE_N_OPERAND /* members: `name` (the operator) and `a` */
} ce_jnode_kind;

/* The bits of ce_jnode.uses. A macro whose body reads the variable `caller`, `varargs` or `kwargs` accepts more
 * arguments than its parameters. */
enum { CE_USES_CALLER = 1, CE_USES_VARARGS = 2, CE_USES_KWARGS = 4 };

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
    unsigned uses;     /* CE_USES_* of a macro */
};

/* Parses a template. Returns its first statement, or NULL if the template is empty. */
ce_jnode *ce_jparse_template(ce_jrun *run, const char *source, size_t size);

#endif
