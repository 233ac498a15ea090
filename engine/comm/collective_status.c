/* collective_status.c - collective status: all ranks succeed or fail together; also gathers and broadcasts small texts.
 */
#include "comm/collective_status.h"

#include "base/must.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

cs_status ce_collective_status(cs_comm *comm, cs_status status)
{
    int size = cs_comm_size(comm), failed = 0;
    int32_t mine = (int32_t)status;
    int32_t *all = ce_must_alloc((size_t)size * sizeof *all);
    cs_comm_all_gather(comm, all, &mine, 1, CS_I32);
    while (failed < size && all[failed] == CS_OK)
        failed++;
    cs_status result = failed < size ? (cs_status)all[failed] : CS_OK;
    free(all);
    if (result == CS_OK)
        return CS_OK;
    char *sentence = (char *)(uintptr_t)cs_error();
    size_t length = strlen(sentence);
    ce_collective_text(comm, &sentence, &length, failed);
    if (failed == cs_comm_rank(comm))
        return result;
    ce_fail(result, "%s", sentence);
    free(sentence);
    return result;
}

void ce_collective_text(cs_comm *comm, char **text, size_t *length, int root)
{
    int64_t count = (int64_t)*length;
    cs_comm_broadcast(comm, &count, 1, CS_I64, root);
    *length = (size_t)count;
    if (cs_comm_rank(comm) != root)
        *text = ce_must_alloc(*length + 1);
    if (count > 0)
        cs_comm_broadcast(comm, *text, count, CS_U8, root);
}

char *ce_collective_gather(cs_comm *comm, int64_t *sizes, const void *bytes, size_t count)
{
    int rank = cs_comm_rank(comm), size = cs_comm_size(comm);
    int64_t mine = (int64_t)count, total = 0;
    cs_comm_all_gather(comm, sizes, &mine, 1, CS_I64);
    if (rank != 0) {
        if (count > 0)
            cs_comm_send(comm, bytes, count, 0);
        return NULL;
    }
    for (int i = 0; i < size; i++)
        total += sizes[i];
    char *all = ce_must_alloc((size_t)total + 1), *end = all + count;
    if (count > 0)
        memcpy(all, bytes, count);
    for (int i = 1; i < size; end += sizes[i++])
        if (sizes[i] > 0)
            cs_comm_receive(comm, end, (size_t)sizes[i], i);
    return all;
}
