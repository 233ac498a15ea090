/* test_join.c - mutual authentication: a process with the secret is accepted; every other connection is refused,
 * whatever it sends. */
#include "base/clock.h"
#include "security/join.h"
#include "suite.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const unsigned char key_one[CE_MAC_BYTES] = "one", key_two[CE_MAC_BYTES] = "two";

typedef struct {
    int sockets[2];
    ce_join sides[2]; /* index 0: the caller; index 1: the listener */
    ce_join_state states[2];
    char errors[2][512];
} pair;

static void begin(pair *both, const unsigned char *key, const char *job, int attempt)
{
    *both = (pair){ 0 };
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, both->sockets), 0);
    ck_assert_int_eq(ce_join_begin(&both->sides[0], true, key_one, "job", 3, "rank 1", 6), CS_OK);
    ck_assert_int_eq(ce_join_begin(&both->sides[1], false, key, job, attempt, "rank 0!", 7), CS_OK);
}

static void advance(pair *both, int side)
{
    if (both->states[side] != CE_JOIN_WAITS)
        return;
    both->states[side] = ce_join_advance(&both->sides[side], both->sockets[side]);
    if (both->states[side] == CE_JOIN_REFUSED)
        snprintf(both->errors[side], sizeof both->errors[side], "%s", cs_error());
}

static void run(pair *both)
{
    for (int turn = 0; turn < 8; turn++)
        advance(both, turn % 2);
}

static void end(pair *both)
{
    close(both->sockets[0]);
    close(both->sockets[1]);
}

START_TEST(both_know_the_secret)
{
    pair both;
    char after[4] = "";
    begin(&both, key_one, "job", 3);
    run(&both);
    ck_assert_msg(both.states[0] == CE_JOIN_DONE && both.states[1] == CE_JOIN_DONE, "%s%s", both.errors[0],
                  both.errors[1]);
    ck_assert_mem_eq(both.sides[0].session, both.sides[1].session, CE_MAC_BYTES);
    ck_assert_str_eq((char *)both.sides[1].peer, "rank 1");
    ck_assert_str_eq((char *)both.sides[0].peer, "rank 0!");
    ck_assert_uint_eq(both.sides[0].peer_bytes, 7);
    ck_assert_int_eq(write(both.sockets[0], "abc", 3), 3); /* the handshake has read exactly its own bytes */
    ck_assert_int_eq(read(both.sockets[1], after, 4), 3);
    ck_assert_str_eq(after, "abc");
    end(&both);
}
END_TEST

START_TEST(sessions_differ)
{
    unsigned char first[CE_MAC_BYTES];
    pair both;
    begin(&both, key_one, "job", 3);
    run(&both);
    memcpy(first, both.sides[0].session, sizeof first);
    end(&both);
    begin(&both, key_one, "job", 3);
    run(&both);
    ck_assert_mem_ne(first, both.sides[0].session, CE_MAC_BYTES);
    end(&both);
}
END_TEST

static const struct {
    const unsigned char *key;
    const char *job;
    int attempt;
    const char *listener, *caller; /* parts of the error messages on the two sides */
} refusals[] = {
    { key_two, "job", 3, "does not have the secret of job \"job\"", "refuses: the two sides' secrets differ" },
    { NULL, "job", 3, "it has a secret, but this side has none", "one side has a secret" },
    { key_one, "jab", 3, "it belongs to job \"job\", not \"jab\"", "refuses: it belongs to another job" },
    { key_one, "job", 4, "it belongs to attempt 3, not 4", "refuses: it belongs to another attempt" },
};

START_TEST(peers_of_another_job_or_key_are_refused)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        pair both;
        begin(&both, refusals[i].key, refusals[i].job, refusals[i].attempt);
        run(&both);
        ck_assert_int_eq(both.states[0], CE_JOIN_REFUSED);
        ck_assert_int_eq(both.states[1], CE_JOIN_REFUSED);
        ck_assert_msg(strstr(both.errors[1], refusals[i].listener) != NULL, "listener: %s", both.errors[1]);
        ck_assert_msg(strstr(both.errors[0], refusals[i].caller) != NULL, "caller: %s", both.errors[0]);
        end(&both);
    }
}
END_TEST

START_TEST(no_secret_on_both_sides_joins)
{
    pair both;
    begin(&both, NULL, "job", 3);
    ck_assert_int_eq(ce_join_begin(&both.sides[0], true, NULL, "job", 3, "", 0), CS_OK);
    run(&both);
    ck_assert_int_eq(both.states[0], CE_JOIN_DONE);
    ck_assert_int_eq(both.states[1], CE_JOIN_DONE);
    ck_assert_uint_eq(both.sides[1].peer_bytes, 0);
    end(&both);
}
END_TEST

/* Forwards what one side sends to the other, and keeps a copy. */
static size_t carry(pair *here, int from, int to_socket, unsigned char *kept, size_t at)
{
    ssize_t got = recv(here->sockets[1 - from], kept + at, 4096, MSG_DONTWAIT);
    if (got <= 0)
        return at;
    ck_assert_int_eq(send(to_socket, kept + at, (size_t)got, MSG_NOSIGNAL), got);
    return at + (size_t)got;
}

/* Replay attack: an attacker that recorded a whole handshake sends the caller's bytes again. */
START_TEST(a_replay_is_refused)
{
    pair caller, listener;
    unsigned char said[8192], answered[8192];
    size_t said_bytes = 0, answered_bytes = 0;
    begin(&caller, key_one, "job", 3);   /* the attacker uses sockets[1] of `caller` */
    begin(&listener, key_one, "job", 3); /* the attacker uses sockets[0] of `listener` */
    for (int turn = 0; turn < 4; turn++) {
        advance(&caller, 0);
        said_bytes = carry(&caller, 0, listener.sockets[0], said, said_bytes);
        advance(&listener, 1);
        answered_bytes = carry(&listener, 1, caller.sockets[1], answered, answered_bytes);
    }
    ck_assert_int_eq(caller.states[0], CE_JOIN_DONE);
    ck_assert_int_eq(listener.states[1], CE_JOIN_DONE);
    end(&caller);
    end(&listener);
    begin(&listener, key_one, "job", 3);
    ck_assert_int_eq(write(listener.sockets[0], said, said_bytes), (ssize_t)said_bytes);
    run(&listener);
    ck_assert_int_eq(listener.states[1], CE_JOIN_REFUSED);
    ck_assert_msg(strstr(listener.errors[1], "recorded messages") != NULL, "%s", listener.errors[1]);
    end(&listener);
    begin(&caller, key_one, "job", 3); /* the listener's bytes are sent again too */
    ck_assert_int_eq(write(caller.sockets[1], answered, answered_bytes), (ssize_t)answered_bytes);
    advance(&caller, 0);
    ck_assert_int_eq(caller.states[0], CE_JOIN_REFUSED);
    end(&caller);
}
END_TEST

/* To a peer that has not proved anything, a listener sends only its hello message: a header, and the bytes that the
 * header announces. Nothing in the hello message is computed with the key, so guesses of the secret cannot be tested
 * against it. */
START_TEST(a_listener_proves_nothing_first)
{
    enum { HELLO = 1 };
    pair both;
    unsigned char said[8192], again[8192];
    ssize_t lengths[2];
    const unsigned char *keys[] = { key_one, key_two };
    for (int i = 0; i < 2; i++) {
        begin(&both, keys[i], "job", 3);
        advance(&both, 0);
        advance(&both, 1);
        lengths[i] = recv(both.sockets[0], i ? again : said, sizeof said, MSG_DONTWAIT);
        end(&both);
    }
    ck_assert_int_eq(said[5], HELLO);
    ck_assert_int_eq(lengths[0], CE_JOIN_HEAD + (said[6] << 8 | said[7]));
    ck_assert_int_eq(lengths[0], lengths[1]);
    size_t nonce = CE_JOIN_HEAD + 7; /* 32 random bytes; the other bytes do not depend on the key */
    ck_assert_mem_eq(said, again, nonce);
    ck_assert_mem_eq(said + nonce + 32, again + nonce + 32, (size_t)lengths[0] - nonce - 32);
}
END_TEST

/* Reflection: a caller receives its own message, first as it is, then with the role of a listener. Both are refused. */
START_TEST(a_reflected_message_is_refused)
{
    pair both;
    unsigned char words[4096];
    begin(&both, key_one, "job", 3);
    advance(&both, 0);
    ssize_t got = read(both.sockets[1], words, sizeof words);
    ck_assert_int_gt(got, 0);
    ck_assert_int_eq(write(both.sockets[1], words, (size_t)got), got);
    advance(&both, 0);
    ck_assert_int_eq(both.states[0], CE_JOIN_REFUSED);
    end(&both);
    begin(&both, key_one, "job", 3);
    advance(&both, 0);
    got = read(both.sockets[1], words, sizeof words);
    words[CE_JOIN_HEAD] = 2; /* the same message with the role of a listener */
    ck_assert_int_eq(write(both.sockets[1], words, (size_t)got), got);
    advance(&both, 0);
    ck_assert_int_eq(both.states[0], CE_JOIN_REFUSED);
    ck_assert_msg(strstr(both.errors[0], "own challenge") != NULL, "%s", both.errors[0]);
    end(&both);
}
END_TEST

/* Every bit of the handshake is protected: a change of any bit causes a refusal. */
START_TEST(a_changed_byte_is_noticed)
{
    for (int direction = 0; direction < 2; direction++)
        for (size_t at = 0; at < 200; at++) {
            pair caller, listener;
            unsigned char words[8192];
            size_t passed = 0;
            bool hit = false;
            begin(&caller, key_one, "job", 3);
            begin(&listener, key_one, "job", 3);
            for (int turn = 0; turn < 8; turn++) {
                int from = turn % 2;
                pair *talks = from ? &listener : &caller, *hears = from ? &caller : &listener;
                advance(talks, from);
                ssize_t got = recv(talks->sockets[1 - from], words, sizeof words, MSG_DONTWAIT);
                if (got <= 0)
                    continue;
                if (from == direction && at >= passed && at < passed + (size_t)got) {
                    words[at - passed] ^= 0x10;
                    hit = true;
                }
                passed += from == direction ? (size_t)got : 0;
                ck_assert_int_eq(send(hears->sockets[from], words, (size_t)got, MSG_NOSIGNAL), got);
            }
            bool joined = caller.states[0] == CE_JOIN_DONE && listener.states[1] == CE_JOIN_DONE;
            ck_assert_msg(joined == !hit, "byte %zu of direction %d: joined %d, changed %d", at, direction, joined,
                          hit);
            end(&caller);
            end(&listener);
        }
}
END_TEST

static const struct {
    const char *words;
    size_t bytes;
    const char *says;
} garbage[] = {
    { "GET / HTTP/1.1\r\n\r\n", 18, "malformed hello" },
    { "CSJN\3\1\377\377", 8, "malformed message" },
    { "CSJN\3\1\0\0", 8, "malformed hello" },
    { "CSJN\3\2\0\40", 8, "malformed message" },
    { "CSJN\1\1\0\50", 8, "version 1" },
    { "CSJN\3\3\0\1\2", 9, "refuses: it belongs to another job" },
    { "CSJN\3\3\0\1\377", 9, "refuses: it does not understand" },
    { "CSJN\3\3\0\1\6", 9, "refuses: a node has connected to the rendezvous of the ranks," },
};

START_TEST(garbage_is_refused)
{
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        pair both;
        begin(&both, key_one, "job", 3);
        ck_assert_int_eq(write(both.sockets[0], garbage[i].words, garbage[i].bytes), (ssize_t)garbage[i].bytes);
        advance(&both, 1);
        ck_assert_int_eq(both.states[1], CE_JOIN_REFUSED);
        ck_assert_msg(strstr(both.errors[1], garbage[i].says) != NULL, "%s", both.errors[1]);
        end(&both);
    }
}
END_TEST

START_TEST(the_silent_are_let_go_of)
{
    pair both;
    begin(&both, key_one, "job", 3);
    advance(&both, 1);
    ck_assert_int_eq(both.states[1], CE_JOIN_WAITS);
    ck_assert_int_eq(ce_join_events(&both.sides[1]), POLLIN);
    both.sides[1].deadline = ce_clock_seconds() - 1;
    advance(&both, 1);
    ck_assert_int_eq(both.states[1], CE_JOIN_REFUSED);
    ck_assert_msg(strstr(both.errors[1], "in time") != NULL, "%s", both.errors[1]);
    end(&both);
    begin(&both, key_one, "job", 3);
    close(both.sockets[1]);
    advance(&both, 0);
    ck_assert_int_eq(both.states[0], CE_JOIN_REFUSED);
    close(both.sockets[0]);
}
END_TEST

/* The bytes arrive one at a time and are assembled. */
START_TEST(a_slow_peer_joins)
{
    pair caller, listener;
    unsigned char one[1];
    begin(&caller, key_one, "job", 3);
    begin(&listener, key_one, "job", 3);
    for (int turn = 0; turn < 4096; turn++) {
        advance(&caller, 0);
        advance(&listener, 1);
        if (recv(caller.sockets[1], one, 1, MSG_DONTWAIT) == 1)
            ck_assert_int_eq(write(listener.sockets[0], one, 1), 1);
        if (recv(listener.sockets[0], one, 1, MSG_DONTWAIT) == 1)
            ck_assert_int_eq(write(caller.sockets[1], one, 1), 1);
    }
    ck_assert_int_eq(caller.states[0], CE_JOIN_DONE);
    ck_assert_int_eq(listener.states[1], CE_JOIN_DONE);
    end(&caller);
    end(&listener);
}
END_TEST

START_TEST(sizes_are_bounded)
{
    ce_join join;
    char job[CE_JOIN_JOB + 2] = "", who[CE_JOIN_IDENTITY + 1] = "";
    memset(job, 'j', CE_JOIN_JOB + 1);
    ck_assert_int_eq(ce_join_begin(&join, true, NULL, job, 0, "", 0), CS_BAD_CONFIG);
    job[CE_JOIN_JOB] = 0;
    ck_assert_int_eq(ce_join_begin(&join, true, NULL, job, 0, who, CE_JOIN_IDENTITY), CS_OK);
    ck_assert_int_eq(ce_join_begin(&join, true, NULL, job, 0, who, CE_JOIN_IDENTITY + 1), CS_BAD_CONFIG);
}
END_TEST

static void set_number(const char *name, int value)
{
    char text[32];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

START_TEST(a_key_is_inherited)
{
    unsigned char key[CE_MAC_BYTES];
    bool known;
    unsetenv("CSPEED_KEY_FD");
    ck_assert_int_eq(ce_join_key(key, &known), CS_OK);
    ck_assert(!known);
    int memory = memfd_create("key", 0);
    ck_assert_int_eq(write(memory, key_two, 7), 7);
    set_number("CSPEED_KEY_FD", memory);
    ck_assert_int_eq(ce_join_key(key, &known), CS_BAD_CONFIG);
    ck_assert_msg(strstr(cs_error(), "contains 7 bytes") != NULL, "%s", cs_error());
    ck_assert_int_eq(pwrite(memory, key_two, sizeof key_two, 0), sizeof key_two);
    for (int i = 0; i < 2; i++) {
        memset(key, 0, sizeof key);
        ck_assert_int_eq(ce_join_key(key, &known), CS_OK);
        ck_assert(known);
        ck_assert_mem_eq(key, key_two, sizeof key);
    }
    ck_assert_int_eq(fcntl(memory, F_GETFD), -1); /* ce_join_key has closed the descriptor */
    unsetenv("CSPEED_KEY_FD");
}
END_TEST

static const struct {
    const char *address;
    bool loopback;
} addresses[] = {
    { "127.0.0.1", true },
    { "127.3.2.1", true },
    { "10.0.0.1", false },
    { "0.0.0.0", false },
    { "::1", true },
    { "::", false },
    { "fe80::1", false },
    { "::ffff:127.0.0.1", true },
    { "::ffff:10.0.0.1", false },
};

START_TEST(without_a_key_only_loopback)
{
    unsetenv("CSPEED_INSECURE_JOIN");
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        struct sockaddr_storage any = { 0 };
        bool six = strchr(addresses[i].address, ':') != NULL;
        any.ss_family = six ? AF_INET6 : AF_INET;
        inet_pton(any.ss_family, addresses[i].address,
                  six ? (void *)&((struct sockaddr_in6 *)(void *)&any)->sin6_addr
                      : (void *)&((struct sockaddr_in *)(void *)&any)->sin_addr);
        const struct sockaddr *address = (const void *)&any;
        ck_assert_int_eq(ce_join_allow(address, true), CS_OK);
        ck_assert_int_eq(ce_join_allow(address, false), addresses[i].loopback ? CS_OK : CS_BAD_CONFIG);
        setenv("CSPEED_INSECURE_JOIN", "1", 1);
        ck_assert_int_eq(ce_join_allow(address, false), CS_OK);
        unsetenv("CSPEED_INSECURE_JOIN");
    }
}
END_TEST

/* No test case of RFC 4231 has a key of CE_MAC_BYTES bytes; this value was computed by Python's hmac module. */
START_TEST(a_tag_is_hmac_sha256)
{
    static const unsigned char should[] = {
        0x09, 0x98, 0x05, 0xf4, 0xac, 0x31, 0x07, 0x86, 0x96, 0x85, 0x65, 0xc0, 0x98, 0xdb, 0x51, 0x5c,
        0xc5, 0x08, 0x62, 0xb4, 0x20, 0xae, 0x31, 0xe2, 0x02, 0x38, 0x31, 0x23, 0x44, 0xbe, 0xd3, 0x6a,
    };
    unsigned char key[CE_MAC_BYTES], tag[CE_MAC_BYTES], again[CE_MAC_BYTES];
    for (int i = 0; i < CE_MAC_BYTES; i++)
        key[i] = (unsigned char)i;
    struct iovec parts[] = { { (char[]){ "what do ya want " }, 16 }, { (char[]){ "for nothing?" }, 12 } };
    ce_mac_once(tag, key, parts, 2);
    ck_assert_mem_eq(tag, should, sizeof tag);
    ce_mac *mac = ce_mac_open(key);
    for (int i = 0; i < 3; i++) {
        ce_mac_sum(mac, again, parts, 2);
        ck_assert(ce_mac_equal(tag, again, sizeof tag));
    }
    again[31] ^= 1;
    ck_assert(!ce_mac_equal(tag, again, sizeof tag));
    ce_mac_close(mac);
}
END_TEST

SUITE_MAIN("join", both_know_the_secret, sessions_differ, peers_of_another_job_or_key_are_refused,
           no_secret_on_both_sides_joins, a_replay_is_refused, a_listener_proves_nothing_first,
           a_reflected_message_is_refused, a_changed_byte_is_noticed, garbage_is_refused, the_silent_are_let_go_of,
           a_slow_peer_joins, sizes_are_bounded, a_key_is_inherited, without_a_key_only_loopback, a_tag_is_hmac_sha256)
