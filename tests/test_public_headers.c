/* test_public_headers.c - each public header compiles by itself, with include/ as the only folder, and links. */
#include "cspeed/comm.h"
#include "cspeed/layer.h"
#include "cspeed/ops.h"
#include "cspeed/options.h"
#include "cspeed/cspeed.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>

START_TEST(a_program_uses_each_public_header)
{
    cs_world world = { .size = 1, .local_size = 1 };
    cs_comm *comm;
    float value = 3;
    ck_assert_int_eq(cs_comm_open(&comm, &world, &(cs_comm_settings){ .kind = "self" }), CS_OK);
    cs_comm_all_reduce(comm, &value, 1, CS_F32, CS_SUM);
    cs_comm_close(comm);
    ck_assert_float_eq(value, 3);

    cs_rope rope;
    cs_rope_open(&rope, &(cs_rope_sizes){ .width = 4, .theta = 10000 });
    ck_assert_float_eq(rope.frequency[0], 1);

    /* cs_op_gelu is linked but not called, because only a pass has a stream. */
    void (*gelu)(cs_stream *, cs_tensor, cs_tensor) = cs_op_gelu;
    ck_assert(gelu != NULL);
    ck_assert_int_eq(cs_exit_code(CS_NO_PEER), 75);
    ck_assert_int_eq(cs_options_choice("a|b", "b"), 1);
}
END_TEST

/* Each header compiles when it is the only one, as C and as C++. */
START_TEST(each_public_header_stands_alone)
{
    static const char *const headers[] = { "cspeed", "layer",   "ops",      "comm",    "options",
                                           "plot",   "sampler", "measures", "process", "loader" };
    static const char *const compilers[] = { "cc -std=c17 -x c", "c++ -std=c++17 -x c++" };
    for (size_t c = 0; c < sizeof compilers / sizeof *compilers; c++)
        for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
            char command[1024];
            snprintf(
                command, sizeof command,
                "command -v %.*s > /dev/null || exit 0; "
                "echo '#include \"cspeed/%s.h\"' | %s -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I'%s/include' -",
                c == 0 ? 2 : 3, compilers[c], headers[i], compilers[c], CS_SOURCE);
            ck_assert_msg(system(command) == 0, "%s", command);
        }
}
END_TEST

SUITE_MAIN("public_headers", a_program_uses_each_public_header, each_public_header_stands_alone)
