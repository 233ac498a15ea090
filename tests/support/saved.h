/* saved.h - a small state for tests of saving and loading: tensors of every kind with values that identify them.
 *
 * The value of an element follows from its tensor, its index and the step. */
#ifndef CS_TESTS_SAVED_H
#define CS_TESTS_SAVED_H

#include "checkpoint/checkpoint.h"

enum { SAVED_TENSORS = 12 };

/* Fails the test unless the call succeeds, or unless it fails with this status and words in its message. */
#define SHOULD(call) ck_assert_msg((call) == CS_OK, "%s", cs_error())
#define SHOULD_SAY(call, status, words)                                                                                \
    do {                                                                                                               \
        ck_assert_int_eq(call, status);                                                                                \
        ck_assert_msg(strstr(cs_error(), words) != NULL, "%s", cs_error());                                            \
    } while (0)

/* How the elements are distributed over the ranks: all tensors as one flat list divided into equal parts, or each
 * tensor divided by itself. */
typedef enum { SAVED_FLAT, SAVED_EACH } saved_deal;

typedef struct {
    ce_piece piece[SAVED_TENSORS];
    int count;
} saved_pieces;

/* Allocates this rank's pieces and fills them with the values of `step`; step -1: they are not filled. */
void saved_open(saved_pieces *pieces, int rank, int size, saved_deal deal, int64_t step);
void saved_close(saved_pieces *pieces);
/* Returns true if the pieces hold the values of `step`; otherwise prints the first element that does not. */
bool saved_holds(const saved_pieces *pieces, int64_t step);

/* Returns a communicator of one rank in this process, or that of the world to which this process belongs. */
cs_comm *saved_world(void);

/* Saves the values of `step` under the tag, in this process. */
cs_status saved_save(const char *dir, const char *tag, int64_t step);
/* Loads, and compares the values with those of the step in the manifest. *step, unless it is NULL, receives that
 * step. */
cs_status saved_load(const char *dir, const char *tag, int64_t *step);

/* The same functions with `ranks` processes. An error of any rank fails the test. */
void saved_save_ranks(int ranks, saved_deal deal, const char *dir, const char *tag, int64_t step);
void saved_load_ranks(int ranks, saved_deal deal, const char *dir, const char *tag, int64_t step);

#endif
