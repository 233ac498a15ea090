/* seal.h - what two processes that joined say to each other: signed, and numbered in each direction.
 *
 * The tag of a message is the HMAC of its number and its parts under a key of its direction, which follows from the
 * session key. The number is counted on both sides and not sent: a message that is lost, repeated, moved, sent back or
 * of somebody else does not fit. What is not among the parts is not protected, and nothing is hidden. */
#ifndef CS_BASE_SEAL_H
#define CS_BASE_SEAL_H

#include "base/mac.h"

#include <stdint.h>

enum { CS_SEAL_TAG = 16 }; /* bytes of a tag that travel */

typedef struct {
    cs_mac *out, *in;
    uint64_t sent, received;
} cs_seal;

/* `caller`: whether this side was the caller when they joined. */
void cs_seal_open(cs_seal *seal, const unsigned char *session, bool caller);
void cs_seal_close(cs_seal *seal); /* accepts what is all zero */

/* At most CS_SEAL_PARTS parts. */
enum { CS_SEAL_PARTS = 3 };
void cs_seal_sign(cs_seal *seal, unsigned char *tag, const struct iovec *parts, int count);
bool cs_seal_check(cs_seal *seal, const unsigned char *tag, const struct iovec *parts, int count);

#endif
