/* tensor.cuh - tensor-core instructions by inline assembly: mma, ldmatrix, and asynchronous copies (cp.async).
 *
 * A product multiplies matrix tiles in the registers of a warp; g = lane / 4, t = lane % 4. A register holds two
 * 16-bit elements; the element of the lower column (of A) or row (of B) is in its low half:
 *
 *     A (16 x 16): register 0 holds row g,     columns 2t, 2t + 1     B (16 x 8): 0: rows 2t, 2t + 1 of column g
 *                           1       row g + 8, columns 2t, 2t + 1                 1: rows 2t + 8, 2t + 9 of column g
 *                           2       row g,     columns 2t + 8, 2t + 9   C (16 x 8, fp32): 0, 1: row g, columns 2t,
 *                           3       row g + 8, columns 2t + 8, 2t + 9      2t + 1; 2, 3: the same of row g + 8
 *
 * So the C of one product, rounded to 16 bits, is the left half of an A: the results of two products side by side
 * are the A of the next one. A load reads four 8 x 8 tiles from shared memory. Lane l passes the address of row l %
 * 8 of tile l / 8 (16 bytes, aligned to 16) and gets elements 2t, 2t + 1 of row g of each tile; a transposed load
 * gets those of column g. The PTX manual describes mma, ldmatrix and cp.async; all exist from compute capability 8.0
 * on. tests/emulator implements the same functions on the host. */
#ifndef CS_DEVICE_TENSOR_CUH
#define CS_DEVICE_TENSOR_CUH

#include "device/cuda/kernel.cuh"

__device__ inline uint32_t ce_tensor_address(const void *shared)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

/* c += a b, accumulated in fp32 (mma.m16n8k16). */
template <typename T>
__device__ inline void ce_tensor_multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    if constexpr (std::is_same_v<T, bf16>)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Loads four 8 x 8 tiles (ldmatrix.x4). row: this lane's row, in shared memory. */
__device__ inline void ce_tensor_load(uint32_t (&tiles)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
                 : "r"(ce_tensor_address(row))
                 : "memory");
}

__device__ inline void ce_tensor_load_transposed(uint32_t (&tiles)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
                 : "r"(ce_tensor_address(row))
                 : "memory");
}

/* Two elements in one register, rounded to nearest even. */
template <typename T> __device__ inline uint32_t ce_tensor_pair(float low, float high)
{
    uint32_t pair;
    if constexpr (std::is_same_v<T, bf16>)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

/* 2^x, approximate; subnormal results are 0. */
__device__ inline float ce_tensor_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Starts an asynchronous copy of 16 bytes from global to shared memory; if `there` is false, writes 16 zeros. Both
 * addresses are aligned to 16. ce_tensor_commit puts the copies that a thread has started into a group. */
__device__ inline void ce_tensor_copy(void *shared, const void *global, bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(ce_tensor_address(shared)), "l"(__cvta_generic_to_global(global)), "r"(there ? 16 : 0)
                 : "memory");
}

__device__ inline void ce_tensor_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most the `open` youngest groups of this thread are unfinished. Other threads see the copied data after
 * a barrier. */
template <int open> __device__ inline void ce_tensor_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(open) : "memory");
}

#endif
