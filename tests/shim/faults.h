/* faults.h - the interface of the preloaded library (faults.c): a test selects which call fails. The test finds the
 * functions of the library with dlsym. */
#ifndef CS_TESTS_FAULTS_H
#define CS_TESTS_FAULTS_H

/* What happens in call number `at`, counted from 0 since shim_arm. COUNT: nothing. LOSE: the power fails: files that
 * were not flushed become empty, and in folders that were not flushed the names are those from before the change. */
typedef enum { SHIM_COUNT, SHIM_EIO, SHIM_ENOSPC, SHIM_SHORT, SHIM_KILL, SHIM_LOSE, SHIM_HOWS } shim_how;

/* What the file system cannot do. NO_EXCHANGE: rename with flags, as on NFS. NO_MOVE: in addition rename a directory that
 * is no staging directory, as on overlayfs with a directory of a lower layer. */
typedef enum { SHIM_ALL, SHIM_NO_EXCHANGE, SHIM_NO_MOVE } shim_lack;

typedef void (*shim_lack_call)(shim_lack lack);
typedef void (*shim_arm_call)(int at, shim_how how);
typedef int (*shim_calls_call)(void); /* returns the number of calls since shim_arm */
typedef void (*shim_lose_call)(void); /* makes the power fail now */

#endif
