/* background.h - a save that goes on while training does: a copy of the state, and a thread that writes it.
 *
 * A save has stages: every rank copies its pieces and writes its files; then rank 0 commits. Between two of them all
 * ranks meet once, in cs_background_turn, on the caller's thread: no thread here ever talks to other ranks. The caller
 * lets ranks meet when all say cs_background_ready, so that none waits; cs_background_finish waits. */
#ifndef CS_CHECKPOINT_BACKGROUND_H
#define CS_CHECKPOINT_BACKGROUND_H

#include "checkpoint/checkpoint.h"

typedef struct cs_background cs_background;

/* Bytes that a copy takes of a piece's elements, and of all its pieces together. */
size_t cs_background_room(size_t elements_bytes);
size_t cs_background_bytes(size_t rooms);

/* Begins. *background is made by the first call, kept with its memory for the next, and closed by its owner. All of the
 * content is copied: what it names at once, the pieces' elements until cs_background_hold returns. Nothing is in flight
 * before; after a failure nothing is either. Collective. */
cs_status cs_background_save(cs_background **background, cs_comm *comm, const char *dir,
                             const cs_checkpoint_content *content);

/* The five accept NULL, which has nothing in flight. */
bool cs_background_busy(const cs_background *background);
void cs_background_hold(cs_background *background);         /* until the pieces' elements may change */
bool cs_background_ready(const cs_background *background);  /* this rank has done its part of the stage */
size_t cs_background_held(const cs_background *background); /* bytes of the copy, kept from save to save */
void cs_background_close(cs_background *background);        /* nothing is in flight */

/* The next stage; waits for this rank's part, then for others'. The status of the save once nothing is in flight any
 * more, CS_OK before. Collective; something is in flight. */
cs_status cs_background_turn(cs_background *background);
cs_status cs_background_finish(cs_background *background); /* all stages that are left. Collective */

#endif
