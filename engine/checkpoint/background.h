/* background.h - asynchronous checkpoint save: copies the state and writes the copy in a thread while training
 * continues.
 *
 * A save has two stages: every rank copies its pieces and writes its files; then rank 0 commits the checkpoint. After
 * each stage all ranks synchronize once, in ce_background_advance, on the caller's thread: the background threads never
 * communicate with other ranks. To avoid waiting, the caller calls ce_background_advance when ce_background_ready is
 * true on all ranks; ce_background_finish waits. */
#ifndef CE_CHECKPOINT_BACKGROUND_H
#define CE_CHECKPOINT_BACKGROUND_H

#include "checkpoint/checkpoint.h"

typedef struct ce_background ce_background;

/* The memory that the copy needs. ce_background_piece_bytes returns the bytes for one piece whose elements have
 * `elements_bytes` bytes. `sum` is the sum of the results of ce_background_piece_bytes for all pieces;
 * ce_background_bytes returns the bytes of the whole copy. */
size_t ce_background_piece_bytes(size_t elements_bytes);
size_t ce_background_bytes(size_t sum);

/* Starts a save. The first call allocates *background; later saves reuse it and its memory, and ce_background_close
 * frees it. All of `content` is copied except `line`, which the save changes and which must stay valid until the save
 * ends. The caller may change the rest of `content` when the call returns; only the elements of the pieces must not
 * change before ce_background_hold returns. No save may be in progress before the call; if the call fails, no save is
 * in progress after it. The call is collective. */
cs_status ce_background_save(ce_background **background, cs_comm *comm, const char *dir,
                             const ce_checkpoint_content *content);

/* The next five functions accept NULL, which means that no save is in progress. */
bool ce_background_busy(const ce_background *background);
/* Waits until the elements of the pieces are copied and may change. */
void ce_background_hold(ce_background *background);
/* Returns true if this rank has finished the current stage. */
bool ce_background_ready(const ce_background *background);
/* Returns the bytes of the copy, which stay allocated between saves. */
size_t ce_background_held(const ce_background *background);
void ce_background_close(ce_background *background); /* frees all memory; no save may be in progress */

/* Ends the current stage: waits until this rank and the other ranks have finished it, then starts the next stage. After
 * the last stage it returns the status of the save, and ce_background_busy is false; otherwise it returns CS_OK. A save
 * must be in progress. The call is collective. */
cs_status ce_background_advance(ce_background *background);
/* Waits for the end of the save and returns its status; collective. */
cs_status ce_background_finish(ce_background *background);

#endif
