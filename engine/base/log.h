/* log.h - log lines with a level, written to stderr, each with one write. */
#ifndef CE_BASE_LOG_H
#define CE_BASE_LOG_H

#include <stdbool.h>

/* NOTICE: a fact that programs that only read a model print too, such as where the model's values come from. */
typedef enum { CE_LOG_DEBUG, CE_LOG_INFO, CE_LOG_NOTICE, CE_LOG_WARNING, CE_LOG_ERROR } ce_log_level;

/* Sets the lowest level that is printed; CSPEED_LOG_LEVEL=debug in the environment overrides it. Rank 0 prints this
 * level and all higher ones; other ranks print only errors. */
void ce_log_open(ce_log_level min, int rank);
int ce_log_rank(void);
bool ce_log_shows(ce_log_level level); /* returns whether this process prints lines of this level */
void ce_log(ce_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
