/* listing.h - the files of a model on the Hugging Face Hub, and requests to the Hub that are repeated. */
#ifndef CE_HUB_LISTING_H
#define CE_HUB_LISTING_H

#include "hub/http.h"
#include "hub/place.h"

typedef struct {
    char *name;
    int64_t bytes;
    char digest[65]; /* SHA-256 of the bytes if it has 64 digits; SHA-1 of Git's blob if it has 40 */
} ce_hub_file;

typedef struct {
    char commit[CE_HUB_COMMIT];
    ce_hub_file *files; /* those in the folder itself, not in folders below it */
    int count;
} ce_hub_listing;

/* Asks the Hub which files the model has at its revision. */
cs_status ce_hub_listing_get(ce_hub_listing *listing, const ce_hub_place *place);
void ce_hub_listing_free(ce_hub_listing *listing);

/* Returns the address of the Hub without a slash at its end: HF_ENDPOINT, or https://huggingface.co. */
const char *ce_hub_endpoint(char text[CE_HUB_NAME]);
/* Returns a part of an address in which all characters but letters, digits and "._~-" are encoded; the caller frees it. */
char *ce_hub_quoted(const char *text);
/* Sends the request, with the user's token. A request that fails for a reason that may pass is repeated after a pause,
 * up to three times, or more often if `request->from` grows, which `request->take` may set. `what` is the file's name. */
cs_status ce_hub_ask(const ce_hub_place *place, ce_http_request *request, const char *what);

#endif
