/* lexer.h - splits a template's source into tokens. */
#ifndef CE_JINJA_LEXER_H
#define CE_JINJA_LEXER_H

#include "value.h"

typedef enum {
    CE_T_END,
    CE_T_DATA,  /* text between tags, or inside {% raw %} */
    CE_T_PRINT, /* characters {{ */
    CE_T_PRINT_END,
    CE_T_BLOCK, /* characters {% */
    CE_T_BLOCK_END,
    CE_T_NAME,
    CE_T_TEXT, /* a literal text */
    CE_T_NUMBER,
    CE_T_OPERATOR
} ce_jtoken_kind;

typedef struct {
    ce_jtoken_kind kind;
    int line;
    /* a number, or a text: the data between tags, the name, the contents of the literal, or the operator */
    ce_jvalue value;
} ce_jtoken;

/* Splits the source into tokens, the last of which is CE_T_END. White space around tags is removed by the rules of
 * trim_blocks, lstrip_blocks and the signs in the tags. */
ce_jtoken *ce_jlexer_split(ce_jrun *run, const char *source, size_t size);

#endif
