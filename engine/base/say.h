/* say.h - lines for the person who watches: rank 0's, on standard output, each at once. */
#ifndef CS_BASE_SAY_H
#define CS_BASE_SAY_H

void cs_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* As DeepSpeed's logger writes a line: [time] [INFO] [file:line:function] [Rank 0] before it. */
#define CS_SAY_LOGGED(...) cs_say_logged(__FILE__, __LINE__, __func__, __VA_ARGS__)
void cs_say_logged(const char *file, int line, const char *function, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A number as Python prints it: as few digits as tell it from its neighbours. */
typedef struct {
    char text[32];
} cs_number;
cs_number cs_say_number(double value);

#endif
