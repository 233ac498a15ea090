/* stall_timer.c - stall detection for --stall_timeout. */
#include "front/stall_timer.h"

#include "front/stall_report.h"

#include <stdlib.h>

#define SECOND INT64_C(1000000000)

static void ask_for_stack(cl_front *front, int rank)
{
    cl_link_send(&front->nodes[front->workers[rank].node].link, CL_LINK_STACK, (uint32_t)rank, NULL, 0);
}

static void report_stall(cl_front *front, int64_t now)
{
    int suspect = cl_stall_report_suspect(front);
    char *text = cl_stall_report_text(front, now);
    cl_output_say(&front->output, "%s", text);
    free(text);
    for (int rank = 0; rank < front->worker_count; rank++)
        if (rank == suspect || (suspect < 0 && rank == 0) || front->options->stall_action == CL_STALL_DUMP)
            ask_for_stack(front, rank);
}

void cl_stall_timer_check(cl_stall_timer *timer, cl_front *front, int64_t now)
{
    int64_t limit = (int64_t)(front->options->stall_timeout * (double)SECOND);
    int64_t age = limit > 0 && front->phase == CL_RUNNING ? cl_stall_report_age(front, now) : 0;
    if (age < limit || age == 0 || age == INT64_MAX) {
        *timer = (cl_stall_timer){ 0 };
        return;
    }
    if (!timer->said) {
        report_stall(front, now);
        timer->said = true;
        timer->kill_at = front->options->stall_action == CL_STALL_KILL ? now + SECOND : 0;
    }
    if (timer->kill_at && now >= timer->kill_at) {
        front->stalled = true;
        cl_front_stop(front, now);
    }
}
