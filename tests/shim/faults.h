/* faults.h - the interface of the preloaded library (faults.c): a test selects which call fails. The test finds the
 * functions of the library with dlsym. */
#ifndef CS_TESTS_FAULTS_H
#define CS_TESTS_FAULTS_H

/* What happens in call number `at`, counted from 0 since shim_arm. COUNT: nothing. LOSE: the power fails: files that
 * were not flushed become empty, and in folders that were not flushed the names are those from before the change. */
typedef enum { SHIM_COUNT, SHIM_EIO, SHIM_ENOSPC, SHIM_SHORT, SHIM_KILL, SHIM_LOSE, SHIM_HOWS } shim_how;

typedef void (*shim_arm_call)(int at, shim_how how);
typedef int (*shim_calls_call)(void); /* returns the number of calls since shim_arm */
typedef void (*shim_lose_call)(void); /* makes the power fail now */

#endif
