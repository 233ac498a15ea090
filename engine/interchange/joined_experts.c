/* joined_experts.c - writes the matrices of a layer's experts as one tensor. */
#include "interchange/joined_experts.h"
#include "base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tensor of the new source: `count` tensors of the inner one, which are adjacent in it. */
typedef struct {
    int64_t *members, count;
} group;

typedef struct {
    ce_source inner;
    group *groups;
    int64_t count;
} joined_source;

/* The parts of the name BLOCK.experts.E.WORD.weight; `block` is the length of BLOCK. */
typedef struct {
    int block;
    long long expert;
    char word[32];
} expert_name;

static bool parse(expert_name *parts, const char *name)
{
    const char *at = strstr(name, ".experts.");
    int used = 0;
    if (!at || sscanf(at, ".experts.%lld.%31[a-z_].weight%n", &parts->expert, parts->word, &used) != 2)
        return false;
    parts->block = (int)(at - name);
    return used && !at[used];
}

static int64_t find(const ce_source *source, const char *name, const expert_name *parts, long long expert,
                    const char *word)
{
    CE_FREED char *full = ce_must_print("%.*s.experts.%lld.%s.weight", parts->block, name, expert, word);
    return ce_source_find(source, full);
}

static cs_status read_range(ce_source *source, int64_t tensor, ce_range range, void *to, cs_dtype dtype)
{
    joined_source *joined = source->private_data;
    const group *g = &joined->groups[tensor];
    int64_t each = ce_source_elements(&joined->inner.tensors[g->members[0]]);
    for (int64_t at = range.from, next; at < range.to; at = next) {
        int64_t e = at / each;
        next = (e + 1) * each < range.to ? (e + 1) * each : range.to;
        char *goal = (char *)to + (size_t)(at - range.from) * cs_dtype_bytes(dtype);
        CE_TRY(joined->inner.read(&joined->inner, g->members[e], (ce_range){ at - e * each, next - e * each }, goal,
                                  dtype));
    }
    return CS_OK;
}

static void close_joined(ce_source *source)
{
    joined_source *joined = source->private_data;
    for (int64_t i = 0; i < joined->count; i++) {
        if (source->tensors[i].name != joined->inner.tensors[joined->groups[i].members[0]].name)
            free((char *)(uintptr_t)source->tensors[i].name);
        free(joined->groups[i].members);
    }
    free(joined->groups);
    ce_source_close(&joined->inner);
    free(joined);
}

/* Adds the tensor of all experts, of which `first` is that of expert 0. */
static void add_experts(ce_source *over, joined_source *joined, int64_t first, const expert_name *parts)
{
    const ce_source *inner = &joined->inner;
    const ce_source_tensor *one = &inner->tensors[first];
    group *g = &joined->groups[joined->count];
    for (int64_t at = first; at >= 0; at = find(inner, one->name, parts, g->count, parts->word)) {
        g->members = ce_must_resize(g->members, (size_t)(g->count + 1) * sizeof *g->members);
        g->members[g->count++] = at;
    }
    over->tensors[joined->count++] =
        (ce_source_tensor){ .name = ce_must_print("%.*s.experts.%s", parts->block, one->name, parts->word),
                            .dtype = one->dtype,
                            .dims = 3,
                            .shape = { g->count, one->shape[0], one->shape[1] } };
}

void ce_joined_experts(ce_source *source)
{
    expert_name parts;
    bool any = false;
    for (int64_t i = 0; i < source->count && !any; i++)
        any = parse(&parts, source->tensors[i].name) && strcmp(parts.word, "gate_up_proj") == 0;
    if (!any)
        return;
    joined_source *joined = ce_must_alloc(sizeof *joined);
    joined->inner = *source;
    joined->groups = ce_must_alloc((size_t)source->count * sizeof *joined->groups);
    *source = (ce_source){ .tensors = ce_must_alloc((size_t)joined->inner.count * sizeof *source->tensors),
                           .read = read_range,
                           .close = close_joined,
                           .private_data = joined };
    for (int64_t i = 0; i < joined->inner.count; i++) {
        const ce_source_tensor *from = &joined->inner.tensors[i];
        bool expert = parse(&parts, from->name) && find(&joined->inner, from->name, &parts, 0, "gate_up_proj") >= 0;
        if (expert && parts.expert == 0) {
            add_experts(source, joined, i, &parts);
        } else if (!expert) {
            group *g = &joined->groups[joined->count];
            *g = (group){ ce_must_alloc(sizeof *g->members), 1 };
            g->members[0] = i;
            source->tensors[joined->count++] = *from;
        }
    }
    source->count = joined->count;
}
