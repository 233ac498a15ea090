/* training_state.c - reads the state of a training that began in another program. */
#include "interchange/training_state.h"
#include "base/must.h"
#include "base/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { STATE_LIMIT = 1 << 28, VERSION = 1 };

/* ---- state.json ---- */

static cs_status read_slots(ce_training_state *state, const json_t *names, const char *path)
{
    size_t i;
    const json_t *name;
    json_array_foreach (names, i, name) {
        const char *slot = json_string_value(name);
        if (i >= CE_TRAINING_STATE_SLOTS || !slot || !*slot || strchr(slot, '/') || *slot == '.')
            return ce_fail(CS_BAD_FILE, "%s: \"slots\" is a list of at most %d names of folders", path,
                           CE_TRAINING_STATE_SLOTS);
        state->slots[state->slot_count++] = slot;
    }
    return CS_OK;
}

static cs_status check_numbers(const ce_training_state *state, int version, const char *path)
{
    if (version != VERSION)
        return ce_fail(CS_UNSUPPORTED, "not supported: %s has format version %d, and this cspeed reads version %d",
                       path, version, VERSION);
    if (state->world_size < 1 || state->tp < 1 || state->world_size % state->tp != 0 || state->stage < 0 ||
        state->stage > 3 || state->step < 0 || state->samples < 0 || state->skipped < 0 || state->updates < 0 ||
        state->scheduled < 0)
        return ce_fail(CS_BAD_FILE, "%s: a count is negative, or the world size or the stage is impossible", path);
    return CS_OK;
}

static cs_status read_numbers(ce_training_state *state, const char *path)
{
    json_error_t why;
    json_int_t step, samples, skipped, updates, scheduled;
    json_t *slots, *loss_scale, *optimizer, *groups, *client = NULL;
    const char *format, *kind;
    double scale;
    int version;
    if (json_unpack_ex(state->root, &why, JSON_STRICT,
                       "{s:s, s:i, s:s, s:i, s?i, s:i, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s?o}", "format",
                       &format, "version", &version, "origin", &state->origin, "world_size", &state->world_size,
                       "tensor_parallel", &state->tp, "zero_stage", &state->stage, "global_step", &step, "samples",
                       &samples, "skipped_steps", &skipped, "optimizer_step", &updates, "schedule_step", &scheduled,
                       "loss_scale", &loss_scale, "optimizer", &optimizer, "slots", &slots, "groups", &groups,
                       "client_state", &client) != 0 ||
        json_unpack_ex(loss_scale, &why, 0, "{s:s, s:F}", "kind", &kind, "scale", &scale) != 0)
        return ce_fail(CS_BAD_FILE, "%s: %s", path, why.text);
    state->step = step;
    state->samples = samples;
    state->skipped = skipped;
    state->updates = updates;
    state->scheduled = scheduled;
    state->loss_scale = loss_scale;
    state->optimizer = json_string_value(optimizer);
    state->groups = groups;
    state->client_state = client;
    CE_TRY(check_numbers(state, version, path));
    return read_slots(state, slots, path);
}

static cs_status read_state(ce_training_state *state)
{
    char *path = ce_files_join(state->folder, CE_TRAINING_STATE_FILE), *text = NULL;
    size_t length;
    cs_status status = ce_files_read(&text, &length, path, STATE_LIMIT);
    if (status == CS_OK) {
        state->root = ce_json_strict(text, length);
        status = state->root ? read_numbers(state, path) : ce_fail(CS_BAD_FILE, "%s: %s", path, cs_error());
    }
    free(text);
    free(path);
    return status;
}

/* ---- the tensors ---- */

static char *folder_of(const ce_training_state *state, int source)
{
    return ce_files_join(state->folder, source == 0 ? "weights" : state->slots[source - 1]);
}

cs_status ce_training_state_open(ce_training_state *state, const char *folder)
{
    *state = (ce_training_state){ .folder = folder, .tp = 1 };
    CE_TRY(read_state(state));
    for (int i = 0; i <= state->slot_count; i++) {
        char *path = folder_of(state, i);
        cs_status status = ce_huggingface_open(&state->sources[i], path);
        free(path);
        CE_TRY(status);
    }
    return CS_OK;
}

static char *piece_name(const ce_training_state *state, int source, const char *tensor)
{
    char *name;
    int length =
        source == 0 ? asprintf(&name, "%s", tensor) : asprintf(&name, "state.%s.%s", tensor, state->slots[source - 1]);
    if (length < 0)
        ce_fatal(CS_NO_MEMORY, "out of memory for a tensor's name");
    return name;
}

/* Lists the tensors as pieces of a checkpoint. Every source has the same tensors, so piece i is tensor i % count of
 * source i / count. */
static void list_pieces(ce_training_state *state)
{
    state->pieces = calloc((size_t)(state->sources[0].count * (1 + state->slot_count)) + 1, sizeof *state->pieces);
    if (!state->pieces)
        ce_fatal(CS_NO_MEMORY, "out of memory for a checkpoint's list of tensors");
    for (int source = 0; source <= state->slot_count; source++)
        for (int64_t i = 0; i < state->sources[source].count; i++) {
            const ce_source_tensor *tensor = &state->sources[source].tensors[i];
            ce_piece *piece = &state->pieces[state->piece_count++];
            *piece = (ce_piece){ .name = piece_name(state, source, tensor->name),
                                 .folder = source == 0 ? "weights" : "optim",
                                 .dtype = CS_F32,
                                 .dims = tensor->dims,
                                 .range = { 0, 1 } };
            for (int d = 0; d < tensor->dims; d++) {
                piece->shape[d] = tensor->shape[d];
                piece->range.to *= tensor->shape[d];
            }
            state->address_bytes += ce_piece_bytes(piece);
        }
}

/* Reserves a range of addresses with one address for each byte of the pieces. */
static cs_status place_pieces(ce_training_state *state)
{
    char *next = mmap(NULL, state->address_bytes + 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (next == MAP_FAILED)
        return ce_fail(CS_NO_MEMORY, "out of addresses for %zu bytes of tensors", state->address_bytes);
    state->addresses = next;
    for (int64_t i = 0; i < state->piece_count; i++) {
        state->pieces[i].data = next;
        next += ce_piece_bytes(&state->pieces[i]);
    }
    return CS_OK;
}

/* Returns the index of the piece that has this address. */
static int64_t piece_at(const ce_training_state *state, const char *address)
{
    int64_t low = 0, high = state->piece_count;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        *((const char *)state->pieces[middle].data <= address ? &low : &high) = middle;
    }
    return low;
}

/* Reads a part of one piece. The files were complete when they were opened, so a read that fails now is a failure of
 * the machine and ends the program. */
static void fetch(void *argument, void *to, const void *from, size_t bytes)
{
    ce_training_state *state = argument;
    int64_t index = piece_at(state, from), count = state->sources[0].count;
    int64_t first = ((const char *)from - (const char *)state->pieces[index].data) / (int64_t)sizeof(float);
    ce_source *source = &state->sources[index / count];
    ce_range range = { first, first + (int64_t)(bytes / sizeof(float)) };
    cs_status status = source->read(source, index % count, range, to, CS_F32);
    if (status != CS_OK)
        ce_fatal(status, "%s", cs_error());
}

cs_status ce_training_state_match(ce_training_state *state, const cs_model *model, const ce_model_facts *facts)
{
    for (int i = 0; i <= state->slot_count; i++) {
        char *path = folder_of(state, i);
        cs_status status = ce_huggingface_check(&state->sources[i], model, facts, path);
        free(path);
        CE_TRY(status);
    }
    state->reader = (ce_checkpoint_device_copy){ .fetch = fetch, .argument = state };
    list_pieces(state);
    return place_pieces(state);
}

void ce_training_state_close(ce_training_state *state)
{
    for (int64_t i = 0; i < state->piece_count; i++)
        free((void *)(uintptr_t)state->pieces[i].name);
    free(state->pieces);
    if (state->addresses)
        munmap(state->addresses, state->address_bytes + 1);
    for (int i = 0; i <= CE_TRAINING_STATE_SLOTS; i++)
        ce_source_close(&state->sources[i]);
    json_decref(state->root);
}
