/* other_formats.h - recognises checkpoints of other programs, which are refused with a command that converts them. */
#ifndef CE_CHECKPOINT_OTHER_FORMATS_H
#define CE_CHECKPOINT_OTHER_FORMATS_H

#include <stdbool.h>

enum { CE_OTHER_FORMATS_BYTES = 8192 };

/* Returns true if `path` is a checkpoint of another program, or if `path` has a file `latest` that names a folder with
 * such a checkpoint. `sentence` then says what kind of checkpoint was found, and gives the command that converts the
 * checkpoint. Only file names and the first bytes of files are examined. */
bool ce_other_formats_recognise(char sentence[CE_OTHER_FORMATS_BYTES], const char *path);

/* Returns true for the names of files in which Trainer and accelerate save the state of a training. */
bool ce_other_formats_is_state(const char *name);

#endif
