/* sentences.h - the sentences with which ranks end, each shown once.
 *
 * A rank that ends with an error of its user (cs_must) prints a sentence on stderr. The sentence begins with "cspeed: "
 * and may have several lines; the rank prints nothing after it. Ranks that meet the same error print the same sentence:
 * a console shows it once, for the rank that printed it first. The log file of each rank contains the sentence. */
#ifndef CL_SENTENCES_H
#define CL_SENTENCES_H

#include <stdbool.h>
#include <stddef.h>

enum { CL_SENTENCES_LINES = 64 };

/* The lines of the sentences that were shown, in the order of their arrival. Lines after the first CL_SENTENCES_LINES
 * are not stored. A struct whose bytes are all zero is an empty list. */
typedef struct {
    struct {
        char *text;
        size_t length;
        int rank;
    } lines[CL_SENTENCES_LINES];
    int count;
} cl_sentences;

void cl_sentences_free(cl_sentences *sentences); /* frees the lines; the list is then empty */

/* Returns true if this line of a rank's stderr belongs to a sentence and another rank has printed the same line before;
 * otherwise stores the line if it belongs to a sentence. `text` is a whole line. The caller keeps a separate
 * *in_sentence for each rank, and sets it to false when the rank starts. */
bool cl_sentences_repeats(cl_sentences *sentences, int rank, bool *in_sentence, const char *text, size_t length);

#endif
