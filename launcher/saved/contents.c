/* contents.c - the tensors of one checkpoint: their positions in its files, and statistics of their values. */
#include "saved/contents.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/scan.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>

enum { BAR = 40 };

/* Returns a JSON object that describes one box (block of elements) of a tensor: the box's file, offset and size, and
 * its first and last index in the tensor's first dimension. */
static json_t *describe_part(const ce_checkpoint_reader *reader, const ce_chunk *chunk)
{
    int64_t from = chunk->box.dims ? chunk->box.offset[0] : 0, rows = chunk->box.dims ? chunk->box.size[0] : 1;
    return json_pack("{sssIsIsoso}", "file", reader->manifest.files[chunk->file].name, "first_row", (json_int_t)from,
                     "last_row", (json_int_t)(from + rows - 1), "offset",
                     ce_safetensors_numbers(chunk->box.offset, chunk->box.dims), "size",
                     ce_safetensors_numbers(chunk->box.size, chunk->box.dims));
}

static json_t *describe_tensor(const ce_checkpoint_reader *reader, int64_t index)
{
    const ce_manifest_tensor *tensor = &reader->manifest.tensors[index];
    ce_range of_tensor = ce_chunks_of(&reader->chunks, index);
    json_t *parts = json_array();
    int64_t count;
    ce_boxes_count(&count, tensor->shape, tensor->dims, 1);
    for (int64_t i = of_tensor.from; i < of_tensor.to; i++)
        json_array_append_new(parts, describe_part(reader, &reader->chunks.chunks[i]));
    return json_pack("{sssssosIso}", "name", tensor->name, "dtype", ce_safetensors_name(tensor->dtype), "shape",
                     ce_safetensors_numbers(tensor->shape, tensor->dims), "bytes",
                     (json_int_t)(count * (int64_t)cs_dtype_bytes(tensor->dtype)), "parts", parts);
}

json_t *cl_contents_tensors(const ce_checkpoint_reader *reader, const char *glob)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < reader->manifest.tensor_count; i++)
        if (fnmatch(glob, reader->manifest.tensors[i].name, 0) == 0)
            json_array_append_new(list, describe_tensor(reader, i));
    return list;
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static long long number_of(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

void cl_contents_print(const json_t *tensors)
{
    size_t i, k;
    const json_t *tensor, *part;
    json_array_foreach (tensors, i, tensor) {
        char *shape = json_dumps(json_object_get(tensor, "shape"), 0);
        printf("%s  %s %s  %lld bytes\n", text_of(tensor, "name"), text_of(tensor, "dtype"), shape,
               number_of(tensor, "bytes"));
        json_array_foreach (json_object_get(tensor, "parts"), k, part) {
            char *offset = json_dumps(json_object_get(part, "offset"), 0),
                 *size = json_dumps(json_object_get(part, "size"), 0);
            printf("    rows %lld to %lld: %s, box %s at %s\n", number_of(part, "first_row"),
                   number_of(part, "last_row"), text_of(part, "file"), size, offset);
            free(offset);
            free(size);
        }
        free(shape);
    }
}

json_t *cl_contents_stats(const ce_checkpoint_reader *reader, const char *name, cs_status *status)
{
    ce_scan scan;
    *status = ce_scan_tensor(&scan, reader, name);
    if (*status != CS_OK)
        return NULL;
    return json_pack("{sssIsIsIsfsfsfsfso}", "name", name, "count", (json_int_t)scan.count, "nan",
                     (json_int_t)scan.nans, "infinite", (json_int_t)scan.infinite, "min", scan.min, "max", scan.max,
                     "mean", scan.mean, "std", scan.deviation, "histogram",
                     ce_safetensors_numbers(scan.bins, CE_SCAN_BINS));
}

static double real_of(const json_t *object, const char *key)
{
    return json_real_value(json_object_get(object, key));
}

void cl_contents_print_stats(const json_t *stats)
{
    const json_t *bins = json_object_get(stats, "histogram"), *bin;
    double min = real_of(stats, "min"), width = (real_of(stats, "max") - min) / CE_SCAN_BINS;
    json_int_t max = 1;
    size_t i;
    json_array_foreach (bins, i, bin)
        max = json_integer_value(bin) > max ? json_integer_value(bin) : max;
    printf("%s: %lld elements, %lld NaN, %lld infinite\nmin %.9g  max %.9g  mean %.9g  std %.9g\n",
           text_of(stats, "name"), number_of(stats, "count"), number_of(stats, "nan"), number_of(stats, "infinite"),
           min, real_of(stats, "max"), real_of(stats, "mean"), real_of(stats, "std"));
    json_array_foreach (bins, i, bin) {
        int length = (int)(json_integer_value(bin) * BAR / max);
        printf("%12.4g %12lld%s%.*s\n", min + width * (double)i, (long long)json_integer_value(bin), length ? " " : "",
               length, "########################################");
    }
}
