/* graph.h - plotting one function as an SVG picture. */
#ifndef CL_GRAPH_H
#define CL_GRAPH_H

#include <stdint.h>
#include <stdio.h>

/* Draws value(of, x) for x from 1 to `last`, at no more than a few hundred points, between axes whose ends are
 * labelled. */
void cl_graph_write(FILE *file, const char *title, double (*value)(const void *of, int64_t x), const void *of,
                    int64_t last);

#endif
