/* golden.h - what PyTorch computed, by name: the files that tests/golden/make_*.py write (the format is in
 * make_gpt2.py).
 *
 *     golden   *file   = golden_open(CS_SOURCE "/tests/golden/gpt2_tiny.golden");
 *     cs_tensor logits = golden_tensor(file, "logits");
 *
 * A file or name that is missing, or a file that is cut, ends the test with a sentence. */
#ifndef CS_TESTS_GOLDEN_H
#define CS_TESTS_GOLDEN_H

#include "cspeed/cspeed.h"

typedef struct golden golden;

golden *golden_open(const char *path);
void golden_close(golden *file); /* accepts NULL */
int golden_count(const golden *file);
const char *golden_name(const golden *file, int index);
cs_tensor golden_tensor(const golden *file, const char *name); /* CS_F32 or CS_I32; lives until the file is closed */

#endif
