/* protobuf.h - reads the fields of a message in the encoding of Protocol Buffers. */
#ifndef CE_TEXT_PROTOBUF_H
#define CE_TEXT_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *bytes;
    size_t size; /* number of bytes that have not been read yet */
    bool damaged;
} ce_protobuf;

typedef struct {
    uint32_t number;
    uint64_t value;    /* value of a number, or the bits of a floating-point number */
    const char *bytes; /* content of a text, bytes or a message; otherwise NULL */
    size_t size;
} ce_protobuf_field;

/* Reads the next field, in the order of the file. Returns false if the message has ended or is damaged. */
bool ce_protobuf_next(ce_protobuf *message, ce_protobuf_field *field);

ce_protobuf ce_protobuf_inside(const ce_protobuf_field *field); /* Returns the message that is the field's content. */
float ce_protobuf_float(const ce_protobuf_field *field);

#endif
