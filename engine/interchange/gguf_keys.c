/* gguf_keys.c - the keys of a GGUF file: a name, the number of a type, and a value, all little-endian. */
#include "interchange/gguf_parts.h"

#include <string.h>

enum { UINT32 = 4, BOOL = 7, ARRAY = 9 }; /* numbers of types, beside those of ce_gguf_element */

void ce_gguf_number(FILE *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        putc((int)(value >> (8 * i) & 255), out);
}

void ce_gguf_text(FILE *out, const char *text, size_t length)
{
    ce_gguf_number(out, length, 8);
    fwrite(text, 1, length, out);
}

static void begin(ce_gguf_keys *keys, const char *name, int type)
{
    char whole[128];
    snprintf(whole, sizeof whole, "%s%s", *name == '.' ? keys->arch : "", name);
    ce_gguf_text(keys->out, whole, strlen(whole));
    ce_gguf_number(keys->out, (uint64_t)type, 4);
    keys->count++;
}

void ce_gguf_key_count(ce_gguf_keys *keys, const char *name, int64_t value)
{
    begin(keys, name, UINT32);
    ce_gguf_number(keys->out, (uint64_t)value, 4);
}

void ce_gguf_key_real(ce_gguf_keys *keys, const char *name, double value)
{
    float rounded = (float)value;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    begin(keys, name, CE_GGUF_FLOAT32);
    ce_gguf_number(keys->out, bits, 4);
}

void ce_gguf_key_truth(ce_gguf_keys *keys, const char *name, bool value)
{
    begin(keys, name, BOOL);
    ce_gguf_number(keys->out, value, 1);
}

void ce_gguf_key_text(ce_gguf_keys *keys, const char *name, const char *value)
{
    begin(keys, name, CE_GGUF_STRING);
    ce_gguf_text(keys->out, value, strlen(value));
}

void ce_gguf_key_array(ce_gguf_keys *keys, const char *name, ce_gguf_element type, int64_t count)
{
    begin(keys, name, ARRAY);
    ce_gguf_number(keys->out, type, 4);
    ce_gguf_number(keys->out, (uint64_t)count, 8);
}
