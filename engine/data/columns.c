/* columns.c - counts the columns of rows that are read and those that are not, so that none is left out in silence. */
#include "data/columns.h"
#include "base/log.h"
#include "base/names.h"
#include "base/plural.h"

#include <inttypes.h>
#include <string.h>

static void count(json_t **counts, const char *name, json_int_t rows)
{
    *counts = *counts ? *counts : json_object();
    json_object_set_new(*counts, name, json_integer(json_integer_value(json_object_get(*counts, name)) + rows));
}

void ce_columns_note(ce_column_counts *columns, const json_t *row, const ce_columns_used *used)
{
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)row, name, value) {
        int i = 0;
        while (i < used->count && strcmp(used->name[i], name) != 0)
            i++;
        if (!json_is_null(value))
            count(i < used->count ? &columns->read : &columns->unread, name, 1);
    }
}

void ce_columns_add(ce_column_counts *to, const ce_column_counts *from)
{
    const char *name;
    json_t *rows;
    json_object_foreach (from->read, name, rows)
        count(&to->read, name, json_integer_value(rows));
    json_object_foreach (from->unread, name, rows)
        count(&to->unread, name, json_integer_value(rows));
}

/* Lists the columns with their numbers of rows: `"id" (7 rows), "source" (1 row)`. */
static const char *list(ce_names *names, const json_t *counts)
{
    const char *name;
    json_t *rows;
    json_object_foreach ((json_t *)(uintptr_t)counts, name, rows)
        ce_names_add(names, "\"%.60s\" (%" PRId64 " row%s)", name, (int64_t)json_integer_value(rows),
                     ce_plural((int64_t)json_integer_value(rows)));
    return names->count ? ce_names_text(names) : "none";
}

void ce_columns_report(const ce_column_counts *columns)
{
    ce_names read = { 0 }, unread = { 0 };
    if (json_object_size(columns->unread) > 0)
        ce_log(CE_LOG_INFO, "columns not read: %s; read: %s", list(&unread, columns->unread),
               list(&read, columns->read));
}

void ce_columns_free(ce_column_counts *columns)
{
    json_decref(columns->read);
    json_decref(columns->unread);
    *columns = (ce_column_counts){ 0 };
}
