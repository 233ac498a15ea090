/* driver.c - runs a fuzz target without clang's libFuzzer: TARGET SECONDS [FOLDER].
 *
 * It mutates the files of the folder for SECONDS, or N times if the argument is Nx (1000000x). Without a folder it
 * starts from an empty input. When the driver starts, it prints the name of a file that always holds the current input.
 * A crash or a report of a sanitizer ends the process, and the file keeps the input that caused the crash. */
#include "base/clock.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_FILES = 1024, MAX_BYTES = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct {
    uint8_t *bytes;
    size_t size;
} sample;

static sample samples[MAX_FILES];
static int sample_count;
static uint64_t state = 0x9e3779b97f4a7c15u;

static uint64_t draw(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static void add_file(const char *folder, const char *name)
{
    char path[4096];
    FILE *file;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (name[0] == '.' || sample_count == MAX_FILES || !(file = fopen(path, "rb")))
        return;
    sample *added = &samples[sample_count];
    added->bytes = malloc(MAX_BYTES);
    added->size = added->bytes ? fread(added->bytes, 1, MAX_BYTES, file) : 0;
    fclose(file);
    sample_count++;
}

static void read_folder(const char *folder)
{
    DIR *open = opendir(folder);
    for (struct dirent *entry; open && (entry = readdir(open));)
        add_file(folder, entry->d_name);
    if (open)
        closedir(open);
    if (sample_count == 0)
        samples[sample_count++] = (sample){ calloc(1, MAX_BYTES), 1 };
}

/* Makes one change: flips a bit, replaces a byte, removes bytes, inserts bytes of another sample, or inserts a keyword
 * of one of the formats. */
static size_t mutate(uint8_t *bytes, size_t size)
{
    static const char *const words[] = { "null", "\"auto\"", "{}",      "[]",  "1e999", "-1", "18446744073709551616",
                                         "//",   "/*",       "\"",      ",",   ":",     "{",  "}",
                                         "[",    "]",        "\\u0000", "0.5", "true" };
    size_t at = size ? draw(size) : 0;
    switch (draw(5)) {
    case 0:
        if (size)
            bytes[at] ^= (uint8_t)(1u << draw(8));
        return size;
    case 1:
        if (size)
            bytes[at] = (uint8_t)draw(256);
        return size;
    case 2: {
        size_t run = size ? 1 + draw(size - at < 64 ? size - at : 64) : 0;
        memmove(bytes + at, bytes + at + run, size - at - run);
        return size - run;
    }
    case 3: {
        const sample *other = &samples[draw((uint64_t)sample_count)];
        size_t from = other->size ? draw(other->size) : 0;
        size_t run = other->size ? draw(other->size - from < 128 ? other->size - from : 128) : 0;
        if (size + run > MAX_BYTES)
            return size;
        memmove(bytes + at + run, bytes + at, size - at);
        memcpy(bytes + at, other->bytes + from, run);
        return size + run;
    }
    default: {
        const char *word = words[draw(sizeof words / sizeof *words)];
        size_t run = strlen(word);
        if (size + run > MAX_BYTES)
            return size;
        memmove(bytes + at + run, bytes + at, size - at);
        memcpy(bytes + at, word, run);
        return size + run;
    }
    }
}

/* The current input is in a mapped file, which remains after a crash. */
static uint8_t *map_input(char *path, size_t capacity)
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, capacity, "%s/fuzz-input.XXXXXX", folder ? folder : "/tmp");
    int file = mkstemp(path);
    if (file < 0 || ftruncate(file, MAX_BYTES) != 0)
        return NULL;
    void *bytes = mmap(NULL, MAX_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return bytes == MAP_FAILED ? NULL : bytes;
}

int main(int count, char **argument)
{
    char path[4096];
    if (count != 2 && count != 3) {
        fprintf(stderr, "usage: %s SECONDS|COUNTx [FOLDER]\n", argument[0]);
        return 64;
    }
    bool counts = strchr(argument[1], 'x') != NULL;
    double end = ce_clock_seconds() + atof(argument[1]), max = counts ? atof(argument[1]) : 0;
    uint8_t *input = map_input(path, sizeof path);
    if (!input) {
        fprintf(stderr, "%s: no file for the input under test can be made\n", argument[0]);
        return 1;
    }
    if (count == 3)
        read_folder(argument[2]);
    if (sample_count == 0)
        samples[sample_count++] = (sample){ calloc(1, MAX_BYTES), 0 };
    printf("%s: %d samples; the input under test is in %s (behind its last byte are zeros)\n", argument[0],
           sample_count, path);
    fflush(stdout);
    long runs = 0;
    for (int i = 0; counts ? (double)runs < max : ce_clock_seconds() < end; i = (i + 1) % sample_count, runs++) {
        size_t size = samples[i].size;
        memset(input, 0, MAX_BYTES);
        memcpy(input, samples[i].bytes, size);
        for (uint64_t changes = runs < sample_count ? 0 : 1 + draw(8); changes > 0; changes--)
            size = mutate(input, size);
        /* A block of the exact size, so that a sanitizer detects a read past the end. */
        uint8_t *exact = malloc(size ? size : 1);
        memcpy(exact, input, size);
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
    }
    unlink(path);
    for (int i = 0; i < sample_count; i++)
        free(samples[i].bytes);
    printf("%s: %ld runs, no fault\n", argument[0], runs);
    return 0;
}
