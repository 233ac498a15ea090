/* scales.c - the scales of optimizer state in blocks (optim/optim.h) in a checkpoint. */
#include "saving/saving.h"

ce_piece ce_scales_piece(ce_piece codes, const char *name, float *scales)
{
    ce_piece made = codes;
    int last = codes.dims - 1;
    int64_t block = CE_OPTIM_BLOCK, columns = last > 0 ? codes.shape[1] : 1;
    made.name = name;
    made.dtype = CS_F32;
    made.data = scales;
    made.range = (ce_range){ codes.range.from / block, ce_divide_up(codes.range.to, block) };
    if (last > 0 && columns % block == 0) {
        made.shape[1] /= block;
        made.part.offset[1] /= block;
        made.part.size[1] /= block;
        made.pitch /= block;
        return made;
    }
    made.dims = made.part.dims = 1;
    made.shape[0] = ce_divide_up(codes.shape[0] * columns, block);
    made.part.offset[0] = codes.part.offset[0] * columns / block;
    made.part.size[0] = ce_divide_up(codes.part.size[0] * columns, block);
    return made;
}
