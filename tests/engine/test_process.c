/* test_process.c - helper processes and what they share. The small programs are the examples of the manual of Python's
 * multiprocessing, and print the same lines. */
#include "cspeed/process.h"

#include "runs.h"
#include "shell.h"
#include "suite.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MANY = 10, TURNS = 2000 };

static void start_all(cs_process **list, int count, int (*run)(void *argument), void *argument)
{
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(cs_process_start(&list[i], run, argument), CS_OK);
}

static void join_all(cs_process **list, int count)
{
    for (int i = 0; i < count; i++) {
        int code = -1;
        ck_assert(cs_process_join(list[i], -1, &code));
        ck_assert_int_eq(code, 0);
        cs_process_close(list[i]);
    }
}

static void check_text(const char *path, const char *wanted)
{
    char *text = shell_read(path, NULL);
    ck_assert_str_eq(text, wanted);
    free(text);
}

/* ---- Process ----------------------------------------------------------------------------------- */

static int greet(void *name)
{
    if (!freopen("lines.txt", "w", stdout))
        return 9;
    printf("hello %s\n", (char *)name);
    return 0;
}

static int answer(void *number)
{
    return *(int *)number;
}

static int wait_for_event(void *event)
{
    return !cs_event_wait(event, -1);
}

START_TEST(a_process_is_started_and_joined)
{
    cs_process *process;
    char name[] = "bob";
    int code = -1, number = 7;
    cs_event *never;
    shell_enter();
    ck_assert_int_eq(cs_process_start(&process, greet, name), CS_OK);
    ck_assert(cs_process_join(process, -1, &code));
    ck_assert_int_eq(code, 0);
    cs_process_close(process);
    check_text("lines.txt", "hello bob\n");
    ck_assert_int_eq(cs_process_start(&process, answer, &number), CS_OK);
    ck_assert(cs_process_join(process, 60, &code));
    ck_assert(cs_process_join(process, 0, NULL)); /* joining a process again returns at once */
    ck_assert_int_eq(code, 7);
    cs_process_close(process);

    ck_assert_int_eq(cs_event_open(&never), CS_OK);
    ck_assert_int_eq(cs_process_start(&process, wait_for_event, never), CS_OK);
    ck_assert(!cs_process_join(process, 0.01, &code));
    ck_assert_int_eq(kill((pid_t)cs_process_id(process), SIGUSR1), 0);
    ck_assert(cs_process_join(process, -1, &code));
    ck_assert_int_eq(code, -SIGUSR1);
    cs_process_close(process);
    ck_assert_int_eq(cs_process_start(&process, wait_for_event, never), CS_OK);
    int64_t id = cs_process_id(process);
    cs_process_close(process); /* kills the process */
    ck_assert_int_ne(kill((pid_t)id, 0), 0);
    cs_event_close(never);
    shell_leave();
}
END_TEST

/* ---- Pool -------------------------------------------------------------------------------------- */

static void square(void *argument, int64_t index, void *result)
{
    *(int64_t *)result = ((int64_t *)argument)[index] * ((int64_t *)argument)[index];
}

static void fail_at_five(void *argument, int64_t index, void *result)
{
    if (index == 5)
        _exit(*(int *)argument);
    *(int64_t *)result = index;
}

START_TEST(a_pool_maps)
{
    int64_t numbers[1000], squares[1000] = { 0 };
    for (int i = 0; i < 1000; i++)
        numbers[i] = i + 1;
    ck_assert_int_eq(cs_pool_map(5, 3, square, numbers, squares, sizeof *squares), CS_OK);
    ck_assert(squares[0] == 1 && squares[1] == 4 && squares[2] == 9 && squares[3] == 0);
    ck_assert_int_eq(cs_pool_map(3, 1000, square, numbers, squares, sizeof *squares), CS_OK);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(squares[i], (int64_t)(i + 1) * (i + 1));
    ck_assert_int_eq(cs_pool_map(2, 0, square, numbers, NULL, sizeof *squares), CS_OK);
    squares[0] = -1;
    for (int code = 0; code < 4; code += 3) {
        ck_assert_int_eq(cs_pool_map(2, 9, fail_at_five, &code, squares, sizeof *squares), CS_NO_PEER);
        ck_assert_int_eq(squares[0], -1);
    }
    ck_assert_ptr_nonnull(strstr(cs_error(), "ended with exit code 3"));
    ck_assert_int_eq(cs_pool_map(0, 1, square, numbers, squares, sizeof *squares), CS_MISUSE);
    ck_assert_int_eq(cs_pool_map(1, INT64_MAX, square, numbers, squares, sizeof *squares), CS_NO_MEMORY);
}
END_TEST

/* ---- Queue, Pipe ------------------------------------------------------------------------------- */

typedef struct {
    int number;
    char word[8];
} message;

static int put_one(void *queue)
{
    return cs_queue_put(queue, &(message){ 42, "hello" }, sizeof(message)) != CS_OK;
}

static int put_many(void *queue)
{
    for (int i = 0; i < TURNS; i++)
        if (cs_queue_put(queue, (int[]){ (int)getpid(), i }, 2 * sizeof(int)) != CS_OK)
            return 1;
    return 0;
}

START_TEST(a_queue_carries_messages)
{
    cs_queue *queue;
    cs_process *list[MANY];
    message got;
    int next[MANY] = { 0 }, pair[2];
    ck_assert_int_eq(cs_queue_open(&queue), CS_OK);
    ck_assert_int_eq(cs_queue_get(queue, &got, sizeof got, 0.01), -1);
    start_all(list, 1, put_one, queue);
    ck_assert_int_eq(cs_queue_get(queue, &got, sizeof got, -1), sizeof got);
    join_all(list, 1);
    ck_assert_int_eq(got.number, 42);
    ck_assert_str_eq(got.word, "hello");

    start_all(list, 4, put_many, queue);
    for (int i = 0; i < 4 * TURNS; i++) {
        int from = 0;
        ck_assert_int_eq(cs_queue_get(queue, pair, sizeof pair, -1), sizeof pair);
        while (cs_process_id(list[from]) != pair[0])
            ck_assert_int_lt(++from, 4);
        ck_assert_int_eq(pair[1], next[from]++); /* the messages of one process keep their order */
    }
    join_all(list, 4);

    char *big = calloc(1, CS_QUEUE_BYTES + 1);
    big[0] = 'x';
    ck_assert_int_eq(cs_queue_put(queue, big, CS_QUEUE_BYTES + 1), CS_MISUSE);
    ck_assert_int_eq(cs_queue_put(queue, big, CS_QUEUE_BYTES), CS_OK);
    ck_assert_int_eq(cs_queue_put(queue, big, 0), CS_OK);
    /* Only 1 byte fits into `got`; the call returns the length of the message. */
    ck_assert_int_eq(cs_queue_get(queue, &got, 1, 60), CS_QUEUE_BYTES);
    ck_assert_int_eq(cs_queue_get(queue, &got, 1, 60), 0);
    ck_assert_int_eq(cs_queue_get(queue, &got, 1, 0), -1);
    free(big);
    cs_queue_close(queue);
}
END_TEST

static int send_one(void *end)
{
    return send(*(int *)end, &(message){ 42, "hello" }, sizeof(message), 0) != sizeof(message);
}

START_TEST(a_pipe_is_a_socket_pair)
{
    int ends[2];
    message got;
    cs_process *process;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    start_all(&process, 1, send_one, &ends[1]);
    ck_assert_int_eq(recv(ends[0], &got, sizeof got, 0), sizeof got);
    ck_assert_int_eq(got.number, 42);
    join_all(&process, 1);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

/* ---- Lock -------------------------------------------------------------------------------------- */

typedef struct {
    cs_lock *lock;
    cs_semaphore *semaphore;
    int64_t *count; /* a counter in memory that the processes share */
    _Atomic int *inside, *max;
} table;

static int greet_in_turn(void *argument)
{
    table *t = argument;
    char line[32];
    int file = open("lines.txt", O_WRONLY | O_CREAT | O_APPEND, 0600);
    cs_lock_take(t->lock);
    int length = snprintf(line, sizeof line, " world %d\n", (int)(*t->count)++);
    bool good = write(file, "hello", 5) == 5;
    sched_yield();
    good &= write(file, line, (size_t)length) == length;
    cs_lock_give(t->lock);
    return !good;
}

static int add(void *argument)
{
    table *t = argument;
    for (int i = 0; i < TURNS; i++) {
        cs_lock_take(t->lock);
        int64_t before = *t->count;
        if (i % 100 == 0)
            sched_yield();
        *t->count = before + 1;
        cs_lock_give(t->lock);
    }
    return 0;
}

static int keep(void *lock)
{
    return !cs_lock_take(lock);
}

START_TEST(a_lock_is_held_by_one_process)
{
    cs_process *list[MANY];
    table t = { .count = run_share(sizeof *t.count) };
    shell_enter();
    ck_assert_int_eq(cs_lock_open(&t.lock), CS_OK);
    start_all(list, MANY, greet_in_turn, &t);
    join_all(list, MANY);
    check_text("lines.txt", "hello world 0\nhello world 1\nhello world 2\nhello world 3\nhello world 4\n"
                            "hello world 5\nhello world 6\nhello world 7\nhello world 8\nhello world 9\n");
    *t.count = 0;
    start_all(list, 4, add, &t);
    join_all(list, 4);
    ck_assert_int_eq(*t.count, 4 * TURNS);

    start_all(list, 1, keep, t.lock); /* this process ends while it holds the lock */
    join_all(list, 1);
    ck_assert(!cs_lock_take(t.lock));
    cs_lock_give(t.lock);
    ck_assert(cs_lock_take(t.lock));
    cs_lock_give(t.lock);
    cs_lock_close(t.lock);
    run_unshare(t.count, sizeof *t.count);
    shell_leave();
}
END_TEST

/* ---- Semaphore, Event -------------------------------------------------------------------------- */

static int go_inside(void *argument)
{
    table *t = argument;
    for (int i = 0; i < 50; i++) {
        if (!cs_semaphore_take(t->semaphore, -1))
            return 1;
        int now = atomic_fetch_add(t->inside, 1) + 1, max = atomic_load(t->max);
        while (now > max && !atomic_compare_exchange_weak(t->max, &max, now))
            ;
        usleep(200);
        atomic_fetch_sub(t->inside, 1);
        cs_semaphore_give(t->semaphore);
    }
    return 0;
}

START_TEST(a_semaphore_lets_as_many_in_as_it_counts)
{
    cs_process *list[MANY];
    _Atomic int *numbers = run_share(2 * sizeof *numbers);
    table t = { .inside = numbers, .max = numbers + 1 };
    ck_assert_int_eq(cs_semaphore_open(&t.semaphore, 2), CS_OK);
    start_all(list, 5, go_inside, &t);
    join_all(list, 5);
    ck_assert_int_eq(atomic_load(t.max), 2);
    ck_assert(cs_semaphore_take(t.semaphore, 0) && cs_semaphore_take(t.semaphore, 0));
    ck_assert(!cs_semaphore_take(t.semaphore, 0.01));
    cs_semaphore_give(t.semaphore);
    ck_assert(cs_semaphore_take(t.semaphore, -1));
    cs_semaphore_close(t.semaphore);
    ck_assert_int_eq(cs_semaphore_open(&t.semaphore, ~0u), CS_MISUSE);
    run_unshare((void *)numbers, 2 * sizeof *numbers);
}
END_TEST

START_TEST(an_event_wakes_all_that_wait)
{
    cs_process *list[MANY];
    cs_event *event;
    ck_assert_int_eq(cs_event_open(&event), CS_OK);
    start_all(list, 3, wait_for_event, event);
    ck_assert(!cs_event_wait(event, 0.01));
    for (int i = 0; i < 3; i++)
        ck_assert(!cs_process_join(list[i], 0, NULL));
    cs_event_set(event);
    join_all(list, 3);
    ck_assert(cs_event_wait(event, 0));
    cs_event_clear(event);
    ck_assert(!cs_event_wait(event, 0));
    cs_event_close(event);
}
END_TEST

/* ---- nothing is left --------------------------------------------------------------------------- */

static int count_descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

START_TEST(nothing_is_left)
{
    int before = count_descriptors();
    for (int i = 0; i < 100; i++) {
        cs_queue *queue;
        cs_process *process;
        ck_assert_int_eq(cs_queue_open(&queue), CS_OK);
        start_all(&process, 1, put_one, queue);
        cs_process_close(process);
        cs_queue_close(queue);
    }
    ck_assert_int_eq(count_descriptors(), before);
    cs_process_close(NULL);
    cs_queue_close(NULL);
    cs_lock_close(NULL);
    cs_semaphore_close(NULL);
    cs_event_close(NULL);
}
END_TEST

SUITE_MAIN("process", a_process_is_started_and_joined, a_pool_maps, a_queue_carries_messages, a_pipe_is_a_socket_pair,
           a_lock_is_held_by_one_process, a_semaphore_lets_as_many_in_as_it_counts, an_event_wakes_all_that_wait,
           nothing_is_left)
