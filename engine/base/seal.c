/* seal.c - authenticated, numbered messages between two processes. */
#include "base/seal.h"
#include "base/must.h"

#include <string.h>

static cs_mac *open_direction(const unsigned char *session, bool from_caller)
{
    static char labels[][32] = { "cspeed listener to caller", "cspeed caller to listener" };
    unsigned char key[CS_MAC_BYTES];
    struct iovec label = { labels[from_caller], sizeof labels[0] };
    cs_mac_once(key, session, &label, 1);
    cs_mac *made = cs_mac_open(key);
    cs_mac_forget(key, sizeof key);
    return made;
}

void cs_seal_open(cs_seal *seal, const unsigned char *session, bool caller)
{
    *seal = (cs_seal){ .out = open_direction(session, caller), .in = open_direction(session, !caller) };
}

void cs_seal_close(cs_seal *seal)
{
    cs_mac_close(seal->out);
    cs_mac_close(seal->in);
    *seal = (cs_seal){ 0 };
}

static void sum(cs_mac *mac, uint64_t *number, unsigned char *tag, const struct iovec *parts, int count)
{
    struct iovec all[1 + CS_SEAL_PARTS] = { { number, sizeof *number } };
    CS_ASSERT(count <= CS_SEAL_PARTS);
    memcpy(all + 1, parts, (size_t)count * sizeof *parts);
    cs_mac_sum(mac, tag, all, 1 + count);
    ++*number;
}

void cs_seal_sign(cs_seal *seal, unsigned char *tag, const struct iovec *parts, int count)
{
    unsigned char whole[CS_MAC_BYTES];
    sum(seal->out, &seal->sent, whole, parts, count);
    memcpy(tag, whole, CS_SEAL_TAG);
}

bool cs_seal_check(cs_seal *seal, const unsigned char *tag, const struct iovec *parts, int count)
{
    unsigned char whole[CS_MAC_BYTES];
    sum(seal->in, &seal->received, whole, parts, count);
    return cs_mac_equal(tag, whole, CS_SEAL_TAG);
}
