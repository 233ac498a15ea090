/* other_formats.h - checkpoints of other programs: recognised, and refused with the way through. */
#ifndef CS_CHECKPOINT_OTHER_FORMATS_H
#define CS_CHECKPOINT_OTHER_FORMATS_H

#include <stdbool.h>

enum { CS_OTHER_FORMATS_BYTES = 8192 };

/* Whether the folder (or the folder a `latest` in it names), or the file, holds another program's checkpoint: what it
 * is, and the command that brings it here. Reads names, and of a file its first bytes. */
bool cs_other_formats_recognise(char sentence[CS_OTHER_FORMATS_BYTES], const char *path);

#endif
