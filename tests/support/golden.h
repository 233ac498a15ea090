/* golden.h - reference values computed by PyTorch: the files that tests/golden/make_*.py write, read by name.
 *
 * make_gpt2.py describes the format.
 *
 *     golden   *file   = golden_open(CS_SOURCE "/tests/golden/gpt2_tiny.golden");
 *     cs_tensor logits = golden_tensor(file, "logits");
 *
 * A missing file or name, or a truncated file, fails the test with a message. */
#ifndef CS_TESTS_GOLDEN_H
#define CS_TESTS_GOLDEN_H

#include "cspeed/cspeed.h"

typedef struct golden golden;

golden *golden_open(const char *path);
void golden_close(golden *file); /* accepts NULL */
int golden_count(const golden *file);
const char *golden_name(const golden *file, int index);
/* returns a tensor of type CS_F32 or CS_I32, valid until the file is closed */
cs_tensor golden_tensor(const golden *file, const char *name);

#endif
