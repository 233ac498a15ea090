/* endings.c - ranks as child processes, and how they end. */
#include "endings.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_COUNT = 8 };

void endings_perform(ending *endings, int count, endings_play *play, const void *scene)
{
    pid_t children[MAX_COUNT];
    int outputs[MAX_COUNT][2];
    ck_assert_int_le(count, MAX_COUNT);
    for (int i = 0; i < count; i++) {
        ck_assert_int_eq(pipe2(outputs[i], O_CLOEXEC), 0);
        children[i] = fork();
        ck_assert_int_ge(children[i], 0);
        if (children[i] == 0) {
            dup2(outputs[i][1], STDERR_FILENO);
            play(scene, i);
            _exit(0);
        }
        close(outputs[i][1]);
    }
    for (int i = 0; i < count; i++) {
        int status;
        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ssize_t length = read(outputs[i][0], endings[i].said, sizeof endings[i].said - 1);
        endings[i].said[length > 0 ? length : 0] = 0;
        endings[i].code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        close(outputs[i][0]);
    }
}

void endings_must(cs_status status)
{
    if (status == CS_OK)
        return;
    dprintf(STDERR_FILENO, "%s\n", cs_error());
    _exit(cs_exit_code(status));
}

void endings_expect(const ending *end, int code, const char *sentence)
{
    ck_assert_msg(end->code == code, "ended with %d, not %d, saying: %s", end->code, code, end->said);
    ck_assert_msg(!sentence || strstr(end->said, sentence), "said \"%s\", not \"%s\"", end->said, sentence);
}

int endings_leave_early(cs_comm *comm)
{
    cs_comm_barrier(comm);
    if (cs_comm_rank(comm) == 1) {
        cs_comm_close(comm);
        return 0;
    }
    if (cs_comm_rank(comm) == 0) { /* rank 0 does not wait for rank 1, so the end of rank 1 is no error for rank 0 */
        int word = 5;
        nanosleep(&(struct timespec){ .tv_nsec = 300000000 }, NULL);
        cs_comm_send(comm, &word, sizeof word, 2);
    } else {
        int word = 0;
        cs_comm_receive(comm, &word, sizeof word, 0);
        if (word != 5)
            return 1;
    }
    cs_comm_barrier(comm);
    return 0;
}

int endings_call_another(cs_comm *comm)
{
    float data[8] = { 0 };
    if (cs_comm_rank(comm) == 0)
        cs_comm_all_reduce(comm, data, 4, CS_F32, CS_SUM);
    else
        cs_comm_all_gather(comm, data, data, 3, CS_I32);
    return 0;
}
