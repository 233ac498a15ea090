/* beat.h - heartbeat: a record in shared memory by which a rank tells its launcher where in the training it is: the
 * step, the phase, the unit, the micro-batch, and the collective.
 *
 * The launcher creates one memfd for each rank, and reads it when the rank dies or stalls. The rank inherits the memfd;
 * the environment variable CSPEED_BEAT_FD holds the number of the file descriptor. If the variable is not set, the
 * record is in private memory, where an update costs the same. When a rank gets the signal stack_signal, it writes its
 * C stack into the memfd, behind the record. */
#ifndef CE_BASE_BEAT_H
#define CE_BASE_BEAT_H

#include <stdatomic.h>
#include <stdint.h>

/* The axes of the device mesh along which a group of ranks communicates, from the outside to the inside. A comm of all
 * ranks, or of another group, has CE_BEAT_WORLD. */
enum { CE_BEAT_WORLD, CE_BEAT_DP_REPLICATE, CE_BEAT_DP_SHARD, CE_BEAT_TP, CE_BEAT_AXES };
/* The names of the axes: "" for CE_BEAT_WORLD, then "dp_replicate", ... */
extern const char *const ce_beat_axes[CE_BEAT_AXES];

/* The phases of a micro-batch, in their order. CE_BEAT_NO_PHASE: the rank is between two phases, or does not train. */
enum { CE_BEAT_NO_PHASE, CE_BEAT_EVALUATION, CE_BEAT_FORWARD, CE_BEAT_BACKWARD, CE_BEAT_UPDATE, CE_BEAT_PHASES };
/* The names of the phases: "" for CE_BEAT_NO_PHASE, then "evaluation", ... */
extern const char *const ce_beat_phases[CE_BEAT_PHASES];

enum { CE_BEAT_NAME = 64 }; /* bytes of a unit's name with its zero byte; a longer name is cut */

typedef struct {
    _Atomic int64_t step;  /* number of finished optimizer steps */
    _Atomic int64_t since; /* time of the last change of the record, in nanoseconds of CLOCK_MONOTONIC */
    /* For each axis the running collective, as index into ce_beat_names; 0 if none is running. Two threads of a rank
     * communicate at the same time, each along an axis of its own. */
    _Atomic int32_t collectives[CE_BEAT_AXES];
    _Atomic int32_t phase; /* as index into ce_beat_phases */
    _Atomic int32_t unit;  /* 1 + number of the model's unit that the phase has reached; 0: none */
    _Atomic int32_t micro; /* number of the micro-batch in its step, from 1; 0 if a step has only one */
    /* The name of `unit`. Only the main thread writes it. A launcher that reads it while it is written may get a mixture
     * of two names, but a rank that stalls does not write. */
    char name[CE_BEAT_NAME];
    _Atomic int32_t stack_signal; /* the signal that makes the rank write its C stack; 0 if no handler is installed */
    _Atomic int32_t stacks;       /* number of C stacks written so far */
    _Atomic int32_t stack_bytes;  /* length in bytes of the last C stack, which begins at CE_BEAT_STACK */
    /* 1 + the step of the checkpoint from which a restart continues; 0 if there is no checkpoint. */
    _Atomic int64_t kept;
    _Atomic int32_t gave_up; /* 1 if a restart is useless, because the program would fail in the same way */
    _Atomic int32_t saves;   /* 1 if the program saves a checkpoint when a signal asks for one */
} ce_beat;

/* Offset of the C stack in the memfd, and size of the memfd, in bytes. */
enum { CE_BEAT_STACK = 4096, CE_BEAT_BYTES = 64 << 10 };

/* The operations that a rank may be executing. Each line gives the name of a constant without its prefix CE_BEAT_, the
 * name that cspeed shows, and DeepSpeed's name. The collectives come first; SEND and the lines after it are messages
 * between two ranks. */
#define CE_BEATS(BEAT)                                                                                                 \
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

#define CE_BEAT_CONSTANT(constant, name, deepspeed) CE_BEAT_##constant,
enum { CE_BEAT_NONE, CE_BEATS(CE_BEAT_CONSTANT) CE_BEAT_COUNT };
/* The names of the operations: "" for CE_BEAT_NONE, then "barrier", "all_reduce", ... */
extern const char *const ce_beat_names[CE_BEAT_COUNT];

ce_beat *ce_beat_own(void); /* returns this rank's record, which is never NULL */
void ce_beat_step(int64_t step);
void ce_beat_touch(void);        /* tells the launcher's watchdog that this rank makes progress within a step */
void ce_beat_keep(int64_t step); /* records in `kept` that the checkpoint of step number `step` is complete */
void ce_beat_give_up(void);
void ce_beat_offer_saves(void); /* sets `saves` to 1 */
/* Gives the calling thread, which is the main thread, a stack for signal handlers (SA_ONSTACK) if it has none. With this
 * stack it can report an overflow of its own stack. Every handler needs it for another reason too: code that oneDNN
 * generates may let the stack pointer point into the heap, where the frame of a signal would overwrite other data. */
void ce_beat_use_signal_stack(void);
/* A phase begins; `micro` is as in ce_beat. CE_BEAT_NO_PHASE: a phase ends. */
void ce_beat_phase(int phase, int64_t micro);
void ce_beat_unit(int unit, const char *name); /* the phase reaches the unit of this number and name */
void ce_beat_no_unit(void);                    /* the phase has left its last unit */
void ce_beat_enter(int axis, int collective);
void ce_beat_leave(int axis);

#endif
