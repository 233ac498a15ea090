/* record.h - the bytes of TensorBoard's event files: protobuf messages of three sorts, framed as TFRecords. */
#ifndef CS_MONITOR_RECORD_H
#define CS_MONITOR_RECORD_H

#include <stddef.h>
#include <stdint.h>

enum { CS_RECORD_BYTES = 512 };

/* A framed event: length, masked CRC32C of the length, the message, masked CRC32C of the message. */
typedef struct {
    unsigned char bytes[CS_RECORD_BYTES];
    size_t count;
} cs_record;

cs_record cs_record_version(double time); /* "brain.Event:2", the first of a file                      */
cs_record cs_record_start(double time,
                          int64_t step); /* this run begins here: what earlier files hold from `step` on is void */
cs_record cs_record_scalar(double time, int64_t step, const char *tag, float value); /* a tag of up to 256 bytes     */

#endif
