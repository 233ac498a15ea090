/* record.c - encodes TensorBoard event files: three kinds of protobuf messages, framed as TFRecords. */
#include "monitor/record.h"
#include "base/crc.h"
#include "base/must.h"

#include <string.h>

/* Protobuf wire types. A field is encoded as its number and wire type, then its value. */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_NUMBER = 2, SESSION_STATUS = 1, STATUS_START = 1 };
enum { HEAD = 12, TAIL = 4 };

static void put(ce_record *record, const void *bytes, size_t count)
{
    CE_ASSERT(record->count + count <= CE_RECORD_BYTES);
    memcpy(record->bytes + record->count, bytes, count);
    record->count += count;
}

static void put_little(ce_record *record, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        put(record, &(unsigned char){ (unsigned char)(value >> 8 * i) }, 1);
}

static void put_varint(ce_record *record, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        put_little(record, (value & 127) | 128, 1);
    put_little(record, value, 1);
}

static void put_key(ce_record *record, int field, int wire)
{
    put_varint(record, (uint64_t)(field << 3 | wire));
}

static void put_text(ce_record *record, int field, const char *text)
{
    put_key(record, field, BYTES);
    put_varint(record, strlen(text));
    put(record, text, strlen(text));
}

static uint32_t masked(const void *bytes, size_t count)
{
    uint32_t crc = ce_crc32c(0, bytes, count);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static ce_record begin(double time, int64_t step)
{
    ce_record record = { .count = HEAD };
    uint64_t bits;
    memcpy(&bits, &time, sizeof bits);
    put_key(&record, EVENT_TIME, FIXED64);
    put_little(&record, bits, 8);
    if (step) {
        put_key(&record, EVENT_STEP, VARINT);
        put_varint(&record, (uint64_t)step);
    }
    return record;
}

static void end(ce_record *record)
{
    size_t message = record->count - HEAD, whole = record->count;
    record->count = 0;
    put_little(record, message, 8);
    put_little(record, masked(record->bytes, 8), 4);
    record->count = whole;
    put_little(record, masked(record->bytes + HEAD, message), TAIL);
}

ce_record ce_record_version(double time)
{
    ce_record record = begin(time, 0);
    put_text(&record, EVENT_VERSION, "brain.Event:2");
    end(&record);
    return record;
}

ce_record ce_record_start(double time, int64_t step)
{
    ce_record record = begin(time, step);
    put_key(&record, EVENT_SESSION, BYTES);
    put_varint(&record, 2);
    put_key(&record, SESSION_STATUS, VARINT);
    put_varint(&record, STATUS_START);
    end(&record);
    return record;
}

static size_t varint_bytes(uint64_t value)
{
    size_t bytes = 1;
    while (value >>= 7)
        bytes++;
    return bytes;
}

ce_record ce_record_scalar(double time, int64_t step, const char *tag, float value)
{
    ce_record record = begin(time, step);
    uint32_t bits;
    size_t length = strlen(tag), inner = 1 + varint_bytes(length) + length + 1 + sizeof value;
    memcpy(&bits, &value, sizeof bits);
    put_key(&record, EVENT_SUMMARY, BYTES);
    put_varint(&record, 1 + varint_bytes(inner) + inner);
    put_key(&record, SUMMARY_VALUE, BYTES);
    put_varint(&record, inner);
    put_text(&record, VALUE_TAG, tag);
    put_key(&record, VALUE_NUMBER, FIXED32);
    put_little(&record, bits, 4);
    end(&record);
    return record;
}
