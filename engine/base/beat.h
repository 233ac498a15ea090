/* beat.h - the record a rank leaves for its launcher: how far it is, and where it waits.
 *
 * The launcher maps a memfd a rank (inherited as file descriptor CSPEED_BEAT_FD) and reads it when a rank dies or
 * stalls; without the variable the record is private and costs the same. Behind the record a rank writes its C stack
 * when it gets the signal that the record names. */
#ifndef CS_BASE_BEAT_H
#define CS_BASE_BEAT_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct {
    _Atomic int64_t step;         /* optimizer steps finished */
    _Atomic int64_t since;        /* CLOCK_MONOTONIC nanoseconds of the last change */
    _Atomic int32_t collective;   /* index into cs_beat_names; 0: none */
    _Atomic int32_t stack_signal; /* makes the rank write its stack; 0: nobody listens */
    _Atomic int32_t stacks;       /* written so far */
    _Atomic int32_t stack_bytes;  /* of the last one, from CS_BEAT_STACK on */
    _Atomic int64_t kept; /* 1 + the step of the checkpoint from which this program, started again, goes on; 0: none */
    _Atomic int32_t gave_up; /* 1: started again, the program would end the same way */
} cs_beat;

enum { CS_BEAT_STACK = 4096, CS_BEAT_BYTES = 64 << 10 }; /* of the memfd */

extern const char *const cs_beat_names[]; /* "", "barrier", "all_reduce", ... */
enum {
    CS_BEAT_NONE,
    CS_BEAT_BARRIER,
    CS_BEAT_ALL_REDUCE,
    CS_BEAT_REDUCE_SCATTER,
    CS_BEAT_ALL_GATHER,
    CS_BEAT_BROADCAST,
    CS_BEAT_SEND,
    CS_BEAT_RECEIVE
};

cs_beat *cs_beat_own(void); /* never NULL */
void cs_beat_step(int64_t step);
void cs_beat_touch(void);        /* tells the launcher's watchdog that this rank makes progress within a step */
void cs_beat_keep(int64_t step); /* of a checkpoint: see kept */
void cs_beat_give_up(void);
void cs_beat_enter(int collective);
void cs_beat_leave(void);

#endif
