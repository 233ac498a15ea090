/* codes.h - exit codes: those of the launcher itself, and what a rank's may mean.
 *
 * A rank's own code passes through unchanged, a signal as 128 + its number. The launcher's are sysexits(3)
 * and those of timeout(1). A launcher function that returns int returns one of these, 0 when all went well,
 * and on failure cs_error() is the sentence. */
#ifndef CL_CODES_H
#define CL_CODES_H

enum {
    CL_CODE_USAGE = 64,    /* the command line is wrong                        */
    CL_CODE_FILE = 65,     /* a hostfile, filter, env file or order is wrong   */
    CL_CODE_NO_FILE = 66,  /* a named file is missing                          */
    CL_CODE_HOST = 68,     /* a host cannot be reached, or lets nobody in      */
    CL_CODE_SLOTS = 69,    /* fewer slots or cores than asked for              */
    CL_CODE_SYSTEM = 71,   /* the system refused a process, memory, a port ... */
    CL_CODE_LOG = 73,      /* log files cannot be written                      */
    CL_CODE_PEER = 75,     /* a rank lost another, or a node was lost          */
    CL_CODE_DISAGREE = 76, /* nodes have different versions or configurations  */
    CL_CODE_TIMEOUT = 124, /* --timeout                                        */
    CL_CODE_STALLED = 125, /* --stall_timeout with --stall_action kill         */
    CL_CODE_NOT_EXECUTABLE = 126,
    CL_CODE_NOT_FOUND = 127,
    CL_CODE_SIGNAL = 128 /* plus the signal's number                         */
};

/* Records the sentence for cs_error() and returns `code`. */
int cl_codes_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The exit code a shell would see for a wait status. */
int cl_codes_of_status(int wait_status);

/* What an exit code says of why, as half a sentence; "" when it says nothing. */
const char *cl_codes_meaning(int code);

/* Whether a program that exits with `code` has said why in a sentence of its own (a wrong configuration, a
 * missing file ...), on every rank alike. */
int cl_codes_explained(int code);

/* "SIGKILL" for 9; and back from "SIGKILL", "KILL", "kill" or "9": 0 when there is no such signal. */
const char *cl_codes_signal_name(int number);
int cl_codes_signal_number(const char *name);

#endif
