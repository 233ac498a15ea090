/* products_cache.h - measured choices of products, kept on disk for later runs. */
#ifndef CS_PRODUCTS_CACHE_H
#define CS_PRODUCTS_CACHE_H

#include "device/products.h"

enum { CS_PRODUCTS_KEY = 8192 };

typedef struct {
    ce_product_choice choice;
    double share, roof; /* of ce_products_pick; FLOP/s of one thread */
    bool cached;
} ce_products_measured;

/* The files are in $XDG_CACHE_HOME/cspeed, or ~/.cache/cspeed; the key is one line of text. A file that is missing,
 * damaged or of another key is no result, and what cannot be written is not: both are logged as debug only.
 * _put replaces *measured by what another process has written under this key in the meantime, so that runs that start
 * together use the same choice. */
bool ce_products_cache_get(const char *key, ce_products_measured *measured);
void ce_products_cache_put(const char *key, ce_products_measured *measured);

#endif
