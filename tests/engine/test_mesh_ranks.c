/* test_mesh_ranks.c - the device mesh: in every world of up to 24 ranks, and with every possible size of the axes, ranks and
 * coordinates correspond one to one, and the groups along each axis divide the world. */
#include "suite.h"
#include "mesh/mesh.h"

enum { MAX_WORLD = 24 };

typedef struct {
    int world, tp, shard;
} layout;

/* Calls `check` for all meshes of up to MAX_WORLD ranks. */
static void for_all(void (*check)(layout given))
{
    for (int world = 1; world <= MAX_WORLD; world++)
        for (int tp = 1; tp <= world; tp++)
            for (int shard = 1; world % tp == 0 && shard <= world / tp; shard++)
                if (world / tp % shard == 0)
                    check((layout){ world, tp, shard });
}

static ce_mesh mesh_at(layout given, int rank)
{
    return ce_mesh_of(rank, given.world, given.tp, given.shard);
}

static void check_ranks(layout given)
{
    bool seen[MAX_WORLD] = { false };
    for (int rank = 0; rank < given.world; rank++) {
        ce_mesh mesh = mesh_at(given, rank);
        ck_assert_int_eq(mesh.size[CE_AXIS_TP], given.tp);
        ck_assert_int_eq(mesh.size[CE_AXIS_SHARD], given.shard);
        ck_assert_int_eq(mesh.size[CE_AXIS_REPLICATE] * given.shard * given.tp, given.world);
        for (int axis = 0; axis < CE_AXES; axis++) {
            ck_assert_int_ge(mesh.own[axis], 0);
            ck_assert_int_lt(mesh.own[axis], mesh.size[axis]);
        }
        int place =
            (mesh.own[CE_AXIS_REPLICATE] * given.shard + mesh.own[CE_AXIS_SHARD]) * given.tp + mesh.own[CE_AXIS_TP];
        ck_assert_int_eq(place, rank);
        ck_assert_int_eq(ce_mesh_rank(&mesh), rank);
        ck_assert(!seen[place]);
        seen[place] = true;
    }
}

START_TEST(each_rank_has_coordinates_of_its_own)
{
    for_all(check_ranks);
}
END_TEST

/* The group of a rank along an axis contains the rank at the place of its coordinate, and all ranks of the group find
 * the same group. */
static void check_groups(layout given)
{
    for (int axis = 0; axis < CE_AXES; axis++) {
        int members[MAX_WORLD] = { 0 };
        for (int rank = 0; rank < given.world; rank++) {
            ce_mesh mesh = mesh_at(given, rank);
            int first = ce_mesh_first(&mesh, (ce_axis)axis), stride = ce_mesh_stride(&mesh, (ce_axis)axis);
            ck_assert_int_eq(first + mesh.own[axis] * stride, rank);
            for (int i = 0; i < mesh.size[axis]; i++) {
                ce_mesh other = mesh_at(given, first + i * stride);
                ck_assert_int_eq(other.own[axis], i);
                ck_assert_int_eq(ce_mesh_first(&other, (ce_axis)axis), first);
                for (int along = 0; along < CE_AXES; along++)
                    ck_assert(along == axis || other.own[along] == mesh.own[along]);
            }
            members[first]++;
        }
        for (int rank = 0; rank < given.world; rank++)
            ck_assert(members[rank] == 0 || members[rank] == mesh_at(given, rank).size[axis]);
    }
}

START_TEST(groups_divide_the_world)
{
    for_all(check_groups);
}
END_TEST

/* A lane is a group of consecutive ranks, and its first rank leads it. */
static void check_lanes(layout given)
{
    int leaders = 0;
    for (int rank = 0; rank < given.world; rank++) {
        ce_mesh mesh = mesh_at(given, rank);
        ck_assert_int_eq(ce_mesh_lanes(&mesh), given.world / given.tp);
        ck_assert_int_eq(ce_mesh_lane(&mesh), rank / given.tp);
        ck_assert_int_eq(ce_mesh_leads(&mesh), rank % given.tp == 0);
        ck_assert_int_eq(ce_mesh_stride(&mesh, CE_AXIS_TP), 1);
        leaders += ce_mesh_leads(&mesh);
    }
    ck_assert_int_eq(leaders, given.world / given.tp);
}

START_TEST(consecutive_ranks_are_a_lane)
{
    for_all(check_lanes);
}
END_TEST

SUITE_MAIN("mesh_ranks", each_rank_has_coordinates_of_its_own, groups_divide_the_world, consecutive_ranks_are_a_lane)
