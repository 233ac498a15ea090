/* against.h - tiny models compared with what transformers computes: logits, gradients, ten losses and gradient norms.
 * The golden files are made by tests/golden/make_llama.py and make_families.py. */
#ifndef CS_TESTS_AGAINST_H
#define CS_TESTS_AGAINST_H

#include <stdbool.h>

typedef struct {
    const char *golden, *model; /* name of the file in tests/golden, and of the model in it */
    const char *precision, *recompute;
    bool gradients;        /* true: the file has the gradients of the first step, and they are compared */
    double logits, losses; /* bounds of the relative differences */
    double norms;          /* bound for the gradient norms; 0: 20 times `losses` */
} against_case;
void against_transformers(const against_case *given);

/* Compares each of these models with transformers, with the precision, the recomputation and the bounds of `given`.
 * Gradients are compared only in fp32. */
void against_each(const against_case *given, const char *const *models, int count);

/* Saves the values of a model of the golden file `name` as the checkpoint "t" of the folder `dir`. */
void against_save(const char *name, const char *model, const char *dir);
/* Compares the logits of the model in a Hugging Face folder with those of transformers, in fp32. */
void against_folder(const char *name, const char *model, const char *folder, double bound);

/* Returns the config.json of a case; the caller frees it. */
char *against_config(const char *name, const char *model);

#endif
