/* sentences.h - the sentences with which ranks end, each shown once.
 *
 * A rank that ends with an error of its user (cs_must) prints a sentence on stderr. It begins with "cspeed: ", may have
 * several lines, and nothing follows it. Ranks that meet the same error print the same sentence: a console shows it
 * once, for the rank that printed it first. The log file of each rank contains it. */
#ifndef CL_SENTENCES_H
#define CL_SENTENCES_H

#include <stdbool.h>
#include <stddef.h>

enum { CL_SENTENCES_LINES = 64 };

/* The lines of sentences that were shown; all zero: none. Of further lines nothing is remembered. */
typedef struct {
    struct {
        char *text;
        size_t length;
        int rank;
    } lines[CL_SENTENCES_LINES];
    int count;
} cl_sentences;

void cl_sentences_free(cl_sentences *sentences); /* none is remembered any more */

/* Returns true if the whole stderr line of this rank is in a sentence and another rank has printed it before.
 * *in_sentence belongs to the rank: false at its start. */
bool cl_sentences_repeats(cl_sentences *sentences, int rank, bool *in_sentence, const char *text, size_t length);

#endif
