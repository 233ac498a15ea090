/* tiles.h - the tile registers of AMX: eight registers, here always of 16 rows of 64 bytes.
 *
 * A row holds 16 fp32 sums, or 16 pairs of bf16 elements. CE_TILES_MULTIPLY adds the product of a tile `a` (16 rows of
 * c, 32 inner indices) and a tile `b` (16 pairs of inner indices, 16 columns of c) to a tile of sums.
 *
 * In the set of instructions `amx` these are instructions. In the other sets, and if CE_TILES_MODEL is defined, they
 * are plain C (tiles.c) with the same results bit for bit, so that kernels on tiles run on every CPU, for tests. The
 * registers belong to the calling thread. Any call of oneDNN may release them: a kernel calls ce_tiles_open at its
 * beginning and ce_tiles_close at its end. The model ends the process where the CPU would raise an exception.
 *
 * CE_TILES_LOAD and CE_TILES_STORE are inline assembly, because the intrinsics of GCC 12 do not tell the compiler that
 * they access memory: it moves or removes stores that come before them. */
#ifndef CE_DEVICE_CPU_TILES_H
#define CE_DEVICE_CPU_TILES_H

#include "cspeed/cspeed.h"

/* Sizes of a tile, in rows and bytes. CE_TILE_DEPTH: the inner indices of a tile. */
enum { CE_TILE_ROWS = 16, CE_TILE_ROW_BYTES = 64, CE_TILE_BYTES = 1024, CE_TILE_DEPTH = 32, CE_TILES = 8 };

void ce_tiles_open(void);  /* makes the eight tiles usable by the calling thread; their content is zero */
void ce_tiles_close(void); /* releases them */

/* Clang 14 defines the second pair of names. */
#if ((defined(__AMX_TILE__) && defined(__AMX_BF16__)) || (defined(__AMXTILE__) && defined(__AMXBF16__))) &&            \
    !defined(CE_TILES_MODEL)
#define CE_TILES_ARE_INSTRUCTIONS
#endif

#ifdef CE_TILES_ARE_INSTRUCTIONS
/* Memory from an address on, of unknown length, as an operand of an instruction. Clang wants a length, which it does not
 * use. */
#ifdef __clang__
#define CE_TILES_FROM(type, address) (*(type(*)[1 << 20])(address))
#else
#define CE_TILES_FROM(type, address) (*(type(*)[])(address))
#endif
typedef char __attribute__((may_alias)) ce_tiles_byte;
/* Loads 16 rows of 64 bytes; the rows are `stride` bytes apart. `tile` is a number from 0 to 7, written as digits. */
#define CE_TILES_LOAD(tile, from, stride)                                                                              \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile                                                                \
                     :                                                                                                 \
                     : "r"(from), "r"((int64_t)(stride)), "m"(CE_TILES_FROM(const ce_tiles_byte, from)))
#define CE_TILES_STORE(tile, to, stride)                                                                               \
    __asm__ volatile("tilestored %%tmm" #tile ", (%1,%2,1)"                                                            \
                     : "=m"(CE_TILES_FROM(ce_tiles_byte, to))                                                          \
                     : "r"(to), "r"((int64_t)(stride)))
#define CE_TILES_ZERO(tile) __asm__ volatile("tilezero %tmm" #tile)
#define CE_TILES_MULTIPLY(sums, a, b) __asm__ volatile("tdpbf16ps %tmm" #b ", %tmm" #a ", %tmm" #sums)
#else
#define CE_TILES_LOAD(tile, from, stride) ce_tiles_load(tile, from, stride)
#define CE_TILES_STORE(tile, to, stride) ce_tiles_store(tile, to, stride)
#define CE_TILES_ZERO(tile) ce_tiles_zero(tile)
#define CE_TILES_MULTIPLY(sums, a, b) ce_tiles_multiply(sums, a, b)
void ce_tiles_load(int tile, const void *from, int64_t stride);
void ce_tiles_store(int tile, void *to, int64_t stride);
void ce_tiles_zero(int tile);
void ce_tiles_multiply(int sums, int a, int b);
#endif

#endif
