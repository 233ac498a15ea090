/* say.h - progress lines for the user: printed by rank 0 on standard output and flushed at once. */
#ifndef CE_BASE_SAY_H
#define CE_BASE_SAY_H

void ce_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints a line in the form of DeepSpeed's logger: it begins with [time] [INFO] [file:line:function] [Rank 0]. */
#define CE_SAY_LOGGED(...) ce_say_logged(__FILE__, __LINE__, __func__, __VA_ARGS__)
void ce_say_logged(const char *file, int line, const char *function, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The text of a number as Python prints it: with the fewest digits that identify the double. */
typedef struct {
    char text[32];
} ce_number;
ce_number ce_say_number(double value);

#endif
