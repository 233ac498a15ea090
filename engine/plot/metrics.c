/* metrics.c - reads the curves of a run from its file of metrics, which has one JSON object for each optimizer step. */
#include "base/files.h"
#include "base/input.h"
#include "base/must.h"
#include "json/json.h"
#include "cspeed/plot.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *path, *const *keys;
    int64_t line;
    double step; /* step in the previous line */
    int count;
    cs_plot_curve *curves;
    json_t *all; /* NULL, or receives the last value of each key */
} reader;

static void add_point(cs_plot_curve *curve, double x, double y)
{
    /* There is room for 0, 1, 2, 4, ... points, so the array is full if the count is 0 or a power of two. */
    if ((curve->count & (curve->count - 1)) == 0)
        curve->points = ce_must_resize(curve->points, (2 * (size_t)curve->count + 1) * sizeof *curve->points);
    curve->points[curve->count++] = (cs_plot_point){ x, y };
}

static cs_status damaged(const reader *at, const char *why)
{
    return ce_fail(CS_BAD_FILE,
                   "%s:%lld: this line is not the metrics of a step: %s; remove the line, or name another file",
                   at->path, (long long)at->line, why);
}

static cs_status read_line(reader *at, const char *line, size_t length)
{
    json_auto_t *object = ce_json_words(line, length);
    const json_t *step = json_object_get(object, "step");
    if (!object)
        return damaged(at, cs_error());
    if (!json_is_real(step))
        return damaged(at, "it has no number \"step\"");
    if (json_real_value(step) <= at->step)
        return damaged(at, "its step is not above that of the line before");
    at->step = json_real_value(step);
    for (int i = 0; i < at->count; i++) {
        const json_t *value = json_object_get(object, at->keys[i]);
        at->curves[i].nulls += json_is_null(value);
        if (json_is_real(value))
            add_point(&at->curves[i], at->step, json_real_value(value));
    }
    if (at->all)
        json_object_update(at->all, object);
    return CS_OK;
}

static cs_status read_lines(reader *at, FILE *file)
{
    CE_FREED char *line = NULL;
    size_t capacity = 0;
    for (ssize_t length; (length = getline(&line, &capacity, file)) > 0 && line[length - 1] == '\n';) {
        at->line++;
        CE_TRY(read_line(at, line, (size_t)length - 1));
    }
    return ferror(file) ? ce_fail(CS_IO_ERROR, "%s cannot be read: %s", at->path, strerror(errno)) : CS_OK;
}

static cs_status read_file(reader at, const char *path)
{
    bool folder = ce_files_is_folder(path);
    CE_FREED char *name = folder ? ce_files_join(path, "metrics.jsonl") : ce_must_copy(path);
    FILE *file;
    at.path = name;
    at.step = -INFINITY;
    CE_TRY(ce_input_stream(&file, name));
    if (!file && folder && errno == ENOENT)
        return ce_fail(CS_NOT_FOUND,
                       "%s has no metrics.jsonl: name the output folder of a training, or its file of "
                       "metrics (cspeed.metrics)",
                       path);
    if (!file)
        return ce_fail(errno == ENOENT ? CS_NOT_FOUND : CS_IO_ERROR,
                       "%s cannot be read: %s; name the output folder of a training, or its file of metrics", name,
                       strerror(errno));
    cs_status status = read_lines(&at, file);
    fclose(file);
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

cs_status cs_plot_keys(const char *path, char **text)
{
    json_auto_t *all = json_object();
    json_t *value;
    const char *key;
    *text = NULL;
    CE_TRY(read_file((reader){ .all = all }, path));
    json_object_foreach (all, key, value) {
        if (!json_is_real(value))
            continue;
        CE_FREED char *before = *text;
        *text = ce_must_print("%s%s%s", before ? before : "", before ? ", " : "", key);
    }
    return CS_OK;
}

void cs_plot_free(cs_plot_curve *curves, int count)
{
    for (int i = 0; i < count; i++) {
        free(curves[i].points);
        curves[i] = (cs_plot_curve){ .name = curves[i].name };
    }
}
