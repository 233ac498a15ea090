/* mac.h - message authentication (HMAC-SHA256), SHA-256 digests and cryptographic random bytes, from libcrypto.
 *
 * Keys and tags (authentication codes) have CE_MAC_BYTES bytes. If libcrypto fails, the process ends. */
#ifndef CE_SECURITY_MAC_H
#define CE_SECURITY_MAC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

enum { CE_MAC_BYTES = 32 };

/* Computes the tag of the concatenation of `count` parts. */
void ce_mac_once(unsigned char *tag, const unsigned char *key, const struct iovec *parts, int count);

/* A ce_mac computes the tags of many messages with one key; ce_mac_open prepares the key only once. Only one thread at
 * a time may use a ce_mac. */
typedef struct ce_mac ce_mac;
ce_mac *ce_mac_open(const unsigned char *key);
void ce_mac_sum(ce_mac *mac, unsigned char *tag, const struct iovec *parts, int count);
void ce_mac_close(ce_mac *mac); /* frees `mac`, which may be NULL */

/* Compares the first `bytes` bytes of two tags in a time that does not depend on where they differ. */
bool ce_mac_equal(const void *one, const void *other, size_t bytes);

/* Derives a key from a secret. The key is not harder to guess than the secret, which should be at least 16 random
 * bytes. */
void ce_mac_key(const void *secret, size_t length, unsigned char *key);

/* Writes the SHA-256 digest of `count` bytes as lower-case hexadecimal digits and a NUL. */
enum { CE_MAC_DIGEST = 2 * CE_MAC_BYTES + 1 };
void ce_mac_digest(char text[CE_MAC_DIGEST], const void *bytes, size_t count);
/* Writes in the same form the name that Git gives to a file with these bytes: the SHA-1 of "blob COUNT", a NUL, and the
 * bytes. */
void ce_mac_git_blob(char text[CE_MAC_DIGEST], const void *bytes, size_t count);

void ce_mac_random(void *bytes, size_t count);
void ce_mac_forget(void *bytes, size_t count); /* sets the bytes to zero; the compiler cannot remove this call */

#endif
