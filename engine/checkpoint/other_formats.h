/* other_formats.h - checkpoints of other programs: recognised, and refused with the way through. */
#ifndef CS_CHECKPOINT_FOREIGN_H
#define CS_CHECKPOINT_FOREIGN_H

#include <stdbool.h>

enum { CS_FOREIGN_BYTES = 8192 };

/* Whether the folder (or the folder a `latest` in it names), or the file, holds another program's checkpoint: what it
 * is, and the command that brings it here. Reads names, and of a file its first bytes. */
bool cs_foreign_recognise(char sentence[CS_FOREIGN_BYTES], const char *path);

#endif
