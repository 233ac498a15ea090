/* http.c - GET requests by libcurl, which is loaded at run time by dlopen; cspeed works without it. */
#include "hub/http.h"
#include "base/library.h"
#include "base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#ifdef CE_HAS_CURL
#include <curl/curl.h>

enum { CONNECT_SECONDS = 10, SILENT_SECONDS = 60 }; /* after which a request fails */

static struct {
    CURL *(*open)(void);
    CURLcode (*set)(CURL *, CURLoption, ...);
    CURLcode (*get)(CURL *, CURLINFO, ...);
    CURLcode (*perform)(CURL *);
    void (*close)(CURL *);
    struct curl_slist *(*append)(struct curl_slist *, const char *);
    void (*free_list)(struct curl_slist *);
    CURLcode (*init)(long);
} curl;

static cs_status load(void)
{
    static bool loaded;
    if (loaded)
        return CS_OK;
    const char *given = getenv("CSPEED_CURL"), *name = given ? given : "libcurl.so.4";
    void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: a download, because libcurl is missing (%s): install it (Debian: "
                       "libcurl4)",
                       dlerror());
    loaded = ce_library_find(library, "curl_easy_init", &curl.open) &&
             ce_library_find(library, "curl_easy_setopt", &curl.set) &&
             ce_library_find(library, "curl_easy_getinfo", &curl.get) &&
             ce_library_find(library, "curl_easy_perform", &curl.perform) &&
             ce_library_find(library, "curl_easy_cleanup", &curl.close) &&
             ce_library_find(library, "curl_slist_append", &curl.append) &&
             ce_library_find(library, "curl_slist_free_all", &curl.free_list) &&
             ce_library_find(library, "curl_global_init", &curl.init) && curl.init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    return loaded ? CS_OK : ce_fail(CS_UNSUPPORTED, "not supported: a download, because %s is not a libcurl", name);
}

typedef struct {
    const ce_http_request *request;
    ce_http_answer *answer;
    CURL *handle;
    int64_t offset; /* of the next byte of the file; -1 before the first one */
} transfer;

/* Called for the bodies of all answers; libcurl itself skips those of redirects that it follows. */
static size_t take_body(char *bytes, size_t size, size_t count, void *owner)
{
    transfer *t = owner;
    curl.get(t->handle, CURLINFO_RESPONSE_CODE, &t->answer->code);
    if (t->answer->code != 200 && t->answer->code != 206)
        return count;
    if (t->offset < 0)
        t->offset = t->answer->code == 206 ? t->request->from : 0;
    t->answer->refused = !t->request->take(t->request->owner, t->offset, bytes, count);
    if (t->answer->refused)
        return 0;
    t->offset += (int64_t)count;
    return size * count; /* size is 1 */
}

/* The Hub explains an error in this header. */
static size_t take_header(char *bytes, size_t size, size_t count, void *owner)
{
    static const char message[] = "x-error-message:";
    transfer *t = owner;
    size_t length = count, begin = sizeof message - 1;
    if (count > begin && strncasecmp(bytes, message, begin) == 0) {
        while (begin < length && bytes[begin] == ' ')
            begin++;
        while (length > begin && strchr("\r\n", bytes[length - 1]))
            length--;
        snprintf(t->answer->why, sizeof t->answer->why, "%.*s", (int)(length - begin), bytes + begin);
    }
    return size * count;
}

static struct curl_slist *authorize(const char *token)
{
    CE_FREED char *line = token ? ce_must_print("Authorization: Bearer %s", token) : NULL;
    return line ? curl.append(NULL, line) : NULL;
}

static void set_up(transfer *t, struct curl_slist *headers, char reason[CURL_ERROR_SIZE])
{
    char range[32];
    CURL *h = t->handle;
    snprintf(range, sizeof range, "%lld-", (long long)t->request->from);
    curl.set(h, CURLOPT_URL, t->request->url);
    curl.set(h, CURLOPT_HTTPHEADER, headers);
    curl.set(h, CURLOPT_FOLLOWLOCATION, 1L);
    curl.set(h, CURLOPT_MAXREDIRS, 10L);
    curl.set(h, CURLOPT_NOSIGNAL, 1L);
    curl.set(h, CURLOPT_USERAGENT, "cspeed");
    curl.set(h, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl.set(h, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl.set(h, CURLOPT_LOW_SPEED_TIME, (long)SILENT_SECONDS);
    if (t->request->from) /* CURLOPT_RESUME_FROM would refuse a server that begins with the first byte */
        curl.set(h, CURLOPT_RANGE, range);
    curl.set(h, CURLOPT_ERRORBUFFER, reason);
    curl.set(h, CURLOPT_WRITEFUNCTION, take_body);
    curl.set(h, CURLOPT_WRITEDATA, t);
    curl.set(h, CURLOPT_HEADERFUNCTION, take_header);
    curl.set(h, CURLOPT_HEADERDATA, t);
}

cs_status ce_http_get(ce_http_answer *answer, const ce_http_request *request)
{
    char reason[CURL_ERROR_SIZE] = "";
    curl_off_t wait = 0;
    *answer = (ce_http_answer){ 0 };
    CE_TRY(load());
    transfer t = { request, answer, curl.open(), -1 };
    CE_ASSERT(t.handle);
    struct curl_slist *headers = authorize(request->token);
    set_up(&t, headers, reason);
    CURLcode code = curl.perform(t.handle);
    curl.get(t.handle, CURLINFO_RESPONSE_CODE, &answer->code);
    curl.get(t.handle, CURLINFO_RETRY_AFTER, &wait);
    answer->retry_after = (long)wait;
    answer->complete = code == CURLE_OK;
    if (code != CURLE_OK)
        snprintf(answer->why, sizeof answer->why, "%s", *reason ? reason : "the transfer failed");
    curl.free_list(headers);
    curl.close(t.handle);
    return CS_OK;
}

#else

cs_status ce_http_get(ce_http_answer *answer, const ce_http_request *request)
{
    *answer = (ce_http_answer){ 0 };
    (void)request;
    return ce_fail(CS_UNSUPPORTED, "not supported: a download, because this build has no libcurl: install its headers "
                                   "(Debian: libcurl4-openssl-dev) and build again");
}

#endif
