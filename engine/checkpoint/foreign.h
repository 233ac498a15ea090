/* foreign.h - checkpoints of other programs: recognised, and refused with the way through. */
#ifndef CS_CHECKPOINT_FOREIGN_H
#define CS_CHECKPOINT_FOREIGN_H

#include <stdbool.h>

enum { CS_FOREIGN_BYTES = 2048 };

/* Whether the folder (or the folder a `latest` in it names) holds another program's checkpoint: what it is, and the
 * commands that bring it here. Reads names alone. */
bool cs_foreign_recognise(char sentence[CS_FOREIGN_BYTES], const char *path);

#endif
