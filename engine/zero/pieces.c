/* pieces.c - which boxes of the whole parameters a rank's elements are. Tensor parallelism cuts a parameter by rows or
 * columns into parts (unit/cut.h), and the local parameter has the parts one after another; ZeRO divides the row of local
 * parameters into ranges. */
#include "zero/part.h"

/* Copies the parts of a cut to `parts`, without empty parts. Parts that are adjacent in the whole parameter and held by the
 * same ranks become one part. Returns their number. */
static int list_parts(ce_cut_part *parts, const ce_cut *cut)
{
    int count = 0;
    for (int i = 0; i < cut->count; i++) {
        const ce_cut_part *next = &cut->part[i];
        ce_cut_part *last = &parts[count - (count > 0)];
        if (next->count == 0)
            continue;
        if (count > 0 && last->from + last->count == next->from && last->copies == next->copies &&
            last->copy == next->copy)
            last->count += next->count;
        else
            parts[count++] = *next;
    }
    return count;
}

/* Divides a range of a parameter that is cut by rows: each part is a range of the local parameter. */
static int divide_rows(ce_shard_piece *pieces, const ce_unit_entry *entry, const ce_cut_part *parts, int count,
                       ce_range local)
{
    int64_t columns = entry->cut.whole[1], begin = 0;
    int used = 0;
    for (int i = 0; i < count; i++) {
        ce_range all = { begin, begin + parts[i].count * columns }, common = ce_range_overlap(local, all);
        begin = all.to;
        if (ce_range_length(common) > 0)
            pieces[used++] = (ce_shard_piece){
                .part = { entry->param.value.dims, { parts[i].from, 0 }, { parts[i].count, columns } },
                .range = { common.from - all.from, common.to - all.from },
                .place = common.from,
                .copy = parts[i].copy > 0,
            };
    }
    return used;
}

/* Divides a box of a local matrix whose columns are those of several parts. */
static int divide_box(ce_shard_piece *pieces, const ce_cut_part *parts, int count, const ce_box *box, int64_t width)
{
    int64_t begin = 0;
    int used = 0;
    for (int i = 0; i < count; i++) {
        ce_box columns = { 2, { box->offset[0], begin }, { box->size[0], parts[i].count } }, both;
        if (ce_boxes_meet(&both, box, &columns)) {
            ce_shard_piece piece = { .part = both,
                                     .range = { 0, ce_boxes_volume(&both) },
                                     .pitch = both.size[0] > 1 ? width : 0,
                                     .place = both.offset[0] * width + both.offset[1],
                                     .copy = parts[i].copy > 0 };
            piece.part.offset[1] += parts[i].from - begin;
            pieces[used++] = piece;
        }
        begin += parts[i].count;
    }
    return used;
}

/* Divides a range of a matrix that is cut by columns. */
static int divide_columns(ce_shard_piece *pieces, const ce_unit_entry *entry, const ce_cut_part *parts, int count,
                          ce_range local)
{
    const int64_t *shape = entry->param.value.shape;
    ce_box boxes[CE_MAX_BOXES];
    int used = 0;
    if (count == 1 && ce_range_length(local) > 0) {
        *pieces = (ce_shard_piece){ .part = { 2, { 0, parts->from }, { shape[0], parts->count } },
                                    .range = local,
                                    .place = local.from,
                                    .copy = parts->copy > 0 };
        return 1;
    }
    int box_count = ce_boxes_split(boxes, shape, 2, local);
    for (int i = 0; i < box_count; i++)
        used += divide_box(pieces + used, parts, count, &boxes[i], shape[1]);
    return used;
}

int ce_shard_divide(ce_shard_piece *pieces, ce_unit_entry *entry, ce_range local)
{
    ce_cut_part parts[CE_CUT_PARTS];
    int count = list_parts(parts, &entry->cut);
    int used = entry->cut.dim == 0 ? divide_rows(pieces, entry, parts, count, local)
                                   : divide_columns(pieces, entry, parts, count, local);
    for (int i = 0; i < used; i++)
        pieces[i].entry = entry;
    return used;
}

int64_t ce_shard_span(const ce_shard_piece *piece)
{
    return piece->pitch ? (piece->part.size[0] - 1) * piece->pitch + piece->part.size[1]
                        : ce_range_length(piece->range);
}

static void set_addresses(ce_shard *shard, ce_shard_piece *piece)
{
    const ce_unit_entry *entry = piece->entry;
    int64_t element = entry->offset + piece->place;
    piece->dtype = ce_part_masters(shard);
    piece->master = ce_part_master(shard, element);
    if (shard->unit->frozen)
        return;
    piece->gradient = ce_part_sum(shard, element);
    piece->slot_dtype = ce_slots_type(shard->zero, entry);
    for (int slot = 0; slot < shard->zero->groups->group[entry->group].optimizer.slots; slot++) {
        piece->slots[slot] = ce_part_slot(shard, slot, element);
        piece->scales[slot] = piece->slot_dtype == CS_U8 ? ce_part_scale(shard, slot, element) : NULL;
    }
}

static int list_pieces(ce_shard *shard, ce_shard_piece *pieces, bool copies)
{
    int count = 0;
    for (int i = 0; i < shard->unit->entry_count; i++) {
        ce_unit_entry *entry = shard->unit->entries[i];
        ce_range local = { shard->own.from - entry->offset, shard->own.to - entry->offset };
        ce_shard_piece own[CE_PIECES_EACH];
        int divided = ce_shard_divide(own, entry, ce_range_overlap(local, (ce_range){ 0, entry->count }));
        for (int at = 0; at < divided; at++) {
            if (own[at].copy && !copies)
                continue;
            set_addresses(shard, &own[at]);
            pieces[count++] = own[at];
        }
    }
    return count;
}

int ce_shard_pieces(ce_shard *shard, ce_shard_piece *pieces)
{
    return list_pieces(shard, pieces, false);
}

int ce_shard_held_pieces(ce_shard *shard, ce_shard_piece *pieces)
{
    return list_pieces(shard, pieces, true);
}

size_t ce_shard_pieces_room(const ce_shard *shard)
{
    return (size_t)shard->unit->entry_count * CE_PIECES_EACH * sizeof(ce_shard_piece) + 1;
}
