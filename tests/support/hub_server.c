/* hub_server.c - a small HTTP server that answers as the Hugging Face Hub does, for tests of downloads. */
#include "hub_server.h"
#include "ports.h"
#include "shell.h"

#include "base/ends_with.h"
#include "security/mac.h"

#include <arpa/inet.h>
#include <check.h>
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static hub_server *server;
static pid_t process;
static const char *folder;
static int ports[2]; /* of the Hub, and of the large files */

static bool is_large(const char *name)
{
    return ce_ends_with(name, ".safetensors");
}

/* ---- answers ---- */

static void answer(FILE *to, int code, const char *headers, const char *bytes, size_t count, size_t sent)
{
    fprintf(to, "HTTP/1.1 %d Status\r\nConnection: close\r\nContent-Length: %zu\r\n%s\r\n", code, count, headers);
    fwrite(bytes, 1, sent, to);
}

static void list_files(FILE *to)
{
    char *text = NULL, digest[CE_MAC_DIGEST];
    size_t length, bytes;
    FILE *out = open_memstream(&text, &length);
    DIR *listing = opendir(folder);
    ck_assert(out && listing);
    fprintf(out,
            "{\"sha\": \"" HUB_COMMIT "\", \"siblings\": [{\"rfilename\": \"../outside\", \"size\": 1, \"blobId\": "
            "\"" HUB_COMMIT "\"}, {\"rfilename\": \"README.md\", \"size\": 1, \"blobId\": \"" HUB_COMMIT "\"}");
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        char path[1024];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        char *content = shell_read(path, &bytes);
        bool large = is_large(entry->d_name);
        (large ? ce_mac_digest : ce_mac_git_blob)(digest, content, bytes);
        fprintf(out, ", {\"rfilename\": \"%s\", \"size\": %zu, ", entry->d_name, bytes);
        fprintf(out, large ? "\"lfs\": {\"sha256\": \"%s\", \"size\": %zu}}" : "\"blobId\": \"%s\"}", digest, bytes);
        free(content);
    }
    fprintf(out, "]}");
    fclose(out);
    closedir(listing);
    server->listings++;
    answer(to, 200, "", text, length, length);
    free(text);
}

static void send_small(FILE *to, const char *name)
{
    char path[1024];
    size_t bytes;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *content = shell_read(path, &bytes);
    server->small_files++;
    answer(to, 200, "", content, bytes, bytes);
    free(content);
}

static void send_large(FILE *to, const char *name, const char *request)
{
    char path[1024];
    size_t bytes, from = 0;
    const char *range = strstr(request, "\r\nRange: bytes=");
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *content = shell_read(path, &bytes);
    if (range && !server->no_ranges)
        from = strtoul(range + strlen("\r\nRange: bytes="), NULL, 10);
    size_t count = bytes - from, sent = count;
    if (server->cut_at > 0 && (size_t)server->cut_at < sent)
        sent = (size_t)server->cut_at;
    server->cut_at = 0;
    if (server->wrong_times > 0 && server->wrong_times--)
        content[from] ^= 1;
    server->large_files++;
    server->large_bytes += (int64_t)sent;
    server->token_to_storage |= strstr(request, "Authorization") != NULL;
    answer(to, range && !server->no_ranges ? 206 : 200, "", content + from, count, sent);
    free(content);
}

static bool is_denied(const char *request)
{
    char wanted[256];
    snprintf(wanted, sizeof wanted, "\r\nAuthorization: Bearer %s\r\n", server->token ? server->token : "");
    return server->token && !strstr(request, wanted);
}

static void serve(FILE *to, const char *request, bool storage)
{
    char path[512] = "", name[256], headers[1024];
    if (sscanf(request, "GET %511s", path) != 1)
        return;
    if (server->fail_times > 0) {
        server->fail_times--;
        snprintf(headers, sizeof headers, "Retry-After: %d\r\n", server->retry_after);
        answer(to, server->fail_with, server->retry_after ? headers : "", "", 0, 0);
    } else if (storage) {
        send_large(to, path + 1, request);
    } else if (is_denied(request)) {
        answer(to, 401, "X-Error-Message: Access to model org/tiny is restricted.\r\n", "", 0, 0);
    } else if (strcmp(path, "/api/models/org/tiny/revision/main?blobs=true") == 0 ||
               strcmp(path, "/api/models/org/tiny/revision/refs%2Fpr%2F1?blobs=true") == 0 ||
               strcmp(path, "/api/models/org/tiny/revision/" HUB_COMMIT "?blobs=true") == 0) {
        list_files(to);
    } else if (sscanf(path, "/org/tiny/resolve/" HUB_COMMIT "/%255s", name) != 1) {
        answer(to, 404, "x-error-message: Repository not found\r\n", "", 0, 0);
    } else if (is_large(name)) {
        snprintf(headers, sizeof headers, "Location: http://127.0.0.1:%d/%s\r\n", ports[1], name);
        answer(to, 302, headers, "moved", 5, 5);
    } else {
        send_small(to, name);
    }
}

/* ---- the process ---- */

static int listen_at(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
              bind(fd, (struct sockaddr *)&name, sizeof name) == 0 && listen(fd, 16) == 0);
    return fd;
}

static void serve_one(int listener, bool storage)
{
    char request[8192] = "";
    size_t used = 0;
    int fd = accept(listener, NULL, NULL);
    FILE *to = fd >= 0 ? fdopen(fd, "r+") : NULL;
    for (ssize_t got; to && !strstr(request, "\r\n\r\n") && used < sizeof request - 1; used += (size_t)got) {
        got = recv(fd, request + used, sizeof request - 1 - used, 0);
        if (got <= 0)
            break;
        request[used + (size_t)got] = 0;
    }
    if (to) {
        serve(to, request, storage);
        fclose(to);
    }
}

hub_server *hub_server_start(const char *of_folder)
{
    char endpoint[64];
    int listeners[2];
    folder = of_folder;
    server = mmap(NULL, sizeof *server, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(server != MAP_FAILED);
    for (int i = 0; i < 2; i++) {
        ports[i] = ports_free("127.0.0.1");
        listeners[i] = listen_at(ports[i]);
    }
    process = fork();
    ck_assert_int_ge(process, 0);
    if (process == 0) {
        struct pollfd polled[2] = { { listeners[0], POLLIN, 0 }, { listeners[1], POLLIN, 0 } };
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGPIPE, SIG_IGN);
        while (poll(polled, 2, -1) > 0)
            for (int i = 0; i < 2; i++)
                if (polled[i].revents)
                    serve_one(listeners[i], i == 1);
        _exit(1);
    }
    for (int i = 0; i < 2; i++)
        close(listeners[i]);
    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d/", ports[0]);
    ck_assert_int_eq(setenv("HF_ENDPOINT", endpoint, 1), 0);
    return server;
}

void hub_server_stop(void)
{
    kill(process, SIGKILL);
    waitpid(process, NULL, 0);
    munmap(server, sizeof *server);
}
