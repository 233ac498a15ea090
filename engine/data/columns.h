/* columns.h - counts the columns of rows that are read and those that are not, so that none is left out in silence. */
#ifndef CE_DATA_COLUMNS_H
#define CE_DATA_COLUMNS_H

#include "json/json.h"

/* For each name of a column, in how many rows the column was read, or not read. The caller zeroes it before the first
 * use. */
typedef struct {
    json_t *read, *unread;
} ce_column_counts;

/* The columns of one row that were read. */
enum { CE_COLUMNS_USED = 32 };
typedef struct {
    const char *name[CE_COLUMNS_USED];
    int count;
} ce_columns_used;

/* Counts the columns of a row whose value is not null. */
void ce_columns_note(ce_column_counts *columns, const json_t *row, const ce_columns_used *used);
void ce_columns_add(ce_column_counts *to, const ce_column_counts *from);
/* Logs both lists if there is a column that was not read. */
void ce_columns_report(const ce_column_counts *columns);
void ce_columns_free(ce_column_counts *columns);

#endif
