/* beside.c - reads the files of a tokenizer's folder, and its chat templates. */
#include "base/input.h"
#include "base/must.h"
#include "text/parts.h"
#include "text/tokenizer.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MAX_BYTES = 1 << 28 };

cs_status ce_beside_text(ce_text *content, const char *folder, const char *name)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", name) >= (int)sizeof path)
        return ce_fail(CS_BAD_CONFIG, "%.80s...: this name is too long", folder);
    FILE *file;
    CE_TRY(ce_input_stream(&file, path));
    if (!file)
        return errno == ENOENT || errno == ENOTDIR ? CS_NOT_FOUND
                                                   : ce_fail_errno(CS_IO_ERROR, errno, "%s: cannot open", path);
    content->bytes = ce_input_all(file, MAX_BYTES, &content->size);
    bool long_file = errno == EFBIG;
    fclose(file);
    if (content->bytes)
        return CS_OK;
    return long_file
               ? ce_fail(CS_BAD_FILE, "%s: larger than %d bytes, the limit for files of a tokenizer", path, MAX_BYTES)
               : ce_fail(CS_IO_ERROR, "%s: cannot be read; it may be a folder", path);
}

cs_status ce_beside_json(json_t **root, const char *folder, const char *name, ce_beside_parser *parse)
{
    CE_CLOSED(ce_unicode_free) ce_text content = { 0 };
    cs_status status = ce_beside_text(&content, folder, name);
    *root = NULL;
    if (status == CS_OK) {
        *root = parse(content.bytes, content.size);
        if (!*root)
            status = ce_fail(CS_BAD_FILE, "%s/%s: %s", folder, name, cs_error());
    }
    return status == CS_NOT_FOUND ? CS_OK : status;
}

/* ---- chat templates ---- */

/* Adds the chat templates of a value: the text of "default", or a list of {"name", "template"}, or an object. */
static void add_templates(json_t *templates, const json_t *value)
{
    const char *name;
    size_t index;
    json_t *member;
    if (json_is_string(value))
        json_object_set(templates, "default", (json_t *)(uintptr_t)value);
    json_object_foreach ((json_t *)(uintptr_t)value, name, member)
        json_object_set(templates, name, member);
    json_array_foreach (value, index, member) {
        name = json_string_value(json_object_get(member, "name"));
        if (name)
            json_object_set(templates, name, json_object_get(member, "template"));
    }
}

/* Adds the template `name` from a file, if there is such a file. */
static cs_status read_template(json_t *templates, const char *name, const char *folder, const char *file)
{
    CE_CLOSED(ce_unicode_free) ce_text content = { 0 };
    cs_status status = ce_beside_text(&content, folder, file);
    if (status == CS_OK && json_object_set_new(templates, name, json_stringn(content.bytes, content.size)) != 0)
        status = ce_fail(CS_BAD_FILE, "%s/%s: not UTF-8", folder, file);
    return status == CS_NOT_FOUND ? CS_OK : status;
}

/* Reads additional_chat_templates/NAME.jinja of the folder. */
static cs_status read_additional(json_t *templates, const char *folder)
{
    char path[4096], name[256];
    cs_status status = CS_OK;
    snprintf(path, sizeof path, "%s%sadditional_chat_templates", folder, *folder ? "/" : "");
    DIR *open = opendir(path);
    for (const struct dirent *entry; status == CS_OK && open && (entry = readdir(open));) {
        snprintf(name, sizeof name, "%s", entry->d_name);
        char *ending = strrchr(name, '.');
        if (!ending || strcmp(ending, ".jinja") != 0)
            continue;
        *ending = '\0';
        status = read_template(templates, name, path, entry->d_name);
    }
    if (open)
        closedir(open);
    return status;
}

cs_status ce_beside_templates(json_t **templates, const char *folder, const json_t *config)
{
    json_t *processor;
    *templates = json_object();
    CE_TRY(read_template(*templates, "default", folder, "chat_template.jinja"));
    CE_TRY(read_additional(*templates, folder));
    if (json_object_size(*templates) == 0)
        add_templates(*templates, json_object_get(config, "chat_template"));
    if (json_object_size(*templates) > 0)
        return CS_OK;
    CE_TRY(ce_beside_json(&processor, folder, "chat_template.json", ce_json_strict));
    add_templates(*templates, json_object_get(processor, "chat_template"));
    json_decref(processor);
    return CS_OK;
}

cs_status ce_tokenizer_template_of(char **text, const char *folder)
{
    json_auto_t *config = NULL, *templates = NULL;
    *text = NULL;
    CE_TRY(ce_beside_json(&config, folder, "tokenizer_config.json", ce_json_words));
    CE_TRY(ce_beside_templates(&templates, folder, config));
    const char *found = json_string_value(json_object_get(templates, "default"));
    *text = found ? ce_must_copy(found) : NULL;
    return CS_OK;
}
