/* training.h - runs of the program train from a scratch folder, for tests of the programs. */
#ifndef CS_TESTS_TRAINING_H
#define CS_TESTS_TRAINING_H

/* Enters a scratch folder that has tokens of a short text in data/. */
void training_prepare(void);
void training_text(const char *path, int lines);
/* Writes config.json of a small GPT-2 that trains 24 steps. `more` is added to the section of this precision, for
 * example "bf16". */
void training_config(const char *precision, const char *more, int stage);
/* Runs `cspeed train` on several ranks, with its output in out.txt. `arguments` begins with the name of the configuration.
 * Returns the exit code. */
int training_try(int ranks, const char *arguments);
/* Runs train with config.json on several ranks, with its output in out.txt. Fails the test if the run fails. */
void training_run(int ranks, const char *arguments);
/* Fails the test, and prints out.txt, if the exit code `got` is not `code`. */
void training_expect(int code, int got);
int training_says(const char *words);            /* returns 1 if out.txt contains the words */
int training_says_nothing_of(const char *words); /* returns 1 if out.txt does not contain the words */

/* returns the last value of "name": in a file of JSON lines */
double training_last_number(const char *path, const char *name);
/* Reads the losses of the first `count` steps of a run from its metrics.jsonl. */
void training_losses(const char *path, double *losses, int count);
int training_lines(const char *path); /* returns the number of lines of a file */

#endif
