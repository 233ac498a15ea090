/* plan.c - prints the memory plan: the memory that each rank of a training would need. The training is not run. */
#include "base/must.h"
#include "train.h"
#include "base/plural.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name, *key; /* name: in the table; key: in the JSON output */
    size_t bytes;
} line;

enum { LINES = 16 };

static void list_lines(line lines[LINES], const cs_memory *m)
{
    size_t kept = m->values + m->gradients + m->masters + m->slots;
    size_t total = kept + m->value_rows + m->gradient_rows + m->activations + m->copy;
    /* memory that is not on the device; `pinned` is 0 unless the device is a GPU, where the copy is in host memory too
     * */
    size_t host = m->offloaded + (m->pinned ? m->copy : 0);
    const line all[] = {
        { "parameters", "parameters", m->values },
        { "gradients", "gradients", m->gradients },
        { "master parameters", "master_parameters", m->masters },
        { "optimizer states", "optimizer_states", m->slots },
        { "between steps", "between_steps", kept },
        { "offloaded to the host", "offloaded", m->offloaded },
        { "vocabulary padding in that", "vocabulary_padding", m->padding },
        { "gathered parameters", "gathered_parameters", m->value_rows },
        { "gradients not yet reduced", "unreduced_gradients", m->gradient_rows },
        { "activations", "activations", m->activations },
        { "async_save's copy", "async_save_copy", m->copy },
        { "in all", "in_all", total - host },
        { "pinned for checkpoints", "pinned", m->pinned },
        { "sent to ranks in a step", "sent", m->sent },
        { "other groups' part of that", "sent_to_groups", m->sent_by[CS_AXIS_REPLICATE].all },
        { "tp group's part of that", "sent_tp", m->sent_by[CS_AXIS_TP].all },
    };
    _Static_assert(sizeof all / sizeof *all == LINES, "each line is shown");
    for (int i = 0; i < LINES; i++)
        lines[i] = all[i];
}

static bool same_memory(const cs_memory *a, const cs_memory *b)
{
    line one[LINES], other[LINES];
    list_lines(one, a);
    list_lines(other, b);
    for (int i = 0; i < LINES; i++)
        if (one[i].bytes != other[i].bytes)
            return false;
    return true;
}

/* Prints "ranks 0, 2, 4 to 7, each:", the numbers of the ranks that need as much memory as rank `first`, which is the
 * first of them. */
static void print_numbers(const cs_memory *all, int64_t first, int64_t world_size)
{
    int64_t count = 0;
    for (int64_t i = first; i < world_size; i++)
        count += same_memory(&all[first], &all[i]);
    printf("rank%s ", ce_plural(count));
    for (int64_t from = first, to; from < world_size; from = to + 1) {
        for (to = from; to < world_size && same_memory(&all[first], &all[to]);)
            to++;
        if (to > from)
            printf("%s%" PRId64, from > first ? ", " : "", from);
        if (to - from > 1)
            printf(" to %" PRId64, to - 1);
    }
    puts(count > 1 ? ", each:" : ":");
}

/* Returns true if a rank before rank `index` needs as much memory. */
static bool is_shown(const cs_memory *all, int64_t index)
{
    for (int64_t i = 0; i < index; i++)
        if (same_memory(&all[i], &all[index]))
            return true;
    return false;
}

/* Prints the memory of rank `first` and of all ranks that need the same amounts. */
static void print_ranks(const cs_memory *all, int64_t first, int64_t world_size)
{
    line lines[LINES];
    const cs_memory *memory = &all[first];
    list_lines(lines, memory);
    print_numbers(all, first, world_size);
    for (int i = 0; i < LINES; i++)
        printf("  %-26s %16zu  %10.1f MB\n", lines[i].name, lines[i].bytes, 1e-6 * (double)lines[i].bytes);
    puts("  workspace of the kernels           settles in the first step");
    if (memory->rows_zero > 0)
        printf("  vocabulary padding: the %" PRId64 " tokens have %" PRId64 " rows on the GPU, a multiple of 128, so "
               "that matrix products are aligned;\n  the %" PRId64 " rows of padding are zero, and are neither "
               "updated nor saved\n",
               memory->rows_held - memory->rows_zero, memory->rows_held, memory->rows_zero);
}

static void print_ranks_json(int64_t from, int64_t to, const cs_memory *memory)
{
    line lines[LINES];
    list_lines(lines, memory);
    printf("%s      {\"first_rank\": %" PRId64 ", \"last_rank\": %" PRId64, from ? ",\n" : "", from, to - 1);
    for (int i = 0; i < LINES; i++)
        printf(", \"%s\": %zu", lines[i].key, lines[i].bytes);
    putchar('}');
}

/* The mesh of a plan: the number of ranks along each axis. */
typedef struct {
    int64_t replicas, shards, tp;
} mesh;

static mesh mesh_of(const cs_config *config)
{
    return (mesh){ cs_config_get_int(config, "cspeed.mesh.dp_replicate"),
                   cs_config_get_int(config, "cspeed.mesh.dp_shard"), cs_config_get_int(config, "cspeed.mesh.tp") };
}

/* ---- what all ranks send, by axis ---- */

static const struct {
    const char *name, *key;
} axis_names[CS_AXES] = {
    [CS_AXIS_ALL] = { "all ranks", "all" },
    [CS_AXIS_REPLICATE] = { "replicas", "dp_replicate" },
    [CS_AXIS_SHARD] = { "shards", "dp_shard" },
    [CS_AXIS_TP] = { "tp", "tp" },
};

/* Adds up what the ranks send along an axis. Of a short sum TCP may send more than `all`; then nothing is inside. */
static cs_sent add_up(const cs_memory *memory, int64_t world_size, int axis, size_t *inside)
{
    cs_sent sent = { 0 };
    for (int64_t i = 0; i < world_size; i++) {
        sent.all += memory[i].sent_by[axis].all;
        sent.between_hosts += memory[i].sent_by[axis].between_hosts;
    }
    *inside = sent.all > sent.between_hosts ? sent.all - sent.between_hosts : 0;
    return sent;
}

static void print_sent(const cs_memory *memory, int64_t world_size)
{
    size_t inside;
    say("all ranks send in a step          inside hosts    to other hosts");
    for (int axis = 0; axis < CS_AXES; axis++) {
        cs_sent sent = add_up(memory, world_size, axis, &inside);
        if (sent.all > 0)
            say("  over %-19s %19zu  %16zu", axis_names[axis].name, inside, sent.between_hosts);
    }
}

static void print_sent_json(const cs_memory *memory, int64_t world_size)
{
    size_t inside;
    printf("\"sent_by_all_ranks\": {");
    for (int axis = 0; axis < CS_AXES; axis++) {
        cs_sent sent = add_up(memory, world_size, axis, &inside);
        printf("%s\"%s\": {\"inside_hosts\": %zu, \"between_hosts\": %zu}", axis ? ", " : "", axis_names[axis].key,
               inside, sent.between_hosts);
    }
    printf("}, ");
}

static void show_text(const mesh *axes, const cs_memory *memory, int64_t world_size)
{
    if (axes->tp > 1 || (axes->replicas > 1 && axes->shards > 1))
        say("mesh: %" PRId64 " replica%s x %" PRId64 " shard%s x tp %" PRId64 " = %" PRId64 " ranks, %" PRId64
            " lane%s",
            axes->replicas, ce_plural(axes->replicas), axes->shards, ce_plural(axes->shards), axes->tp, world_size,
            world_size / axes->tp, ce_plural(world_size / axes->tp));
    for (int64_t i = 0; i < world_size && is_rank_zero(); i++)
        if (!is_shown(memory, i))
            print_ranks(memory, i, world_size);
    if (world_size > 1 && is_rank_zero())
        print_sent(memory, world_size);
}

static void show_json(const mesh *axes, const cs_memory *memory, int64_t world_size)
{
    say("\"mesh\": {\"dp_replicate\": %" PRId64 ", \"dp_shard\": %" PRId64 ", \"tp\": %" PRId64 "},", axes->replicas,
        axes->shards, axes->tp);
    if (is_rank_zero())
        print_sent_json(memory, world_size);
    say("\"ranks\": [");
    for (int64_t from = 0, to; from < world_size && is_rank_zero(); from = to) {
        for (to = from + 1; to < world_size && same_memory(&memory[from], &memory[to]);)
            to++;
        print_ranks_json(from, to, &memory[from]);
    }
    say("]}");
}

/* Ranks that need the same amounts of memory are shown together. */
void plan_show(cs_config *config, int64_t world_size, bool json)
{
    /* copies of the values, since cs_estimate below frees the configuration */
    CE_FREED char *precision = ce_must_copy(cs_config_get_string(config, "precision"));
    const mesh axes = mesh_of(config);
    int64_t stage = cs_config_get_int(config, "zero_optimization.stage");
    int64_t group = cs_config_get_int(config, "zero_optimization.mics_shard_size"); /* -1: all ranks */
    int64_t micro = cs_config_get_int(config, "train_micro_batch_size_per_gpu"), parameters;
    CE_FREED char *groups = group > 0 ? ce_must_print(" in groups of %" PRId64, group) : ce_must_copy("");
    CE_FREED cs_memory *memory = ce_must_alloc((size_t)world_size * sizeof *memory);
    CS_MUST(cs_estimate(config, memory, &parameters));
    if (json)
        say("{\"parameter_count\": %" PRId64 ", \"precision\": \"%s\", \"zero_stage\": %" PRId64
            ", \"micro_batch\": %" PRId64 ", \"shard_group\": %" PRId64 ",",
            parameters, precision, stage, micro, group > 0 ? group : world_size / axes.tp);
    else
        say("memory of a rank: %" PRId64 " parameters, %s, ZeRO-%" PRId64 ", micro-batch %" PRId64
            ", world size %" PRId64 "%s",
            parameters, precision, stage, micro, world_size, groups);
    (json ? show_json : show_text)(&axes, memory, world_size);
}

void plan_show_units(cs_config *config)
{
    cs_unit_size *units;
    int64_t count;
    int width = 4;
    CS_MUST(cs_estimate_units(config, &units, &count));
    for (int64_t i = 0; i < count; i++)
        width = (int)strlen(units[i].name) > width ? (int)strlen(units[i].name) : width;
    say("%-*s  %14s  %16s  %16s", width, "unit", "elements", "bytes", "bytes of a rank");
    for (int64_t i = 0; i < count; i++)
        say("%-*s  %14" PRId64 "  %16zu  %16zu", width, units[i].name, units[i].elements, units[i].values,
            units[i].part);
    free(units);
}
