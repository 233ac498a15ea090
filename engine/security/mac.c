/* mac.c - HMAC-SHA256 and SHA-256 with libcrypto. */
#include "security/mac.h"
#include "base/must.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* A ce_mac is in fact libcrypto's context, which contains the key. */
static EVP_MAC_CTX *context_of(ce_mac *mac)
{
    return (EVP_MAC_CTX *)(void *)mac;
}

ce_mac *ce_mac_open(const unsigned char *key)
{
    char digest[] = "SHA256";
    OSSL_PARAM choices[] = { OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                             OSSL_PARAM_construct_end() };
    EVP_MAC *kind = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *context = kind ? EVP_MAC_CTX_new(kind) : NULL;
    EVP_MAC_free(kind);
    if (!context || !EVP_MAC_init(context, key, CE_MAC_BYTES, choices))
        ce_fatal(CS_UNSUPPORTED, "libcrypto has no HMAC-SHA256, with which ranks prove that they belong to the job");
    return (ce_mac *)(void *)context;
}

void ce_mac_sum(ce_mac *mac, unsigned char *tag, const struct iovec *parts, int count)
{
    EVP_MAC_CTX *context = context_of(mac);
    size_t bytes = 0;
    bool fine = EVP_MAC_init(context, NULL, 0, NULL);
    for (int i = 0; i < count; i++)
        fine = fine && EVP_MAC_update(context, parts[i].iov_base, parts[i].iov_len);
    fine = fine && EVP_MAC_final(context, tag, &bytes, CE_MAC_BYTES);
    CE_ASSERT(fine);
    CE_ASSERT(bytes == CE_MAC_BYTES);
}

void ce_mac_close(ce_mac *mac)
{
    EVP_MAC_CTX_free(context_of(mac));
}

void ce_mac_once(unsigned char *tag, const unsigned char *key, const struct iovec *parts, int count)
{
    ce_mac *mac = ce_mac_open(key);
    ce_mac_sum(mac, tag, parts, count);
    ce_mac_close(mac);
}

bool ce_mac_equal(const void *one, const void *other, size_t bytes)
{
    return CRYPTO_memcmp(one, other, bytes) == 0;
}

void ce_mac_key(const void *secret, size_t length, unsigned char *key)
{
    static const unsigned char label[CE_MAC_BYTES] = "cspeed: the key of a job";
    struct iovec text = { (void *)(size_t)secret, length };
    ce_mac_once(key, label, &text, 1);
}

static void write_digits(char *text, const unsigned char *sum, size_t count)
{
    for (size_t i = 0; i < count; i++)
        snprintf(text + 2 * i, 3, "%02x", sum[i]);
}

void ce_mac_digest(char text[CE_MAC_DIGEST], const void *bytes, size_t count)
{
    unsigned char sum[CE_MAC_BYTES];
    size_t size = 0;
    if (!EVP_Q_digest(NULL, "SHA256", NULL, bytes, count, sum, &size) || size != sizeof sum)
        ce_fatal(CS_UNSUPPORTED, "libcrypto has no SHA-256");
    write_digits(text, sum, sizeof sum);
}

void ce_mac_git_blob(char text[CE_MAC_DIGEST], const void *bytes, size_t count)
{
    unsigned char sum[20];
    char head[32];
    int length = snprintf(head, sizeof head, "blob %zu", count);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (!context || !EVP_DigestInit_ex(context, EVP_sha1(), NULL) ||
        !EVP_DigestUpdate(context, head, (size_t)length + 1) || !EVP_DigestUpdate(context, bytes, count) ||
        !EVP_DigestFinal_ex(context, sum, NULL))
        ce_fatal(CS_UNSUPPORTED, "libcrypto has no SHA-1");
    EVP_MD_CTX_free(context);
    write_digits(text, sum, sizeof sum);
}

void ce_mac_random(void *bytes, size_t count)
{
    for (size_t got = 0; got < count;) {
        ssize_t more = getrandom((char *)bytes + got, count - got, 0);
        if (more < 0 && errno != EINTR)
            ce_fatal(CS_IO_ERROR, "the system provides no random bytes: %s", strerror(errno));
        got += more > 0 ? (size_t)more : 0;
    }
}

void ce_mac_forget(void *bytes, size_t count)
{
    OPENSSL_cleanse(bytes, count);
}
