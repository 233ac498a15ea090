/* log.h - one line, one rank, one level. Lines go to stderr, whole. */
#ifndef CS_BASE_LOG_H
#define CS_BASE_LOG_H

typedef enum { CS_LOG_DEBUG, CS_LOG_INFO, CS_LOG_WARNING, CS_LOG_ERROR } cs_log_level;

/* Lines under `least` are not printed, unless the environment's CSPEED_LOG_LEVEL is "debug". Rank 0 prints all levels;
 * other ranks errors alone. */
void cs_log_open(cs_log_level min, int rank);
int cs_log_rank(void);
void cs_log(cs_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
