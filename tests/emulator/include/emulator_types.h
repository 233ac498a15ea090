/* emulator_types.h - dim3 and the vector types, with CUDA's alignments. */
#ifndef CS_EMULATOR_TYPES_H
#define CS_EMULATOR_TYPES_H

#define CS_EMULATOR_VECTOR(type, name, bytes1, bytes2, bytes4)                                                         \
    typedef struct __attribute__((aligned(bytes1))) name##1                                                            \
    {                                                                                                                  \
        type x;                                                                                                        \
    }                                                                                                                  \
    name##1;                                                                                                           \
    typedef struct __attribute__((aligned(bytes2))) name##2                                                            \
    {                                                                                                                  \
        type x, y;                                                                                                     \
    }                                                                                                                  \
    name##2;                                                                                                           \
    typedef struct __attribute__((aligned(bytes1))) name##3                                                            \
    {                                                                                                                  \
        type x, y, z;                                                                                                  \
    }                                                                                                                  \
    name##3;                                                                                                           \
    typedef struct __attribute__((aligned(bytes4))) name##4                                                            \
    {                                                                                                                  \
        type x, y, z, w;                                                                                               \
    }                                                                                                                  \
    name##4;

CS_EMULATOR_VECTOR(signed char, char, 1, 2, 4)
CS_EMULATOR_VECTOR(unsigned char, uchar, 1, 2, 4)
CS_EMULATOR_VECTOR(short, short, 2, 4, 8)
CS_EMULATOR_VECTOR(unsigned short, ushort, 2, 4, 8)
CS_EMULATOR_VECTOR(int, int, 4, 8, 16)
CS_EMULATOR_VECTOR(unsigned, uint, 4, 8, 16)
CS_EMULATOR_VECTOR(long long, longlong, 8, 16, 16)
CS_EMULATOR_VECTOR(unsigned long long, ulonglong, 8, 16, 16)
CS_EMULATOR_VECTOR(float, float, 4, 8, 16)
CS_EMULATOR_VECTOR(double, double, 8, 16, 16)

#ifdef __cplusplus
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned columns = 1, unsigned rows = 1, unsigned layers = 1) : x(columns), y(rows), z(layers)
    {
    }
};

#define CS_EMULATOR_MAKE(type, name)                                                                                   \
    inline name##1 make_##name##1(type x)                                                                              \
    {                                                                                                                  \
        return { x };                                                                                                  \
    }                                                                                                                  \
    inline name##2 make_##name##2(type x, type y)                                                                      \
    {                                                                                                                  \
        return { x, y };                                                                                               \
    }                                                                                                                  \
    inline name##3 make_##name##3(type x, type y, type z)                                                              \
    {                                                                                                                  \
        return { x, y, z };                                                                                            \
    }                                                                                                                  \
    inline name##4 make_##name##4(type x, type y, type z, type w)                                                      \
    {                                                                                                                  \
        return { x, y, z, w };                                                                                         \
    }

CS_EMULATOR_MAKE(signed char, char)
CS_EMULATOR_MAKE(unsigned char, uchar)
CS_EMULATOR_MAKE(short, short)
CS_EMULATOR_MAKE(unsigned short, ushort)
CS_EMULATOR_MAKE(int, int)
CS_EMULATOR_MAKE(unsigned, uint)
CS_EMULATOR_MAKE(long long, longlong)
CS_EMULATOR_MAKE(unsigned long long, ulonglong)
CS_EMULATOR_MAKE(float, float)
CS_EMULATOR_MAKE(double, double)
#else
typedef struct dim3 {
    unsigned x, y, z;
} dim3;
#endif
#endif
