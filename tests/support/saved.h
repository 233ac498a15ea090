/* saved.h - a small state for tests of saving and loading: tensors of every kind, in which each value identifies its
 * element.
 *
 * The value of an element is a function of its tensor, its index and the step. */
#ifndef CS_TESTS_SAVED_H
#define CS_TESTS_SAVED_H

#include "checkpoint/checkpoint.h"

enum { SAVED_TENSORS = 12 };

/* SHOULD checks that the call succeeds. SHOULD_SAY checks that the call fails with this status, and that cs_error()
 * contains these words. */
#define SHOULD(call) ck_assert_msg((call) == CS_OK, "%s", cs_error())
#define SHOULD_SAY(call, status, words)                                                                                \
    do {                                                                                                               \
        ck_assert_int_eq(call, status);                                                                                \
        ck_assert_msg(strstr(cs_error(), words) != NULL, "%s", cs_error());                                            \
    } while (0)

/* How elements are distributed over ranks. FLAT: all tensors form one list, which is divided into equal parts; EACH:
 * each tensor is divided separately. */
typedef enum { SAVED_FLAT, SAVED_EACH } saved_deal;

typedef struct {
    ce_piece piece[SAVED_TENSORS];
    int count;
} saved_pieces;

/* Allocates this rank's pieces and fills them with the values of `step`; if `step` is -1, does not fill them. */
void saved_open(saved_pieces *pieces, int rank, int size, saved_deal deal, int64_t step);
void saved_close(saved_pieces *pieces);
/* Returns true if the pieces hold the values of `step`; otherwise prints the first element that does not. */
bool saved_holds(const saved_pieces *pieces, int64_t step);

/* Opens a communicator of the world that the environment describes. If the environment describes no world, the
 * communicator has a single rank. */
cs_comm *saved_world(void);

/* Saves the values of `step` under the tag, in this process. */
cs_status saved_save(const char *dir, const char *tag, int64_t step);
/* Loads, and compares the values with those of the step in the manifest. *step, unless it is NULL, receives that
 * step. */
cs_status saved_load(const char *dir, const char *tag, int64_t *step);

/* As saved_save and saved_load, with `ranks` processes. An error of any rank fails the test. */
void saved_save_ranks(int ranks, saved_deal deal, const char *dir, const char *tag, int64_t step);
void saved_load_ranks(int ranks, saved_deal deal, const char *dir, const char *tag, int64_t step);

#endif
