/* difficulty.h - sequence length as a function of the step: DeepSpeed's curriculum learning. */
#ifndef CE_DATA_DIFFICULTY_H
#define CE_DATA_DIFFICULTY_H

#include <stdbool.h>
#include <stdint.h>

enum { CE_DIFFICULTY_STAIRS = 64 };

typedef enum { CE_DIFFICULTY_NONE, CE_DIFFICULTY_ROOT, CE_DIFFICULTY_STAIRCASE } ce_difficulty_kind;

/* The sequence length at step s, where s counts from 1. ROOT: floor((s / total)^(1 / degree) (max - min) + min),
 * rounded down to a multiple of `stride`, at most `max`; a degree of 1 is linear. STAIRCASE: stairs[i] for the first i
 * with s <= until[i], or the last element of `stairs` if there is no such i. */
typedef struct {
    ce_difficulty_kind kind;
    int64_t min, max, total, stride;
    double degree;
    int count;
    int64_t stairs[CE_DIFFICULTY_STAIRS], until[CE_DIFFICULTY_STAIRS];
} ce_difficulty;

int64_t ce_difficulty_at(const ce_difficulty *difficulty, int64_t step);
/* Returns true if the sequence length is `value` at some step. */
bool ce_difficulty_may_be(const ce_difficulty *difficulty, int64_t value);

#endif
