/* codes.h - Exit codes of the launcher, and what the exit codes of ranks may mean.
 *
 * A rank's own exit code is passed on unchanged; the end by a signal becomes 128 plus the signal's number. The
 * launcher's own codes are those of sysexits(3) and timeout(1). A launcher function that returns int returns one of
 * these codes: 0 on success; on failure, cs_error() has the message. */
#ifndef CL_CODES_H
#define CL_CODES_H

enum {
    CL_CODE_USAGE = 64,    /* the command line is invalid */
    CL_CODE_FILE = 65,     /* a hostfile, filter, env file or order is invalid */
    CL_CODE_NO_FILE = 66,  /* a file named by the user is missing */
    CL_CODE_HOST = 68,     /* a host cannot be reached, or refuses the login */
    CL_CODE_SLOTS = 69,    /* there are fewer slots or cores than the user requested */
    CL_CODE_SYSTEM = 71,   /* the operating system refused a process, memory, a port or another resource */
    CL_CODE_LOG = 73,      /* log files cannot be written */
    CL_CODE_PEER = 75,     /* a rank lost its connection to another rank, or a node was lost */
    CL_CODE_DISAGREE = 76, /* the nodes have different versions of cspeed or different configurations */
    CL_CODE_TIMEOUT = 124, /* the job ran longer than --timeout */
    CL_CODE_STALLED = 125, /* the job made no progress for --stall_timeout, and --stall_action is kill */
    CL_CODE_NOT_EXECUTABLE = 126,
    CL_CODE_NOT_FOUND = 127,
    CL_CODE_SIGNAL = 128 /* base of the exit codes for signals: the signal's number is added */
};

/* Records the message for cs_error() and returns `code`. */
int cl_codes_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns the exit code that a shell shows for `wait_status`, a status from wait(2). */
int cl_codes_of_status(int wait_status);

/* Returns a clause that says why a rank exits with this code; returns "" if the code does not tell the reason. */
const char *cl_codes_meaning(int code);

/* Returns true if `code` stands for a failure that occurs on every rank and that the ranks report themselves, such as
 * an invalid configuration or a missing file. */
int cl_codes_explained(int code);

/* cl_codes_signal_name(9) returns "SIGKILL". cl_codes_signal_number returns 9 for "SIGKILL", "KILL", "kill" or "9", and
 * 0 if there is no such signal. */
const char *cl_codes_signal_name(int number);
int cl_codes_signal_number(const char *name);

#endif
