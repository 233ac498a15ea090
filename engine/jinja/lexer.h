/* lexer.h - splits a template's source into tokens. */
#ifndef CS_JINJA_LEXER_H
#define CS_JINJA_LEXER_H

#include "value.h"

typedef enum {
    CS_T_END,
    CS_T_DATA,  /* text between tags, or inside {% raw %} */
    CS_T_PRINT, /* characters {{ */
    CS_T_PRINT_END,
    CS_T_BLOCK, /* characters {% */
    CS_T_BLOCK_END,
    CS_T_NAME,
    CS_T_TEXT, /* a literal text */
    CS_T_NUMBER,
    CS_T_OPERATOR
} ce_jtoken_kind;

typedef struct {
    ce_jtoken_kind kind;
    int line;
    /* a number, or a text: the data between tags, the name, the contents of the literal, or the operator */
    ce_jvalue value;
} ce_jtoken;

/* Splits the source into tokens, the last of which is CS_T_END. White space around tags is removed by the rules of
 * trim_blocks, lstrip_blocks and the signs in the tags. */
ce_jtoken *ce_jlexer_split(ce_jrun *run, const char *source, size_t size);

#endif
