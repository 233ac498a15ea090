/* filters.h - the declarations that filters.c and filter_lists.c share. */
#ifndef CE_JINJA_FILTERS_H
#define CE_JINJA_FILTERS_H

#include "functions.h"

#define FILTER(name)                                                                                                   \
    static ce_jvalue name(ce_jrun *run, ce_jvalue self, const ce_jvalue *given, const ce_jarguments *all)

const ce_jentry *ce_jfilter_lists_find(const char *name);

#endif
