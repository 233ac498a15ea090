/* switch.h - context switch between stacks (fibers), on x86-64 and AArch64. */
#ifndef CS_EMULATOR_SWITCH_H
#define CS_EMULATOR_SWITCH_H

#include <stdint.h>

/* Saves the callee-saved registers on the current stack, stores the top of the current stack in *from, and continues on
 * stack `to`. */
extern "C" void emulator_switch_stack(void **from, void *to);

#if defined(__x86_64__)
asm(R"(
.text
.globl emulator_switch_stack
.hidden emulator_switch_stack
.type emulator_switch_stack, @function
emulator_switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emulator_switch_stack, .-emulator_switch_stack
)");

/* Prepares a new stack and returns its top. The first switch to it calls start(). */
inline void *emulator_new_stack(char *top, void (*start)())
{
    void **words = (void **)((uintptr_t)top & ~(uintptr_t)15);
    *--words = nullptr; /* in place of a return address, as start() never returns; aligns the stack */
    *--words = (void *)start;
    for (int i = 0; i < 6; i++)
        *--words = nullptr;
    return words;
}
#elif defined(__aarch64__)
asm(R"(
.text
.globl emulator_switch_stack
.hidden emulator_switch_stack
.type emulator_switch_stack, %function
emulator_switch_stack:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size emulator_switch_stack, .-emulator_switch_stack
)");

inline void *emulator_new_stack(char *top, void (*start)())
{
    void **words = (void **)((uintptr_t)top & ~(uintptr_t)15) - 20;
    for (int i = 0; i < 20; i++)
        words[i] = nullptr;
    words[11] = (void *)start; /* register x30, the return address */
    return words;
}
#else
#error "the emulator switches stacks on x86-64 and AArch64 only; build with -DCSPEED_EMULATOR=OFF"
#endif
#endif
