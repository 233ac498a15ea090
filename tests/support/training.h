/* training.h - runs of the program train from a scratch folder, for tests of the programs. */
#ifndef CS_TESTS_TRAINING_H
#define CS_TESTS_TRAINING_H

/* Enters a scratch folder with tokens of a short text in data/. */
void training_prepare(void);
void training_text(const char *path, int lines);
/* Writes config.json of a small GPT-2 that trains 24 steps; `more` is added to the section of the precision. */
void training_config(const char *precision, const char *more, int stage);
/* Runs train with config.json on several ranks; the output is in out.txt. The run must succeed. */
void training_run(int ranks, const char *arguments);
/* Fails with the output in out.txt if the exit code `got` is not `code`. */
void training_expect(int code, int got);
int training_says(const char *words);            /* 1: out.txt contains the words */
int training_says_nothing_of(const char *words); /* 1: it does not */

double training_last_number(const char *path, const char *name); /* the last value of "name": in a JSON lines file */
int training_lines(const char *path);                            /* the number of lines of a file */

#endif
