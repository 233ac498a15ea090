/* make_reference.c - prints configs/reference.json from the key tables; test_config checks that this file has all keys
 * and their defaults.
 *
 *     build: cc -std=gnu17 -D_GNU_SOURCE -Iengine tests/golden/make_reference.c build/libcspeed.a -ljansson -ldnnl
 *            -lcrypto -lutf8proc -lpcre2-8 -lz -lzstd -lm -lpthread -o /tmp/make_reference && /tmp/make_reference > configs/reference.json */
#include "config/config.h"
#include "config/sections.h"

#include <stdio.h>
#include <string.h>

static void indent(int depth)
{
    printf("%*s", 4 * depth, "");
}

static const char *effect(const ce_key *key)
{
    return key->type == CE_KEY_INERT ? "no effect: " : key->type == CE_KEY_REFUSED ? "no other value: " : "";
}

static void print_table(const char *path, const ce_key *keys, int count, int depth);

static void print_section(const char *path, const ce_key *key, int depth)
{
    char full[320];
    int count;
    snprintf(full, sizeof full, "%s%s%s", path, *path ? "." : "", key->name);
    const ce_section *section = ce_sections_find(full, strlen(full));
    if (strcmp(full, "optimizer") == 0) {
        const ce_key *keys = ce_optim_keys(&(ce_optim_settings){ 0 }, &count);
        printf("{\n");
        indent(depth + 1);
        printf("\"type\": \"AdamW\",\n");
        indent(depth + 1);
        printf("\"params\": {\n");
        print_table("optimizer.params", keys, count, depth + 2);
        indent(depth + 1);
        printf("},\n");
        indent(depth + 1);
        printf("\"legacy_fusion\": false\n");
    } else if (section) {
        printf("{\n");
        print_table(full, section->keys, section->count, depth + 1);
    } else {
        printf("null");
        return;
    }
    indent(depth);
    printf("}");
}

static void print_row(const char *path, const ce_key *key, bool last, int depth)
{
    bool quote = key->type == CE_KEY_STRING && strcmp(key->fallback, "null") != 0;
    if (key->type == CE_KEY_SECTION) {
        indent(depth);
        printf("// %s\n", key->sentence);
    }
    indent(depth);
    printf("\"%s\": ", key->name);
    if (key->type == CE_KEY_SECTION) {
        print_section(path, key, depth);
        printf("%s\n", last ? "" : ",");
        return;
    }
    printf(quote ? "\"%s\"%s" : "%s%s", key->fallback, last ? "" : ",");
    printf("  // %s%s\n", effect(key), key->sentence);
}

static void print_table(const char *path, const ce_key *keys, int count, int depth)
{
    for (int i = 0; i < count; i++)
        print_row(path, &keys[i], i == count - 1, depth);
}

int main(void)
{
    const ce_section *top = ce_sections_find("", 0);
    printf(
        "// Every key at its default. A file needs only those that differ.\n//\n"
        "// \"no effect\": DeepSpeed's key is accepted, and the sentence says why it changes nothing here. \"no other "
        "value\": another value is\n"
        "// refused, and the sentence says why. test_config compares this file with the tables of engine/config/.\n"
        "{\n");
    print_table("", top->keys, top->count, 1);
    printf("}\n");
    return 0;
}
