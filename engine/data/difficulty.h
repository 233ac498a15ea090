/* difficulty.h - the length of samples as a function of the step: DeepSpeed's curriculum of sequence lengths. */
#ifndef CS_DATA_DIFFICULTY_H
#define CS_DATA_DIFFICULTY_H

#include <stdbool.h>
#include <stdint.h>

enum { CS_DIFFICULTY_STAIRS = 64 };

typedef enum { CS_DIFFICULTY_NONE, CS_DIFFICULTY_ROOT, CS_DIFFICULTY_STAIRCASE } cs_difficulty_kind;

/* Root: floor((s / total)^(1 / degree) (most - least) + least), down to a multiple of `stride`, at most `most`; linear
 * is degree 1. Staircase: stairs[i] for the first i with s <= until[i], the last stair after. s counts steps from 1. */
typedef struct {
    cs_difficulty_kind kind;
    int64_t min, max, total, stride;
    double degree;
    int count;
    int64_t stairs[CS_DIFFICULTY_STAIRS], until[CS_DIFFICULTY_STAIRS];
} cs_difficulty;

int64_t cs_difficulty_at(const cs_difficulty *difficulty, int64_t step);
bool cs_difficulty_may_be(const cs_difficulty *difficulty, int64_t value); /* at some step */

#endif
