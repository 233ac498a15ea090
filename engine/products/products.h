/* products.h - the choice of methods by which CPUs multiply matrices (cspeed.products). */
#ifndef CE_PRODUCTS_PRODUCTS_H
#define CE_PRODUCTS_PRODUCTS_H

#include "core/engine.h"

/* Makes all ranks multiply matrices by the same methods. Call it after ce_dry_run. Collective. */
cs_status ce_products_agree(cs_engine *engine);
/* Returns the methods in use as a JSON string, for a checkpoint's provenance; NULL if the device has no choice of
 * methods. The caller owns the reference. */
json_t *ce_products_record(const cs_engine *engine);
/* Switches to the methods that a checkpoint's provenance names, or logs why this run uses other methods. */
void ce_products_resume(cs_engine *engine, json_t *provenance);

#endif
