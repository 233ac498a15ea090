/* run.h - what the files of operations need: checks of tensors, and macros that call a function of the device's
 * table. */
#ifndef CE_DEVICE_RUN_H
#define CE_DEVICE_RUN_H

#include "device/need.h"
#include "device/table.h"
#include "base/must.h"

#define RUN_ON(stream, given, operation, ...)                                                                          \
    do {                                                                                                               \
        if ((stream)->device->table->operation)                                                                        \
            (stream)->device->table->operation(given, __VA_ARGS__);                                                    \
    } while (0)
#define RUN(stream, operation, ...) RUN_ON(stream, (stream)->device, operation, __VA_ARGS__)
#define RUN_IN(stream, operation, ...) RUN_ON(stream, stream, operation, __VA_ARGS__)

/* ops.c: runs a matrix product, and counts its flops. */
void ce_run_product(cs_stream *stream, const ce_product *product);
/* Counts the flops of an operation as flops of a gradient. `before` is the value of device->flops before the
 * operation. */
void ce_note_gradient(cs_stream *stream, double before);

#endif
