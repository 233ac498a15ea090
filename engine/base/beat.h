/* beat.h - heartbeat: a record in shared memory by which a rank tells its launcher which step and which collective it
 * is executing.
 *
 * The launcher creates one memfd for each rank, and reads it when the rank dies or stalls. The rank inherits the memfd;
 * the environment variable CSPEED_BEAT_FD holds the number of the file descriptor. Without this variable the record is
 * in private memory; an update costs the same there. When a rank gets the signal stack_signal, it writes its C stack
 * into the memfd, behind the record. */
#ifndef CS_BASE_BEAT_H
#define CS_BASE_BEAT_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct {
    _Atomic int64_t step;         /* optimizer steps finished */
    _Atomic int64_t since;        /* time of the last change: CLOCK_MONOTONIC, nanoseconds */
    _Atomic int32_t collective;   /* the collective that is running: index into ce_beat_names; 0: none */
    _Atomic int32_t stack_signal; /* the signal that makes the rank write its stack; 0: no handler yet */
    _Atomic int32_t stacks;       /* number of stacks written so far */
    _Atomic int32_t stack_bytes;  /* bytes of the last stack, which begins at CS_BEAT_STACK */
    _Atomic int64_t kept;         /* 1 + the step of the checkpoint from which a restart continues; 0: there is none */
    _Atomic int32_t gave_up;      /* 1: a restart is useless, because the program would fail in the same way */
    _Atomic int32_t saves;        /* 1: the program saves a checkpoint when the launcher asks for one */
    _Atomic int32_t save_asked;   /* 1: the launcher asks for a checkpoint; the rank sets it to 0 when it reads it */
} ce_beat;

enum { CS_BEAT_STACK = 4096, CS_BEAT_BYTES = 64 << 10 }; /* offset of the stack, and size of the memfd, in bytes */

/* What a rank may be doing. A row has the constant CS_BEAT_..., the name that cspeed shows, and DeepSpeed's name. The
 * collectives come first; from SEND on, the rows are messages. */
#define CS_BEATS(BEAT)                                                                                                 \
    BEAT(BARRIER, "barrier", "barrier")                                                                                \
    BEAT(ALL_REDUCE, "all_reduce", "all_reduce")                                                                       \
    BEAT(REDUCE_SCATTER, "reduce_scatter", "reduce_scatter_tensor")                                                    \
    BEAT(ALL_GATHER, "all_gather", "all_gather_into_tensor")                                                           \
    BEAT(BROADCAST, "broadcast", "broadcast")                                                                          \
    BEAT(REDUCE, "reduce", "reduce")                                                                                   \
    BEAT(SCATTER, "scatter", "scatter")                                                                                \
    BEAT(GATHER, "gather", "gather")                                                                                   \
    BEAT(ALL_TO_ALL, "all_to_all", "all_to_all_single")                                                                \
    BEAT(SEND, "send", "send")                                                                                         \
    BEAT(RECEIVE, "receive", "recv")

#define CS_BEAT_CONSTANT(constant, name, deepspeed) CS_BEAT_##constant,
enum { CS_BEAT_NONE, CS_BEATS(CS_BEAT_CONSTANT) CS_BEAT_COUNT };
extern const char *const ce_beat_names[CS_BEAT_COUNT]; /* "", "barrier", "all_reduce", ... */

ce_beat *ce_beat_own(void); /* this rank's record; never NULL */
void ce_beat_step(int64_t step);
void ce_beat_touch(void);        /* tells the launcher's watchdog that this rank makes progress within a step */
void ce_beat_keep(int64_t step); /* a checkpoint of this step is complete: sets `kept` */
void ce_beat_give_up(void);
void ce_beat_offer_saves(void);     /* sets `saves` */
int32_t ce_beat_take_request(void); /* returns `save_asked` and sets it to 0 */
void ce_beat_enter(int collective);
void ce_beat_leave(void);

#endif
