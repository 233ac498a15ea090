/* prompts.c - the file of --prompts: JSON lines {"prompt": ...}, or texts. */
#include "prompts.h"
#include "formats/plain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cs_status append(json_t *list, const char *line, size_t length, const char *path, int64_t number)
{
    const char *ending = strrchr(path, '.');
    bool json = *line == '{' || !ending || strcmp(ending, ".txt") != 0;
    length -= !json && line[length - 1] == '\n';
    json_t *object = json ? ce_json_strict(line, length) : json_pack("{s:s%}", "prompt", line, length);
    const char *why = !json ? "text that is not UTF-8" : object ? "{\"prompt\": \"...\"} is needed" : cs_error();
    if (json_is_string(json_object_get(object, "prompt")))
        return json_array_append_new(list, object) == 0 ? CS_OK
                                                        : ce_fail(CS_NO_MEMORY, "out of memory for the prompts");
    cs_status status = ce_fail(CS_BAD_FILE, "%s:%" PRId64 ": %s", path, number, why);
    json_decref(object);
    return status;
}

/* Opens the file. A compressed file or a table (Parquet, Arrow) is decoded into a temporary file first. */
static cs_status open_lines(FILE **file, const char *path)
{
    const char *folder = getenv("TMPDIR");
    ce_plain_how how = { .folder = folder ? folder : "/tmp" };
    *file = stdin;
    return strcmp(path, "-") == 0 ? CS_OK : ce_plain_open(file, path, &how);
}

static cs_status read_lines(json_t *list, FILE *file, const char *path)
{
    char *line = NULL;
    size_t capacity = 0;
    int64_t number = 0;
    cs_status status = CS_OK;
    for (ssize_t length; status == CS_OK && (length = getline(&line, &capacity, file)) > 0;) {
        number++;
        if ((size_t)length > strspn(line, " \t\r\n"))
            status = append(list, line, (size_t)length, path, number);
    }
    free(line);
    if (number == 0 && file == stdin)
        status = ce_fail(CS_BAD_FILE, "standard input is empty, as it is for ranks that cspeed starts: --prompts FILE");
    return status;
}

cs_status prompts_read(json_t **list, const char *path)
{
    FILE *file;
    CS_TRY(open_lines(&file, path));
    *list = json_array();
    cs_status status = read_lines(*list, file, path);
    if (file != stdin)
        fclose(file);
    if (status != CS_OK)
        json_decref(*list);
    return status;
}
