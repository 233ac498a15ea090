/* nearest.h - how similar two names are, for the suggestions in messages about unknown names. */
#ifndef CE_BASE_NEAREST_H
#define CE_BASE_NEAREST_H

/* Returns the optimal string alignment distance of two names: it counts insertions, deletions, substitutions and swaps
 * of adjacent characters; upper and lower case are equal. */
int ce_nearest_distance(const char *a, const char *b);

#endif
