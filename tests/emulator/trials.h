/* trials.h - small programs for the emulator's own test: what must hold, and what must end the program. */
#ifndef CS_EMULATOR_TRIALS_H
#define CS_EMULATOR_TRIALS_H

#include <stdbool.h>

typedef struct {
    const char *name;
    bool (*holds)(void);
} emulator_right;

typedef struct {
    const char *name;
    void (*run)(void);
    const char *says; /* part of what it says before it ends */
} emulator_wrong;

typedef struct {
    const emulator_right *right;
    int right_count;
    const emulator_right *graphs; /* likewise */
    int graph_count;
    const emulator_wrong *wrong;
    int wrong_count;
} emulator_trials;

#endif
