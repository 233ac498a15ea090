/* tensor.cuh - tensor-core instructions by inline assembly: mma, ldmatrix, and asynchronous copies (cp.async).
 *
 * An mma instruction multiplies matrix tiles in the registers of a warp. Below, g = lane / 4 and t = lane % 4. A
 * register of A or B holds two 16-bit elements; the element of the lower column (of A) or of the lower row (of B) is in
 * the register's low half. A lane holds these elements:
 *
 * - A (16 x 16) in four registers. Register 0: row g, columns 2t and 2t + 1. Register 1: row g + 8, columns 2t and 2t +
 *   1. Register 2: row g, columns 2t + 8 and 2t + 9. Register 3: row g + 8, columns 2t + 8 and 2t + 9.
 * - B (16 x 8) in two registers. Register 0: rows 2t and 2t + 1 of column g. Register 1: rows 2t + 8 and 2t + 9 of
 *   column g.
 * - C (16 x 8, fp32) in four registers. Registers 0 and 1: row g, columns 2t and 2t + 1. Registers 2 and 3: row g + 8,
 *   columns 2t and 2t + 1.
 *
 * So the C of one product, rounded to 16 bits, is the left half of an A: the results of two adjacent products are the A
 * of the next product. A load (ldmatrix) reads four 8 x 8 tiles from shared memory. Lane l passes the address of row l
 * % 8 of tile l / 8 (16 bytes, aligned to 16) and gets elements 2t and 2t + 1 of row g of each tile; a transposed load
 * gets these elements of column g. The PTX manual describes mma, ldmatrix and cp.async; all of them exist from compute
 * capability 8.0 on. tests/emulator implements the same functions on the host. */
#ifndef CE_DEVICE_TENSOR_CUH
#define CE_DEVICE_TENSOR_CUH

#include "device/cuda/kernel.cuh"

__device__ inline uint32_t ce_tensor_address(const void *shared)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

/* Computes c += a b, accumulated in fp32 (mma.m16n8k16). */
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

/* Loads four 8 x 8 tiles (ldmatrix.x4). `row` is the address in shared memory of the row that this lane passes. */
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

/* Returns two elements in one register, rounded to nearest, ties to even. */
template <typename T> __device__ inline uint32_t ce_tensor_pair(float low, float high)
{
    uint32_t pair;
    if constexpr (std::is_same_v<T, bf16>)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

/* Returns 2^x, approximately; a subnormal result is 0. */
__device__ inline float ce_tensor_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Returns 1 / x, approximately (with an error of at most one unit in the last place); a subnormal result is 0. */
__device__ inline float ce_tensor_reciprocal(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Starts an asynchronous copy of 16 bytes from global to shared memory. If `there` is false, writes 16 zero bytes
 * instead. Both addresses are aligned to 16 bytes. ce_tensor_commit puts the copies that a thread has started into a
 * group. */
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

/* Waits until at most the `open` youngest groups of copies of this thread are unfinished. Other threads see the copied
 * data after a barrier. */
template <int open> __device__ inline void ce_tensor_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(open) : "memory");
}

#endif
