/* dequantize.c - the values of 4-bit weights. */
#include "base/four_bit.h"
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"
#include "device/cpu/lanes.h"

enum { MIN_ROWS = 8 };

static float absmax_of(const ce_dequantize *job, int64_t block)
{
    const cs_four_bit *matrix = &job->matrix;
    if (!matrix->nested)
        return ((const float *)matrix->absmax)[block];
    /* This function is compiled once for all sets of instructions, so that each of them computes the same bits. */
    return ce_four_bit_absmax(matrix->absmax, matrix->nested, block,
                              ce_divide_up(matrix->rows * matrix->columns, CE_FOUR_BIT_BLOCK));
}

#ifdef __AVX512F__
/* Computes 32 values from 16 bytes of codes: the 16 values of the codes fill one register, from which each lane takes
 * one. */
static void decode_run(float *out, const uint8_t *codes, const float *values, float absmax)
{
    const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    __m512 table = _mm512_mul_ps(_mm512_loadu_ps(values), _mm512_set1_ps(absmax));
    __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i_u *)codes));
    __m512 even = _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), table);
    __m512 odd = _mm512_permutexvar_ps(bytes, table); /* the instruction reads the low four bits only */
    _mm512_storeu_ps(out, _mm512_permutex2var_ps(even, first, odd));
    _mm512_storeu_ps(out + 16, _mm512_permutex2var_ps(even, second, odd));
}
enum { RUN = 32 };
#else
enum { RUN = 2 };
static void decode_run(float *out, const uint8_t *codes, const float *values, float absmax)
{
    out[0] = values[*codes >> 4] * absmax;
    out[1] = values[*codes & 15] * absmax;
}
#endif

/* Computes the values of elements [from, to) of one block. */
static void decode(float *out, const ce_dequantize *job, int64_t from, int64_t to)
{
    const uint8_t *codes = job->matrix.codes;
    float absmax = absmax_of(job, from / CE_FOUR_BIT_BLOCK);
    int64_t at = from;
    for (; at % 2 == 0 && at + RUN <= to; at += RUN)
        decode_run(out + at - from, codes + at / 2, job->values, absmax);
    for (; at < to; at++)
        out[at - from] = job->values[codes[at / 2] >> (at % 2 ? 0 : 4) & 15] * absmax;
}

static void dequantize_chunk(const void *argument, int64_t row, int64_t at, int64_t count)
{
    const ce_dequantize *job = argument;
    int64_t from = (job->row + row) * job->matrix.columns + job->column + at;
    float out[CE_CHUNK];
    for (int64_t done = 0, next; done < count; done = next) {
        next = ((from + done) / CE_FOUR_BIT_BLOCK + 1) * CE_FOUR_BIT_BLOCK - from;
        next = next < count ? next : count;
        decode(out + done, job, from + done, from + next);
    }
    ce_elements_write(job->y, row * cs_columns(job->y) + at, count, out);
}

void ce_cpu_dequantize(cs_device *device, const ce_dequantize *job)
{
    ce_cpu_walk_rows(device, cs_rows(job->y), cs_columns(job->y), MIN_ROWS, dequantize_chunk, job);
}
