/* faults.h - how a test tells the preloaded library which call is to fail; found by dlsym. */
#ifndef CS_TESTS_FAULTS_H
#define CS_TESTS_FAULTS_H

/* What becomes of call number `at` (from 0) of those counted since shim_arm; COUNT: of none. LOSE: the power fails;
 * files that were not flushed are empty, and names that were changed in folders that were not are the old ones. */
typedef enum { SHIM_COUNT, SHIM_EIO, SHIM_ENOSPC, SHIM_SHORT, SHIM_KILL, SHIM_LOSE, SHIM_HOWS } shim_how;

typedef void (*shim_arm_call)(int at, shim_how how);
typedef int (*shim_calls_call)(void); /* so far */
typedef void (*shim_lose_call)(void); /* the power fails now */

#endif
