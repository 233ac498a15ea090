/* sentences.c - the sentences with which ranks end, each shown once. */
#include "show/sentences.h"

#include <stdlib.h>
#include <string.h>

void cl_sentences_free(cl_sentences *sentences)
{
    while (sentences->count > 0)
        free(sentences->lines[--sentences->count].text);
}

static void remember(cl_sentences *sentences, int rank, const char *text, size_t length)
{
    char *copy = sentences->count < CL_SENTENCES_LINES ? malloc(length + 1) : NULL;
    if (!copy)
        return;
    memcpy(copy, text, length);
    sentences->lines[sentences->count].text = copy;
    sentences->lines[sentences->count].length = length;
    sentences->lines[sentences->count++].rank = rank;
}

bool cl_sentences_repeats(cl_sentences *sentences, int rank, bool *in_sentence, const char *text, size_t length)
{
    static const char begin[] = "cspeed: ";
    *in_sentence |= length >= sizeof begin - 1 && memcmp(text, begin, sizeof begin - 1) == 0;
    for (int i = 0; *in_sentence && i < sentences->count; i++)
        if (sentences->lines[i].rank != rank && sentences->lines[i].length == length &&
            memcmp(sentences->lines[i].text, text, length) == 0)
            return true;
    if (*in_sentence)
        remember(sentences, rank, text, length);
    return false;
}
