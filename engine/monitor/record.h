/* record.h - encodes TensorBoard event files: three kinds of protobuf messages, framed as TFRecords. */
#ifndef CE_MONITOR_RECORD_H
#define CE_MONITOR_RECORD_H

#include <stddef.h>
#include <stdint.h>

enum { CE_RECORD_BYTES = 512 };

/* A framed event: length, masked CRC32C of the length, message, masked CRC32C of the message. */
typedef struct {
    unsigned char bytes[CE_RECORD_BYTES];
    size_t count;
} ce_record;

ce_record ce_record_version(double time); /* Returns the first record of a file, "brain.Event:2". */
/* Returns the record that marks the start of this run. A reader ignores the entries of earlier files from `step` on. */
ce_record ce_record_start(double time, int64_t step);
ce_record ce_record_scalar(double time, int64_t step, const char *tag, float value); /* `tag` has at most 256 bytes. */

#endif
