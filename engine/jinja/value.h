/* value.h - the values of a template, which behave as those of Python, and the memory of a rendering.
 *
 * All memory of a compilation or a rendering comes from one arena. All values are freed together with the arena.
 * A failure leaves the compilation or rendering by longjmp (ce_jrun_fail). Namespaces can be changed; all other values
 * are immutable. */
#ifndef CE_JINJA_VALUE_H
#define CE_JINJA_VALUE_H

#include "base/status.h"
#include "text/unicode.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef enum {
    CE_V_ABSENT, /* an argument that was not given */
    CE_V_UNDEFINED,
    CE_V_NONE,
    CE_V_BOOL,
    CE_V_INT, /* an integer of 64 bits; an operation whose result overflows fails */
    CE_V_FLOAT,
    CE_V_TEXT,
    CE_V_LIST,
    CE_V_DICT,
    CE_V_NAMESPACE,
    CE_V_CALLABLE,
    CE_V_LOOP
} ce_jkind;

/* Variants of a kind of value. CE_F_MARKUP is a text that is escaped already. CE_F_TUPLE, CE_F_GENERATOR, CE_F_RANGE
 * and CE_F_ITEMS are lists that print or compare in another way than a plain list. */
typedef enum { CE_F_PLAIN, CE_F_MARKUP, CE_F_TUPLE, CE_F_GENERATOR, CE_F_RANGE, CE_F_ITEMS } ce_jform;

typedef struct ce_jlist ce_jlist;
typedef struct ce_jdict ce_jdict;
typedef struct ce_jcallable ce_jcallable;
typedef struct ce_jloop ce_jloop;

typedef struct {
    ce_jkind kind;
    ce_jform form;
    union {
        bool truth;
        int64_t whole;
        double real;
        struct {
            const char *bytes; /* valid UTF-8; for an undefined value, the reason why it is undefined */
            size_t size;
        };
        ce_jlist *list;
        ce_jdict *dict; /* members of a dictionary or of a namespace */
        const ce_jcallable *callable;
        ce_jloop *loop;
    };
} ce_jvalue;

struct ce_jlist {
    ce_jvalue *items;
    size_t count, capacity;
};

/* A dictionary. Its members are in the order in which their keys were first added. */
struct ce_jdict {
    ce_jvalue *keys, *values;
    size_t count, capacity;
};

typedef struct ce_jchunk ce_jchunk;

enum { CE_JINJA_DEPTH = 400 }; /* maximum depth of nested expressions and blocks, and of nested calls of macros */

typedef struct {
    jmp_buf trap;
    cs_status status; /* status of the failure */
    ce_jchunk *chunks;
    size_t bytes;  /* number of bytes allocated so far */
    int64_t steps; /* number of steps taken so far */
    int line, depth;
    time_t now;
    /* out[0] is the template's output; out[1] to out[captures] are the open buffers of ce_jrun_capture */
    ce_text out[CE_JINJA_DEPTH + 1];
    int captures;
    void *output;
} ce_jrun;

/* Ends the compilation or rendering with an error. The error's text is "line N: " and the message. */
_Noreturn void ce_jrun_fail(ce_jrun *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void ce_jrun_unsupported(ce_jrun *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns memory that is zeroed. Fails if the limit on memory is exceeded. */
void *ce_jrun_alloc(ce_jrun *run, size_t bytes);
/* Returns zeroed memory of `bytes` bytes, into which the first `used` bytes of the list are copied. */
void *ce_jrun_longer(ce_jrun *run, const void *list, size_t used, size_t bytes);
/* Adds `count` to the steps of the rendering. An operation on many bytes or items counts one step for each byte or
 * item. Fails if the limit on steps is exceeded. */
void ce_jrun_step(ce_jrun *run, size_t count);
/* Counts a level of recursion, and fails beyond CE_JINJA_DEPTH levels. Each call needs a later call of
 * ce_jrun_leave. */
void ce_jrun_enter(ce_jrun *run);
void ce_jrun_leave(ce_jrun *run);
/* ce_jrun_capture opens a text buffer; open buffers are nested, and statements print into the newest one.
 * ce_jrun_captured closes the newest buffer and returns its text as a value. If the rendering fails, ce_jrun_free frees
 * all buffers. */
ce_text *ce_jrun_capture(ce_jrun *run);
ce_jvalue ce_jrun_captured(ce_jrun *run);
void ce_jrun_free(ce_jrun *run);

/* ---- making values ---- */

ce_jvalue ce_jvalue_undefined(ce_jrun *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
ce_jvalue ce_jvalue_bool(bool truth);
ce_jvalue ce_jvalue_int(int64_t whole);
ce_jvalue ce_jvalue_float(double real);
ce_jvalue ce_jvalue_text(const char *bytes, size_t size); /* The value refers to the bytes, which must stay valid. */
ce_jvalue ce_jvalue_copy(ce_jrun *run, const char *bytes, size_t size);
/* The value refers to the NUL-terminated text, which must stay valid. */
ce_jvalue ce_jvalue_literal(const char *bytes);
ce_jvalue ce_jvalue_list(ce_jrun *run, ce_jform form, size_t capacity);
ce_jvalue ce_jvalue_dict(ce_jrun *run);
void ce_jvalue_push(ce_jrun *run, ce_jvalue list, ce_jvalue item);
extern const ce_jvalue ce_jvalue_none;

/* ---- reading values ---- */

bool ce_jvalue_true(ce_jvalue value);
bool ce_jvalue_is_number(ce_jvalue value); /* Returns true for int, float and bool. */
double ce_jvalue_number(ce_jvalue value);
/* Returns true, and sets *whole to the number, if the value is an int or a bool. */
bool ce_jvalue_is_whole(ce_jvalue value, int64_t *whole);
bool ce_jvalue_is(ce_jvalue value, const char *text);
const char *ce_jvalue_type(ce_jvalue value); /* Returns Python's name of the value's type. */
bool ce_jvalue_equal(ce_jrun *run, ce_jvalue a, ce_jvalue b);
/* Returns a number below, equal to or above 0, as memcmp does. Fails if the values have no order; the message then
 * names `operator`. */
int ce_jvalue_compare(ce_jrun *run, ce_jvalue a, ce_jvalue b, const char *operator);
ce_jvalue *ce_jvalue_get(ce_jrun *run, const ce_jdict *dict, ce_jvalue key); /* Returns NULL if there is no such key. */
void ce_jvalue_put(ce_jrun *run, ce_jdict *dict, ce_jvalue key, ce_jvalue value);
ce_jvalue *ce_jvalue_member(const ce_jdict *dict, const char *name);
/* Returns the items that a loop over the value visits. */
ce_jlist ce_jvalue_items(ce_jrun *run, ce_jvalue value);
size_t ce_jvalue_length(ce_jrun *run, ce_jvalue value);
bool ce_jvalue_contains(ce_jrun *run, ce_jvalue in, ce_jvalue item);

/* ---- as text (print.c) ---- */

/* ce_jprint_str appends Python's str(value) to `to`, and ce_jprint_repr appends Python's repr(value). */
void ce_jprint_str(ce_jrun *run, ce_text *to, ce_jvalue value);
void ce_jprint_repr(ce_jrun *run, ce_text *to, ce_jvalue value);
/* Returns str(value) as a value. The str of a text is the text itself. */
ce_jvalue ce_jprint_text(ce_jrun *run, ce_jvalue value);

typedef struct {
    bool ascii, sorts;
    int indent; /* number of spaces for each level of indentation; -1: everything is written in one line */
    const char *comma, *colon;
} ce_jprint_json_form;
void ce_jprint_json(ce_jrun *run, ce_text *to, ce_jvalue value, const ce_jprint_json_form *form);

#endif
