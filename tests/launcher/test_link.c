/* test_link.c - encrypted and authenticated frames between the front and an agent: they arrive in their sequence, and
 * the link ends if a frame was changed, repeated, removed or sent back. */
#include "suite.h"

#include "wire/link.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const unsigned char key[CE_MAC_BYTES] = { 1, 2, 3 };

/* Opens one end of a link. *far_fd receives the socket of the other end. */
static void open_end(cl_link *link, bool calls, int *far_fd)
{
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    cl_link_open(link, ends[0], ends[0], key, calls);
    *far_fd = ends[1];
}

/* Sends three frames from an agent's end. Returns the number of their bytes; ends[] receives where each frame ends. */
static size_t record(char bytes[1024], size_t ends[3])
{
    cl_link agent;
    size_t count = 0;
    int fd;
    open_end(&agent, true, &fd);
    for (int i = 0; i < 3; i++) {
        cl_link_say(&agent, CL_LINK_SAY, (uint32_t)i, "frame %d", i);
        cl_link_flush(&agent);
        ssize_t got = read(fd, bytes + count, 1024 - count);
        ck_assert_int_gt(got, 0);
        ends[i] = count += (size_t)got;
    }
    cl_link_close(&agent);
    close(fd);
    return count;
}

/* Sends the bytes to one end of a link, and returns the number of frames that this end accepts. Checks that the link
 * has then failed if `broken` is true, and has not failed otherwise. */
static int deliver(bool calls, const char *bytes, size_t count, bool broken)
{
    cl_link link;
    cl_message message;
    char text[32];
    int fd, frames = 0;
    open_end(&link, calls, &fd);
    ck_assert_int_eq(write(fd, bytes, count), (ssize_t)count);
    cl_link_fill(&link, 0);
    while (cl_link_next(&link, &message)) {
        snprintf(text, sizeof text, "frame %u", message.rank);
        ck_assert_str_eq(message.bytes, text);
        frames++;
    }
    ck_assert_int_eq(link.broken, broken);
    cl_link_close(&link);
    close(fd);
    return frames;
}

START_TEST(sealed_frames_arrive)
{
    char bytes[1024];
    size_t ends[3], count = record(bytes, ends);
    ck_assert_int_eq(deliver(false, bytes, count, false), 3);
}
END_TEST

START_TEST(a_changed_byte_ends_the_link)
{
    char bytes[1024];
    size_t ends[3];
    record(bytes, ends);
    for (size_t i = ends[0] + 4; i < ends[1]; i++) { /* every byte of the second frame: kind, rank, content and tag */
        bytes[i] ^= 1;
        ck_assert_int_eq(deliver(false, bytes, ends[2], true), 1);
        bytes[i] ^= 1;
    }
}
END_TEST

START_TEST(a_repeated_frame_ends_the_link)
{
    char bytes[1024];
    size_t ends[3];
    record(bytes, ends);
    memmove(bytes + ends[0], bytes, ends[0]);
    ck_assert_int_eq(deliver(false, bytes, 2 * ends[0], true), 1);
}
END_TEST

START_TEST(a_lost_frame_ends_the_link)
{
    char bytes[1024];
    size_t ends[3], count = record(bytes, ends);
    ck_assert_int_eq(deliver(false, bytes + ends[0], count - ends[0], true), 0);
}
END_TEST

START_TEST(a_frame_sent_back_ends_the_link)
{
    char bytes[1024];
    size_t ends[3], count = record(bytes, ends);
    ck_assert_int_eq(deliver(true, bytes, count, true), 0);
}
END_TEST

SUITE_MAIN("link", sealed_frames_arrive, a_changed_byte_ends_the_link, a_repeated_frame_ends_the_link,
           a_lost_frame_ends_the_link, a_frame_sent_back_ends_the_link)
