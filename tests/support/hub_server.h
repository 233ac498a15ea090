/* hub_server.h - a small HTTP server that answers as the Hugging Face Hub does, for tests of downloads. */
#ifndef CS_TESTS_HUB_SERVER_H
#define CS_TESTS_HUB_SERVER_H

#include <stdbool.h>
#include <stdint.h>

/* The commit of every revision. */
#define HUB_COMMIT "0123456789abcdef0123456789abcdef01234567"

/* What the server does and counts, in memory that the test and the server share. Requests for large files (the weights)
 * are redirected to another port, as the Hub redirects them to another host. */
typedef struct {
    /* Faults, set by the test. */
    int fail_with;     /* this status is the answer ... */
    int fail_times;    /* ... to so many of the next requests */
    int retry_after;   /* value of the header Retry-After in these answers; 0: no such header */
    int64_t cut_at;    /* an answer with a large file ends after so many bytes, once; 0: never */
    bool no_ranges;    /* a request for a part of a file is answered with the whole file */
    int wrong_times;   /* so many of the next answers with a large file have a wrong first byte */
    const char *token; /* requests need this token; NULL: none */
    /* Counts. */
    int listings, small_files, large_files;
    int64_t large_bytes;   /* bytes of large files that were sent */
    bool token_to_storage; /* the token was sent to the port of the large files */
} hub_server;

/* Starts the server for the model org/tiny, whose files are those of `folder`, and sets HF_ENDPOINT. */
hub_server *hub_server_start(const char *folder);
void hub_server_stop(void);

#endif
