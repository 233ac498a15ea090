/* protobuf.c - reads the fields of a message in the encoding of Protocol Buffers.
 *
 * A field is a key (number << 3 | type) and a content. The type says what the content is: 0 a number of variable
 * length, 1 eight bytes, 2 a length and that many bytes, 5 four bytes. The types 3 and 4, groups, are not in use any
 * more. */
#include "text/protobuf.h"

#include <string.h>

static bool read_number(ce_protobuf *message, uint64_t *number)
{
    *number = 0;
    for (int shift = 0; shift < 64 && message->size > 0; shift += 7) {
        unsigned char byte = (unsigned char)*message->bytes++;
        message->size--;
        *number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool read_fixed(ce_protobuf *message, size_t width, uint64_t *number)
{
    *number = 0;
    if (message->size < width)
        return false;
    for (size_t i = 0; i < width; i++)
        *number |= (uint64_t)(unsigned char)message->bytes[i] << 8 * i;
    message->bytes += width;
    message->size -= width;
    return true;
}

static bool read_bytes(ce_protobuf *message, ce_protobuf_field *field)
{
    uint64_t size;
    if (!read_number(message, &size) || size > message->size)
        return false;
    field->bytes = message->bytes;
    field->size = (size_t)size;
    message->bytes += size;
    message->size -= size;
    return true;
}

static bool read_field(ce_protobuf *message, ce_protobuf_field *field)
{
    uint64_t key;
    if (!read_number(message, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX)
        return false;
    field->number = (uint32_t)(key >> 3);
    switch (key & 7) {
    case 0:
        return read_number(message, &field->value);
    case 1:
        return read_fixed(message, 8, &field->value);
    case 2:
        return read_bytes(message, field);
    case 5:
        return read_fixed(message, 4, &field->value);
    default:
        return false;
    }
}

bool ce_protobuf_next(ce_protobuf *message, ce_protobuf_field *field)
{
    *field = (ce_protobuf_field){ 0 };
    if (message->size == 0 || message->damaged)
        return false;
    message->damaged = !read_field(message, field);
    return !message->damaged;
}

ce_protobuf ce_protobuf_inside(const ce_protobuf_field *field)
{
    return (ce_protobuf){ field->bytes, field->size, field->bytes == NULL };
}

float ce_protobuf_float(const ce_protobuf_field *field)
{
    uint32_t bits = (uint32_t)field->value;
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}
