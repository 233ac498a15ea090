/* trials.h - programs for the emulator's own test: checks that must hold, and faults that must abort the process. */
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
    const char *says; /* words of the message that it prints before it aborts */
} emulator_wrong;

typedef struct {
    const emulator_right *right;
    int right_count;
    const emulator_right *graphs; /* trials of stream capture */
    int graph_count;
    const emulator_wrong *wrong;
    int wrong_count;
} emulator_trials;

#endif
