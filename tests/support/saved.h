/* saved.h - a small state to save and load: tensors of every kind, whose values tell where and when they come from. */
#ifndef CS_TESTS_SAVED_H
#define CS_TESTS_SAVED_H

#include "checkpoint/checkpoint.h"

enum { SAVED_TENSORS = 12 };

/* How the ranks share the elements: all tensors as one flat list cut in equal parts, or each tensor by itself. */
typedef enum { SAVED_FLAT, SAVED_EACH } saved_deal;

typedef struct {
    cs_piece piece[SAVED_TENSORS];
    int count;
} saved_pieces;

/* This rank's pieces with memory of their own, the values of `step` in them; step -1: nothing yet. */
void saved_open(saved_pieces *pieces, int rank, int size, saved_deal deal, int64_t step);
void saved_close(saved_pieces *pieces);
/* Whether they hold the values of `step`; prints the first that does not. */
bool saved_holds(const saved_pieces *pieces, int64_t step);

/* A world of one in this process, or the world this process belongs to. */
cs_comm *saved_world(void);

/* Saves the values of `step` under the tag, in this process. */
cs_status saved_save(const char *dir, const char *tag, int64_t step);
/* Loads and compares with the values of the step that the manifest names; *step (may be NULL) is that. */
cs_status saved_load(const char *dir, const char *tag, int64_t *step);

/* The same with `ranks` processes. A sentence of any rank is the test's failure. */
void saved_save_ranks(int ranks, saved_deal deal, const char *dir, const char *tag, int64_t step);
void saved_load_ranks(int ranks, saved_deal deal, const char *dir, const char *tag, int64_t step);

#endif
