/* http.h - GET requests by libcurl, which is loaded at run time by dlopen; cspeed works without it. */
#ifndef CE_HUB_HTTP_H
#define CE_HUB_HTTP_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *url;
    /* Sent in the header Authorization, but not to another host to which the server redirects; NULL: none. */
    const char *token;
    int64_t from; /* offset of the first wanted byte of the file */
    /* Takes bytes of the file, `offset` being that of the first one. A server that ignores `from` begins with offset 0.
     * Returns false if the bytes cannot be stored, which ends the request. */
    bool (*take)(void *owner, int64_t offset, const void *bytes, size_t count);
    void *owner;
} ce_http_request;

enum { CE_HTTP_WHY = 512 };

typedef struct {
    long code;             /* HTTP status; 0: the server did not answer */
    bool complete;         /* the whole answer arrived */
    bool refused;          /* `take` returned false */
    long retry_after;      /* seconds after which to repeat the request; 0: the server does not say */
    char why[CE_HTTP_WHY]; /* the server's message, libcurl's if the answer did not arrive, or "" */
} ce_http_answer;

/* Returns CS_UNSUPPORTED, with a message, if there is no libcurl; otherwise CS_OK, also if the request failed. */
cs_status ce_http_get(ce_http_answer *answer, const ce_http_request *request);

#endif
