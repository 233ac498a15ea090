/* npy.h - reads NumPy's .npy files: arrays of one to three dimensions in little-endian and C order, as np.save writes
 * them. A file that cannot be read ends the program with a message. */
#ifndef CS_EXAMPLES_NPY_H
#define CS_EXAMPLES_NPY_H

#include "cspeed/cspeed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t rows, columns; /* rows: the first dimension; columns: the product of the other dimensions, 1 for a vector */
    int64_t height, width; /* H and W if the array is images (N, H, W); otherwise 1 and `columns` */
    char type[8];          /* NumPy's name of the type of the elements: "<f4", "<i8" or "<i4" */
    char *data;
} array;

_Noreturn static inline void refuse_as(cs_status status, const char *path, const char *why)
{
    char sentence[1024];
    snprintf(sentence, sizeof sentence, "%s: %s", path, why);
    cs_must(status, sentence);
    abort(); /* This is never reached, because cs_must ends the process. */
}

_Noreturn static inline void refuse(const char *path, const char *why)
{
    refuse_as(CS_BAD_FILE, path, why);
}

/* Reads {'descr': '<f4', 'fortran_order': False, 'shape': (100, 8), }, the header that NumPy writes. */
static inline void read_header(array *a, const char *header, const char *path)
{
    const char *type = strstr(header, "'descr': '"), *shape = strstr(header, "'shape': (");
    if (!type || !shape || !strstr(header, "'fortran_order': False"))
        refuse(path, "an array in C order is needed, as np.save(path, np.ascontiguousarray(a)) writes it");
    int64_t second = 1, third = 1;
    int found = sscanf(shape, "'shape': (%" SCNd64 ", %" SCNd64 ", %" SCNd64, &a->rows, &second, &third);
    if (sscanf(type, "'descr': '%7[^']'", a->type) != 1 || found < 1 || a->rows < 1 || second < 1 || third < 1)
        refuse(path, "an array of one to three dimensions, none of them empty, is needed");
    a->height = found == 3 ? second : 1;
    a->width = found == 3 ? third : second;
    a->columns = second * third;
}

static inline size_t element_bytes(const array *a, const char *path)
{
    if (strcmp(a->type, "<f4") != 0 && strcmp(a->type, "<i4") != 0 && strcmp(a->type, "<i8") != 0)
        refuse(path, "its type is not float32, int32 or int64 in little-endian order: a.astype('<f4') makes float32");
    return a->type[2] == '8' ? 8 : 4;
}

static inline array read_array(const char *path)
{
    array a = { 0 };
    unsigned char start[12];
    FILE *file = fopen(path, "rb");
    if (!file)
        refuse_as(CS_NOT_FOUND, path, strerror(errno));
    if (fread(start, 1, 12, file) != 12 || memcmp(start, "\x93NUMPY", 6) != 0)
        refuse(path, "it is no .npy file, as np.save(path, a) writes it");
    long wide = start[6] > 1, begin = wide ? 12 : 10;
    size_t length = (size_t)start[8] | (size_t)start[9] << 8 | (wide ? (size_t)start[10] << 16 : 0);
    char *header = calloc(length + 1, 1);
    if (!header || fseek(file, begin, SEEK_SET) != 0 || fread(header, 1, length, file) != length)
        refuse(path, "its header is cut off");
    read_header(&a, header, path);
    size_t bytes = (size_t)a.rows * (size_t)a.columns * element_bytes(&a, path);
    a.data = malloc(bytes);
    if (!a.data || fread(a.data, 1, bytes, file) != bytes)
        refuse(path, "it is shorter than its shape says");
    fclose(file);
    free(header);
    return a;
}

static inline float number_at(const array *a, int64_t index)
{
    float number;
    memcpy(&number, a->data + index * 4, 4);
    return number;
}

static inline int64_t whole_at(const array *a, int64_t index)
{
    int64_t wide;
    int32_t narrow;
    memcpy(&narrow, a->data + index * 4, 4);
    if (a->type[2] == '4')
        return narrow;
    memcpy(&wide, a->data + index * 8, 8);
    return wide;
}

#endif
