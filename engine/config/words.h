/* words.h - words of other trainers (arguments, configuration keys, launch flags, commands) and what takes their place
 * in cspeed. The page docs/from-trainer.md is made from the same table. */
#ifndef CE_CONFIG_WORDS_H
#define CE_CONFIG_WORDS_H

#include <stdbool.h>

typedef enum {
    CE_WORD_TOPIC,    /* not a word but the heading of the rows that follow; `text` is the heading */
    CE_WORD_KEY,      /* `key` takes the word's place; `text`, unless "", says how values are converted */
    CE_WORD_UNNEEDED, /* not needed, because `text` */
    CE_WORD_REFUSED,  /* not supported, because `text` */
    CE_WORD_COMMAND   /* a command, whose place `text` takes */
} ce_word_kind;

typedef struct {
    ce_word_kind kind;
    const char *of;    /* who has the word: letters of ce_words_owner */
    const char *names; /* spellings, separated by spaces, with underscores instead of dashes */
    /* paths of keys of the configuration, options of train, or flags of the launcher (both with two dashes), separated
     * by spaces */
    const char *key;
    const char *text;
} ce_word;

extern const ce_word ce_words[];
extern const int ce_words_count;

/* Returns the name of a trainer by its letter, such as "Trainer" for 'T', or NULL. */
const char *ce_words_owner(char letter);
/* Returns the row of a command, or of another word, or NULL. Dashes count as underscores. */
const ce_word *ce_words_find(const char *name, bool command);
/* Returns the end of a sentence that says what takes the place of the word. The caller frees the text. */
char *ce_words_say(const ce_word *word);
void ce_words_page(void); /* prints docs/from-trainer.md */

#endif
