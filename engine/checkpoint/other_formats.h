/* other_formats.h - recognises checkpoints of other programs, which are refused with a command that converts them. */
#ifndef CS_CHECKPOINT_OTHER_FORMATS_H
#define CS_CHECKPOINT_OTHER_FORMATS_H

#include <stdbool.h>

enum { CS_OTHER_FORMATS_BYTES = 8192 };

/* Returns true if `path`, or the folder that a file `latest` in `path` names, is another program's checkpoint.
 * `sentence` then says what it is and gives the command that converts it. Only file names and the first bytes of files
 * are examined. */
bool ce_other_formats_recognise(char sentence[CS_OTHER_FORMATS_BYTES], const char *path);

#endif
