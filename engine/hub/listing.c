/* listing.c - the files of a model on the Hugging Face Hub, and requests to the Hub that are repeated. */
#include "hub/listing.h"
#include "base/must.h"
#include "json/json.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_BYTES ((int64_t)1 << 50)                             /* of a file */
enum { FAILURES = 4, LONGEST_PAUSE = 120, MOST_TEXT = 64 << 20 }; /* requests, seconds, bytes */

const char *ce_hub_endpoint(char text[CE_HUB_NAME])
{
    const char *given = getenv("HF_ENDPOINT");
    snprintf(text, CE_HUB_NAME, "%s", given && *given ? given : "https://huggingface.co");
    for (size_t n = strlen(text); n > 0 && text[n - 1] == '/'; n--)
        text[n - 1] = 0;
    return text;
}

char *ce_hub_quoted(const char *text)
{
    char *quoted = ce_must_alloc(3 * strlen(text) + 1), *to = quoted;
    for (; *text; text++)
        to += isalnum((unsigned char)*text) || strchr("._~-", *text) ? snprintf(to, 2, "%c", *text)
                                                                     : snprintf(to, 4, "%%%02X", (unsigned char)*text);
    return quoted;
}

/* ---- the token ---- */

/* Returns the user's token, which the caller frees, or NULL. `hf auth login` writes the file. */
static char *read_token(void)
{
    static const char *const tokens[] = { "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN" };
    static const char *const paths[] = { "HF_TOKEN_PATH", NULL };
    char path[CE_HUB_PATH], word[512];
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        if (getenv(tokens[i]) && *getenv(tokens[i]))
            return ce_must_copy(getenv(tokens[i]));
    FILE *file = ce_hub_user_path(path, paths, "token") ? fopen(path, "re") : NULL;
    bool found = file && fscanf(file, "%511s", word) == 1;
    if (file)
        fclose(file);
    return found ? ce_must_copy(word) : NULL;
}

/* ---- requests ---- */

static bool may_pass(const ce_http_answer *answer)
{
    long code = answer->code;
    return code == 0 || code == 200 || code == 206 || code == 408 || code == 429 || code >= 500;
}

static cs_status refuse(const ce_http_answer *answer, const ce_hub_place *place, const char *what, bool token)
{
    char endpoint[CE_HUB_NAME], got[CE_HUB_NAME + 32];
    bool denied = answer->code == 401 || answer->code == 403;
    if (answer->code)
        snprintf(got, sizeof got, "status %ld", answer->code);
    else
        snprintf(got, sizeof got, "no answer from %s", ce_hub_endpoint(endpoint));
    return ce_fail(answer->code == 404 || denied ? CS_NOT_FOUND : CS_IO_ERROR, "%s at %s: %s: %s%s%s%s", place->model,
                   place->revision, what, got, *answer->why ? ": " : "", answer->why,
                   !denied ? ""
                   : token ? ": the token has no access to it; a gated model needs its license accepted on its page"
                           : ": the name is wrong, or the model is private or gated and needs a token: set HF_TOKEN");
}

static void pause_before(int failures, long wanted)
{
    long seconds = wanted > 0 ? wanted : 1L << (failures > 0 ? failures - 1 : 0);
    struct timespec left = { .tv_sec = seconds < LONGEST_PAUSE ? seconds : LONGEST_PAUSE };
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

cs_status ce_hub_ask(const ce_hub_place *place, ce_http_request *request, const char *what)
{
    CE_FREED char *token = read_token();
    request->token = token;
    for (int failures = 0;;) {
        int64_t before = request->from;
        ce_http_answer answer;
        CE_TRY(ce_http_get(&answer, request));
        if (answer.complete && (answer.code == 200 || answer.code == 206))
            return CS_OK;
        failures = request->from > before ? 0 : failures + 1;
        if (answer.refused || !may_pass(&answer) || failures == FAILURES)
            return refuse(&answer, place, what, token != NULL);
        pause_before(failures, answer.retry_after);
    }
}

/* ---- the list of files ---- */

typedef struct {
    char *bytes;
    size_t count, capacity;
} answer_text;

static bool take_text(void *owner, int64_t offset, const void *bytes, size_t count)
{
    answer_text *t = owner;
    t->count = (size_t)offset; /* a repeated request begins again */
    if (t->count + count >= MOST_TEXT)
        return false;
    CE_MUST_HOLD(t->bytes, t->capacity, t->count + count + 1);
    memcpy(t->bytes + t->count, bytes, count);
    t->count += count;
    return true;
}

/* Returns true for a name that is safe to create in a folder. */
static bool is_plain(const char *name)
{
    return name && *name && *name != '.' && !strchr(name, '/') && strlen(name) < CE_HUB_NAME;
}

static bool is_digest(const char *text, size_t digits)
{
    return text && strspn(text, "0123456789abcdef") == digits && !text[digits];
}

static void read_file(ce_hub_listing *listing, const json_t *row)
{
    const char *name = json_string_value(json_object_get(row, "rfilename"));
    const json_t *large = json_is_object(json_object_get(row, "lfs")) ? json_object_get(row, "lfs") : NULL;
    const char *digest = json_string_value(json_object_get(large ? large : row, large ? "sha256" : "blobId"));
    const json_t *bytes = json_object_get(large ? large : row, "size");
    if (is_plain(name) && is_digest(digest, large ? 64 : 40) && json_integer_value(bytes) >= 0 &&
        json_integer_value(bytes) < MOST_BYTES) {
        ce_hub_file *file = &listing->files[listing->count++];
        *file = (ce_hub_file){ .name = ce_must_copy(name), .bytes = json_integer_value(bytes) };
        snprintf(file->digest, sizeof file->digest, "%s", digest);
    }
}

static cs_status read_listing(ce_hub_listing *listing, const json_t *root, const char *url)
{
    const char *commit = json_string_value(json_object_get(root, "sha"));
    const json_t *rows = json_object_get(root, "siblings"), *row;
    size_t i;
    if (!is_digest(commit, 40) || !json_is_array(rows))
        return ce_fail(CS_BAD_FILE, "%s: the answer is not a list of files", url);
    snprintf(listing->commit, sizeof listing->commit, "%s", commit);
    listing->files = ce_must_alloc((json_array_size(rows) + 1) * sizeof *listing->files);
    json_array_foreach ((json_t *)rows, i, row)
        read_file(listing, row);
    return CS_OK;
}

cs_status ce_hub_listing_get(ce_hub_listing *listing, const ce_hub_place *place)
{
    char endpoint[CE_HUB_NAME];
    answer_text answer = { 0 };
    CE_FREED char *revision = ce_hub_quoted(place->revision);
    CE_FREED char *url =
        ce_must_print("%s/api/models/%s/revision/%s?blobs=true", ce_hub_endpoint(endpoint), place->model, revision);
    ce_http_request request = { .url = url, .take = take_text, .owner = &answer };
    *listing = (ce_hub_listing){ 0 };
    cs_status status = ce_hub_ask(place, &request, "the list of files");
    json_t *root = status == CS_OK ? ce_json_strict(answer.bytes ? answer.bytes : "", answer.count) : NULL;
    if (status == CS_OK)
        status = root ? read_listing(listing, root, url) : ce_fail(CS_BAD_FILE, "%s: %s", url, cs_error());
    json_decref(root);
    free(answer.bytes);
    return status;
}

void ce_hub_listing_free(ce_hub_listing *listing)
{
    for (int i = 0; i < listing->count; i++)
        free(listing->files[i].name);
    free(listing->files);
    *listing = (ce_hub_listing){ 0 };
}
