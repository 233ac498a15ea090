/* fake.h - a fake front process of a job that never ran: two nodes of two ranks each, in any state that a test sets. */
#ifndef CS_TESTS_FAKE_H
#define CS_TESTS_FAKE_H

#include "front/front.h"

#include "base/beat.h"

#include <signal.h>
#include <string.h>

enum { FAKE_RANKS = 4 };

typedef struct {
    cl_options options;
    int slots[2];
    cl_host hosts[2];
    cl_plan_node places[2];
    cl_plan plan;
    cl_node nodes[2];
    cl_worker workers[FAKE_RANKS];
    cl_front front;
} fake;

/* Makes the fake job: all ranks run and have sent no progress record. */
static inline cl_front *fake_front(fake *job)
{
    memset(job, 0, sizeof *job);
    job->slots[1] = 1;
    job->options.stop_signal = SIGTERM;
    job->plan = (cl_plan){ .options = &job->options, .nodes = job->places, .node_count = 2, .rank_count = FAKE_RANKS };
    strcpy(job->plan.id, "ab12cd34");
    for (int i = 0; i < 2; i++) {
        job->hosts[i] = (cl_host){ .name = i ? "w1" : "w0", .slot_count = 2, .slots = job->slots };
        job->places[i] = (cl_plan_node){ .host = &job->hosts[i], .first_rank = 2 * i };
        job->nodes[i] = (cl_node){ .state = CL_NODE_SWEPT, .here = i == 0 };
        strcpy(job->nodes[i].host, job->hosts[i].name);
    }
    for (int rank = 0; rank < FAKE_RANKS; rank++)
        job->workers[rank] = (cl_worker){
            .state = CL_WORKER_RUNNING, .node = rank / 2, .pid = 1000 + rank, .beat = { .step = -1, .age = -1 }
        };
    job->front = (cl_front){ .options = &job->options, .plan = &job->plan, .nodes = job->nodes, .node_total = 2 };
    job->front.workers = job->workers;
    job->front.worker_count = FAKE_RANKS;
    job->front.first = job->front.first_node = -1;
    job->front.began = ce_clock_now();
    return &job->front;
}

/* Adds a progress record that arrived at the time `arrived`, `age` nanoseconds after the rank had reached its
 * position. */
static inline void fake_beat(cl_front *front, int rank, int64_t step, int collective, int64_t age, int64_t arrived)
{
    front->workers[rank].beat = (cl_link_beat){ .rank = rank, .collectives = { collective }, .step = step, .age = age };
    front->workers[rank].beat_at = arrived;
}

/* Ends a rank with this wait status, `after` nanoseconds after the start. */
static inline void fake_end(cl_front *front, int rank, int status, bool stopped, int64_t after)
{
    cl_worker *worker = &front->workers[rank];
    worker->state = CL_WORKER_ENDED;
    worker->ended = front->began + after;
    worker->end =
        (cl_link_end){ .status = status, .stopped = stopped, .oom_from = -1, .oom_to = -1, .beat = worker->beat };
}

#endif
