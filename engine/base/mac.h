/* mac.h - HMAC-SHA256: who knows a key proves it, and what a key signed is not changed on the way.
 *
 * A key is CS_MAC_BYTES bytes, and so is a tag. What cannot fail for a user's reasons ends the process if it does. */
#ifndef CS_BASE_MAC_H
#define CS_BASE_MAC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

enum { CS_MAC_BYTES = 32 };

/* The tag of the parts, one behind the other. */
void cs_mac_once(unsigned char *tag, const unsigned char *key, const struct iovec *parts, int count);

/* The same for many messages under one key, without preparing the key each time. One thread at a time. */
typedef struct cs_mac cs_mac;
cs_mac *cs_mac_open(const unsigned char *key);
void cs_mac_sum(cs_mac *mac, unsigned char *tag, const struct iovec *parts, int count);
void cs_mac_close(cs_mac *mac); /* accepts NULL */

/* Of the first `bytes` of two tags; takes the same time wherever they part. */
bool cs_mac_equal(const void *one, const void *other, size_t bytes);

/* A key from the text of a secret. It does not make a short secret long: take one of at least 16 random bytes. */
void cs_mac_key(const void *secret, size_t length, unsigned char *key);

/* SHA-256 of `bytes`, which needs no key, as lower case hexadecimal digits and a NUL. */
enum { CS_MAC_DIGEST = 2 * CS_MAC_BYTES + 1 };
void cs_mac_digest(char text[CS_MAC_DIGEST], const void *bytes, size_t count);

void cs_mac_random(void *bytes, size_t count);
void cs_mac_forget(void *bytes, size_t count); /* zeroes them, even if nobody reads them again */

#endif
