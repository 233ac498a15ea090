/* protobuf.h - reads the fields of a message in Protocol Buffers' encoding. */
#ifndef CS_TEXT_PROTOBUF_H
#define CS_TEXT_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *bytes;
    size_t size; /* number of bytes that are not read yet */
    bool damaged;
} ce_protobuf;

typedef struct {
    uint32_t number;
    uint64_t value;    /* of a number, or the bits of a floating-point number */
    const char *bytes; /* of a text, bytes or message; otherwise NULL */
    size_t size;
} ce_protobuf_field;

/* Reads the next field, in the order of the file. False: the message has ended, or it is damaged. */
bool ce_protobuf_next(ce_protobuf *message, ce_protobuf_field *field);

ce_protobuf ce_protobuf_inside(const ce_protobuf_field *field); /* the message that is the field's content */
float ce_protobuf_float(const ce_protobuf_field *field);

#endif
