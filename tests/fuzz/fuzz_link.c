/* fuzz_link.c - reads any bytes as messages between the front and an agent, and as an order.
 *
 * A decoded order, encoded and decoded again, must be the same. If the first byte is odd, the link is sealed: its
 * frames are encrypted and authenticated. */
#include "wire/link.h"
#include "plan/order.h"

#include "base/must.h"
#include "base/status.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_order(const char *bytes, size_t length)
{
    cl_order order, again;
    if (cl_order_decode(&order, bytes, length) == 0) {
        size_t other_length;
        char *other = cl_order_encode(&order, &other_length);
        CE_ASSERT(cl_order_decode(&again, other, other_length) == 0);
        CE_ASSERT(strcmp(again.arguments[0], order.arguments[0]) == 0 && again.rank_count == order.rank_count);
        cl_order_free(&again);
        free(other);
    }
    cl_order_free(&order);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned char key[CE_MAC_BYTES] = { 1 };
    int ends[2];
    cl_link link;
    cl_message message;
    if (size < 1 || size > 4096 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return 0;
    CE_ASSERT(write(ends[1], data + 1, size - 1) == (ssize_t)(size - 1));
    close(ends[1]);
    cl_link_open(&link, ends[0], ends[0], data[0] & 1 ? key : NULL, false);
    cl_link_fill(&link, 0);
    while (cl_link_next(&link, &message)) {
        CE_ASSERT(message.bytes[message.length] == '\0');
        check_order(message.bytes, message.length);
    }
    cl_link_close(&link);
    check_order((const char *)data, size);
    return 0;
}
