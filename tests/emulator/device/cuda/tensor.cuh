/* tensor.cuh - emulated tensor-core instructions: the functions of engine/device/cuda/tensor.cuh, as loops over the
 * data of a warp's lanes. The comments of the functions are in engine/device/cuda/tensor.cuh.
 *
 * An asynchronous copy happens as late as possible: the target of a copy is NaN until the kernel waits for the copy's
 * group. */
#ifndef CE_DEVICE_TENSOR_CUH
#define CE_DEVICE_TENSOR_CUH

#include "device/cuda/kernel.cuh"

/* ---- background.cc ---- */
void emulator_copy_begin(void *shared, const void *global, bool there);
void emulator_copy_commit();
void emulator_copy_wait(size_t open);
void emulator_check_aligned(const char *what, const void *address);

template <typename T> float emulator_half_of(uint32_t pair, unsigned upper)
{
    T value;
    uint16_t bits = (uint16_t)(pair >> 16 * upper);
    memcpy((void *)&value, &bits, sizeof bits);
    return (float)value;
}

struct emulator_factors {
    uint32_t a[4], b[2];
};

template <typename T>
CS_EMULATOR_UNSEEN inline void ce_tensor_multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                                  CS_EMULATOR_HERE)
{
    emulator_factors mine = { { a[0], a[1], a[2], a[3] }, { b0, b1 } };
    const unsigned char *slots =
        emulator_exchange_warp("ce_tensor_multiply", 0xffffffffu, &mine, sizeof mine, file, line);
    unsigned g = emulator_lane() / 4, t = emulator_lane() % 4;
    for (unsigned i = 0; i < 4; i++) {
        unsigned column = 2 * t + i % 2;
        for (unsigned k = 0; k < 16; k++) {
            emulator_factors row, other;
            memcpy(&row, slots + (g * 4 + k % 8 / 2) * EMULATOR_SLOT, sizeof row);
            memcpy(&other, slots + (column * 4 + k % 8 / 2) * EMULATOR_SLOT, sizeof other);
            c[i] += emulator_half_of<T>(row.a[i / 2 + k / 8 * 2], k % 2) * emulator_half_of<T>(other.b[k / 8], k % 2);
        }
    }
}

/* Returns element (row, column) of a tile. The lane whose number is tile * 8 + row has passed the address of this
 * row. */
CS_EMULATOR_UNSEEN inline uint16_t emulator_tile_element(const unsigned char *slots, unsigned tile, unsigned row,
                                                         unsigned column)
{
    const unsigned char *from;
    uint16_t bits;
    memcpy(&from, slots + (tile * 8 + row) * EMULATOR_SLOT, sizeof from);
    memcpy(&bits, from + 2 * column, sizeof bits);
    return bits;
}

CS_EMULATOR_UNSEEN inline void emulator_tile_load(uint32_t (&tiles)[4], const void *row, bool transposed,
                                                  const char *what, const char *file, int line)
{
    emulator_check_aligned(what, row);
    const unsigned char *slots = emulator_exchange_warp(what, 0xffffffffu, &row, sizeof row, file, line);
    unsigned g = emulator_lane() / 4, t = emulator_lane() % 4;
    emulator_saw(row, 16, EMULATOR_READ);
    for (unsigned tile = 0; tile < 4; tile++) {
        uint16_t low =
            transposed ? emulator_tile_element(slots, tile, 2 * t, g) : emulator_tile_element(slots, tile, g, 2 * t);
        uint16_t high = transposed ? emulator_tile_element(slots, tile, 2 * t + 1, g)
                                   : emulator_tile_element(slots, tile, g, 2 * t + 1);
        tiles[tile] = (uint32_t)high << 16 | low;
    }
}

inline void ce_tensor_load(uint32_t (&tiles)[4], const void *row, CS_EMULATOR_HERE)
{
    emulator_tile_load(tiles, row, false, "ce_tensor_load", file, line);
}

inline void ce_tensor_load_transposed(uint32_t (&tiles)[4], const void *row, CS_EMULATOR_HERE)
{
    emulator_tile_load(tiles, row, true, "ce_tensor_load_transposed", file, line);
}

template <typename T> inline uint32_t ce_tensor_pair(float low, float high)
{
    T pair[2] = { T(low), T(high) };
    uint32_t bits;
    memcpy(&bits, (const void *)pair, sizeof bits);
    return bits;
}

inline float ce_tensor_exp2(float x)
{
    float y = exp2f(x);
    return y < 0x1p-126f ? 0 : y;
}

inline float ce_tensor_reciprocal(float x)
{
    float y = 1 / x;
    return fabsf(y) < 0x1p-126f ? copysignf(0, y) : y;
}

inline void ce_tensor_copy(void *shared, const void *global, bool there)
{
    emulator_copy_begin(shared, global, there);
}

inline void ce_tensor_commit()
{
    emulator_copy_commit();
}

template <int open> inline void ce_tensor_wait()
{
    emulator_copy_wait(open);
}

#endif
