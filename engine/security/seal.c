/* seal.c - authenticated, numbered messages between two processes. */
#include "security/seal.h"
#include "base/must.h"

#include <string.h>

static ce_mac *open_direction(const unsigned char *session, bool from_caller)
{
    static char labels[][32] = { "cspeed listener to caller", "cspeed caller to listener" };
    unsigned char key[CE_MAC_BYTES];
    struct iovec label = { labels[from_caller], sizeof labels[0] };
    ce_mac_once(key, session, &label, 1);
    ce_mac *made = ce_mac_open(key);
    ce_mac_forget(key, sizeof key);
    return made;
}

void ce_seal_open(ce_seal *seal, const unsigned char *session, bool caller)
{
    *seal = (ce_seal){ .out = open_direction(session, caller), .in = open_direction(session, !caller) };
}

void ce_seal_close(ce_seal *seal)
{
    ce_mac_close(seal->out);
    ce_mac_close(seal->in);
    *seal = (ce_seal){ 0 };
}

static void sum(ce_mac *mac, uint64_t *number, unsigned char *tag, const struct iovec *parts, int count)
{
    struct iovec all[1 + CE_SEAL_PARTS] = { { number, sizeof *number } };
    CE_ASSERT(count <= CE_SEAL_PARTS);
    memcpy(all + 1, parts, (size_t)count * sizeof *parts);
    ce_mac_sum(mac, tag, all, 1 + count);
    ++*number;
}

void ce_seal_sign(ce_seal *seal, unsigned char *tag, const struct iovec *parts, int count)
{
    unsigned char whole[CE_MAC_BYTES];
    sum(seal->out, &seal->sent, whole, parts, count);
    memcpy(tag, whole, CE_SEAL_TAG);
}

bool ce_seal_check(ce_seal *seal, const unsigned char *tag, const struct iovec *parts, int count)
{
    unsigned char whole[CE_MAC_BYTES];
    sum(seal->in, &seal->received, whole, parts, count);
    return ce_mac_equal(tag, whole, CE_SEAL_TAG);
}
