/* shadow.h - the instrumented module's view of memory accesses: races.cc finds data races and uninitialised shared
 * memory, order.cc knows which operations of streams are ordered, traffic.cc counts the bytes of every kernel.
 *
 * libcspeed_cuda_emulated_instrumented.so holds the same kernels as the ordinary emulated module, compiled with
 * -fsanitize=thread, so that each load and store of the kernels calls a hook of races.cc. In the ordinary emulated
 * module no kernel calls a hook, and nothing is checked or counted. */
#ifndef CS_EMULATOR_SHADOW_H
#define CS_EMULATOR_SHADOW_H

#include "emulator.h"
#include "traffic.h"

#ifdef CS_EMULATOR_INSTRUMENTED
constexpr bool shadow_on = true;
#else
constexpr bool shadow_on = false;
#endif

/* A span is what a warp executes between two synchronizations (barriers and warp-wide calls). Spans are numbered in the
 * order in which they begin; blocks and operations are identified by their first span. A copy or a product is one
 * span. */
using shadow_span = uint64_t;

/* ---- races.cc ---- */

void shadow_operation();                              /* an operation of a stream begins */
void shadow_block(unsigned warps);                    /* a block of its kernel begins */
void shadow_barrier(unsigned warps);                  /* all threads of the block are at a barrier */
void shadow_warp(unsigned warp);                      /* the lanes of a warp have synchronized */
void shadow_forget(const void *memory, size_t bytes); /* device memory was freed */
/* Notes that the running operation, named `what`, accesses device memory; host memory is ignored. */
void shadow_touch(const char *what, const void *memory, size_t bytes, emulator_access access);

/* ---- order.cc ---- */

void order_begin(shadow_span first);          /* notes that the running operation begins with this span */
void order_name(const char *name);            /* sets the running operation's name */
bool order_is_before(shadow_span span);       /* whether the operation of this span precedes the running one */
const char *order_describe(shadow_span span); /* returns "kernel NAME in stream 2" or the like */

/* ---- traffic.cc ---- */

struct traffic_counts {
    uint64_t requested, distinct, sectors;
};
extern traffic_counts traffic_now[2]; /* [0]: bytes that the running operation has read; [1]: written */
void traffic_begin();
void traffic_name(const char *name);

#endif
