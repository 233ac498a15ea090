/* fuzz_join.c - sends any bytes to each side of the handshake between the front and a node: nothing crashes, and no
 * peer is accepted. */
#include "security/join.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const unsigned char key[CE_MAC_BYTES] = "the key";

/* The bytes are sent at once, either alone or after the head of a valid hello. */
static void meet(const uint8_t *data, size_t size, bool caller, bool prompted)
{
    static const unsigned char head[CE_JOIN_HEAD] = { 'C', 'S', 'J', 'N', 2, 1, 0, 64 };
    ce_join join;
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) < 0)
        abort();
    if (ce_join_begin(&join, caller, key, "job", 1, "who", 3) != CS_OK)
        abort();
    if ((prompted && write(sockets[0], head, sizeof head) < 0) ||
        (size && send(sockets[0], data, size, MSG_DONTWAIT) < 0))
        abort();
    if (ce_join_advance(&join, sockets[1]) == CE_JOIN_DONE)
        abort();
    close(sockets[0]);
    if (ce_join_advance(&join, sockets[1]) == CE_JOIN_DONE)
        abort();
    close(sockets[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int way = 0; way < 4; way++)
        meet(data, size, way % 2, way / 2);
    return 0;
}
