/* products_cache.h - measured choices of methods for matrix products, kept on disk for later runs. */
#ifndef CE_PRODUCTS_PRODUCTS_CACHE_H
#define CE_PRODUCTS_PRODUCTS_CACHE_H

#include "device/products.h"

enum { CE_PRODUCTS_KEY = 8192 };

typedef struct {
    ce_product_choice choice;
    /* share: the result of ce_products_pick, from 0 to 1; roof: the highest measured speed of one thread, in FLOP/s */
    double share, roof;
    bool cached;
} ce_products_measured;

/* The files are in $XDG_CACHE_HOME/cspeed, or in ~/.cache/cspeed; the key is one line of text. ce_products_cache_get
 * returns false if the file is missing, damaged or of another key. A damaged file and a failed write are only logged,
 * at the level debug. If another process has written a result under this key in the meantime, ce_products_cache_put
 * replaces *measured by that result, so that runs that start together use the same choice. */
bool ce_products_cache_get(const char *key, ce_products_measured *measured);
void ce_products_cache_put(const char *key, ce_products_measured *measured);

#endif
