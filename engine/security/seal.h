/* seal.h - authenticated messages between two processes after the handshake of join.h.
 *
 * The tag of a message is an HMAC of its sequence number and its parts. Each direction has its own key, derived from
 * the session key. Both sides count the sequence number and do not send it, so a message that was dropped, repeated,
 * reordered, reflected or forged fails the check. Data outside the parts is not protected, and nothing is encrypted. */
#ifndef CE_SECURITY_SEAL_H
#define CE_SECURITY_SEAL_H

#include "security/mac.h"

#include <stdint.h>

enum { CE_SEAL_TAG = 16 }; /* length of a tag in bytes; a tag is the first 16 bytes of an HMAC */

typedef struct {
    ce_mac *out, *in;
    uint64_t sent, received;
} ce_seal;

/* `session` is the session key of the handshake (join.h). `caller` is true on the side that was the caller in the
 * handshake. */
void ce_seal_open(ce_seal *seal, const unsigned char *session, bool caller);
void ce_seal_close(ce_seal *seal); /* frees the HMAC contexts of both directions; accepts a struct that is all zeros */

/* ce_seal_sign computes the tag of the next message that is sent; ce_seal_check checks the tag of the next message that
 * was received. A message has at most CE_SEAL_PARTS parts. */
enum { CE_SEAL_PARTS = 3 };
void ce_seal_sign(ce_seal *seal, unsigned char *tag, const struct iovec *parts, int count);
bool ce_seal_check(ce_seal *seal, const unsigned char *tag, const struct iovec *parts, int count);

#endif
