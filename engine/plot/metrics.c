/* metrics.c - reads the curves of a run from its file of metrics, which has one JSON object for each optimizer step. */
#include "base/files.h"
#include "base/input.h"
#include "json/json.h"
#include "cspeed/plot.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static cs_status add_point(cs_plot_curve *curve, double x, double y)
{
    /* The array `points` has no room at first. Later it has room for 1, 2, 4, ... points. So the array is full if the
     * count is 0 or a power of two. */
    if ((curve->count & (curve->count - 1)) == 0) {
        size_t capacity = curve->count > 0 ? 2 * (size_t)curve->count : 1;
        cs_plot_point *larger = realloc(curve->points, capacity * sizeof *larger);
        if (!larger)
            return ce_fail(CS_NO_MEMORY, "no memory for a curve of %lld points", (long long)curve->count + 1);
        curve->points = larger;
    }
    curve->points[curve->count++] = (cs_plot_point){ x, y };
    return CS_OK;
}

typedef struct {
    const char *path, *const *keys;
    int64_t line;
    double step; /* step in the previous line */
    int count;
    cs_plot_curve *curves;
    json_t *all; /* NULL, or receives the last value of each key */
} reader;

static cs_status damaged(const reader *at, const char *why)
{
    return ce_fail(CS_BAD_FILE,
                   "%s:%lld: this line is not the metrics of a step: %s; remove the line, or name another file",
                   at->path, (long long)at->line, why);
}

static cs_status read_line(reader *at, const char *line, size_t length)
{
    json_t *object = ce_json_words(line, length);
    cs_status status = CS_OK;
    const json_t *step = json_object_get(object, "step");
    if (!object)
        return damaged(at, cs_error());
    if (!json_is_real(step))
        status = damaged(at, "it has no number \"step\"");
    else if (json_real_value(step) <= at->step)
        status = damaged(at, "its step is not above that of the line before");
    else
        at->step = json_real_value(step);
    for (int i = 0; status == CS_OK && i < at->count; i++) {
        const json_t *value = json_object_get(object, at->keys[i]);
        at->curves[i].nulls += json_is_null(value);
        if (json_is_real(value))
            status = add_point(&at->curves[i], at->step, json_real_value(value));
    }
    if (at->all && json_object_update(at->all, object) != 0)
        status = ce_fail(CS_NO_MEMORY, "no memory for the keys of %s", at->path);
    json_decref(object);
    return status;
}

static cs_status read_lines(reader *at, FILE *file)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    cs_status status = CS_OK;
    while (status == CS_OK && (length = getline(&line, &capacity, file)) > 0 && line[length - 1] == '\n') {
        at->line++;
        status = read_line(at, line, (size_t)length - 1);
    }
    free(line);
    if (status == CS_OK && ferror(file))
        status = ce_fail(CS_IO_ERROR, "%s cannot be read: %s", at->path, strerror(errno));
    return status;
}

static cs_status read_file(reader at, const char *path)
{
    bool folder = ce_files_is_folder(path);
    char *name = folder ? ce_files_join(path, "metrics.jsonl") : strdup(path);
    FILE *file;
    at.path = name;
    at.step = -INFINITY;
    cs_status status = ce_input_stream(&file, name);
    if (status == CS_OK && file)
        status = read_lines(&at, file);
    else if (status == CS_OK && folder && errno == ENOENT)
        status = ce_fail(CS_NOT_FOUND,
                         "%s has no metrics.jsonl: name the output folder of a training, or its file of "
                         "metrics (cspeed.metrics)",
                         path);
    else if (status == CS_OK)
        status = ce_fail(errno == ENOENT ? CS_NOT_FOUND : CS_IO_ERROR,
                         "%s cannot be read: %s; name the output folder of a training, or its file of metrics", name,
                         strerror(errno));
    if (file)
        fclose(file);
    free(name);
    return status;
}

cs_status cs_plot_read(const char *path, const char *const *keys, int count, cs_plot_curve *curves)
{
    for (int i = 0; i < count; i++)
        curves[i] = (cs_plot_curve){ .name = curves[i].name };
    cs_status status = read_file((reader){ .keys = keys, .count = count, .curves = curves }, path);
    if (status != CS_OK)
        cs_plot_free(curves, count);
    return status;
}

cs_status cs_plot_keys(const char *path, char **keys)
{
    json_t *all = json_object(), *value;
    size_t size;
    const char *key, *between = "";
    cs_status status = read_file((reader){ .all = all }, path);
    FILE *text = status == CS_OK ? open_memstream(keys, &size) : NULL;
    if (status == CS_OK && !text)
        status = ce_fail(CS_NO_MEMORY, "no memory for the keys of %s", path);
    json_object_foreach (all, key, value) {
        if (text && json_is_real(value))
            fprintf(text, "%s%s", between, key), between = ", ";
    }
    json_decref(all);
    if (text)
        fclose(text);
    return status;
}

void cs_plot_free(cs_plot_curve *curves, int count)
{
    for (int i = 0; i < count; i++) {
        free(curves[i].points);
        curves[i] = (cs_plot_curve){ .name = curves[i].name };
    }
}
