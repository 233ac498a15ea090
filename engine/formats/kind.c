/* kind.c - tells from the bytes of a file what the file is, so that only text is read as text. */
#include "formats/kind.h"

#include <string.h>
#include <unistd.h>

enum { HEAD = 1 << 16 };

#define ARCHIVE "unpack it and name the text files in it: "

/* Files that are no text, by the bytes at an offset. `how` is the advice, and `command` the command that follows it, to
 * which the file's name is appended; the name is followed by `rest`. */
static const struct {
    size_t at, size;
    const char *bytes, *what, *how, *command, *rest;
} known[] = {
    { 0, 3, "BZh", "a file of bzip2", "decompress it: ", "bunzip2 -k", "" },
    { 0, 5, "\3757zXZ", "a file of xz", "decompress it: ", "xz -dk", "" },
    { 0, 4, "\x04\x22\x4d\x18", "a file of lz4", "decompress it: ", "lz4 -dk", "" },
    { 257, 5, "ustar", "an archive of tar", ARCHIVE, "tar -xf", "" },
    { 0, 4, "PK\3\4", "an archive of zip, or a document of an office program", ARCHIVE, "unzip", "" },
    { 0, 4, "PK\5\6", "an empty archive of zip", "", "", "" },
    { 0, 6, "7z\xbc\xaf\x27\x1c", "an archive of 7-Zip", ARCHIVE, "7z x", "" },
    { 0, 4, "Rar!", "an archive of RAR", ARCHIVE, "unrar x", "" },
    { 0, 5, "%PDF-", "a PDF document", "take its text out: ", "pdftotext", "" },
    { 0, 8, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a document of an office program",
      "take its text out: ", "libreoffice --convert-to txt:Text", "" },
    { 0, 5, "{\\rtf", "a document in RTF", "take its text out: ", "libreoffice --convert-to txt:Text", "" },
    { 0, 15, "SQLite format 3", "a data base of SQLite", "write its rows as lines of JSON: ", "sqlite3 -json",
      " 'SELECT …'" },
    { 0, 8, "\x89PNG\r\n\x1a\n", "an image", "", "", "" },
    { 0, 3, "\xff\xd8\xff", "an image", "", "", "" },
    { 0, 4, "\xff\xfe\0\0", "text in UTF-32", "convert it: ", "iconv -f UTF-32 -t UTF-8", " > text.txt" },
    { 0, 2, "\xff\xfe", "text in UTF-16", "convert it: ", "iconv -f UTF-16 -t UTF-8", " > text.txt" },
    { 0, 2, "\xfe\xff", "text in UTF-16", "convert it: ", "iconv -f UTF-16 -t UTF-8", " > text.txt" },
};

static size_t read_head(FILE *file, char *head)
{
    ssize_t got = pread(fileno(file), head, HEAD, 0);
    return got > 0 ? (size_t)got : 0;
}

static bool begins(const char *head, size_t size, const char *bytes, size_t count)
{
    return size >= count && memcmp(head, bytes, count) == 0;
}

ce_kind ce_kind_of(FILE *file)
{
    char head[HEAD];
    size_t size = read_head(file, head);
    if (begins(head, size, "\x1f\x8b", 2))
        return CE_KIND_GZIP;
    if (begins(head, size, "\x28\xb5\x2f\xfd", 4))
        return CE_KIND_ZSTD;
    return begins(head, size, "PAR1", 4) || begins(head, size, "ARROW1", 6) ? CE_KIND_TABLE : CE_KIND_OTHER;
}

/* Counts the bytes that are no part of a character in UTF-8, by their leading bits. A character that the end of the head
 * cuts off is not counted. */
static size_t count_wrong(const unsigned char *head, size_t size)
{
    size_t wrong = 0;
    for (size_t at = 0, width; at < size; at += width) {
        unsigned char c = head[at];
        size_t wanted = c < 0x80                ? 1
                        : c >= 0xc2 && c < 0xe0 ? 2
                        : c >= 0xe0 && c < 0xf0 ? 3
                        : c >= 0xf0 && c < 0xf5 ? 4
                                                : 0;
        for (width = 1; width < wanted && at + width < size && (head[at + width] & 0xc0) == 0x80;)
            width++;
        if (width < wanted && at + width < size)
            wanted = 0;
        wrong += wanted == 0 ? width : 0;
    }
    return wrong;
}

cs_status ce_kind_check(FILE *file, const char *path)
{
    char head[HEAD];
    size_t size = read_head(file, head);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (size > known[i].at && begins(head + known[i].at, size - known[i].at, known[i].bytes, known[i].size))
            return *known[i].command ? ce_fail(CS_BAD_FILE, "%s: %s, which is not text; %s%s '%s'%s", path,
                                               known[i].what, known[i].how, known[i].command, path, known[i].rest)
                                     : ce_fail(CS_BAD_FILE, "%s: %s, which is not text", path, known[i].what);
    size_t wrong = count_wrong((const unsigned char *)head, size);
    if (wrong > size / 10)
        return ce_fail(
            CS_BAD_FILE,
            "%s: not text in UTF-8: %zu of its first %zu bytes do not belong to a character; if it is text, convert "
            "it from its encoding (`file '%s'` guesses it): iconv -f ENCODING -t UTF-8 '%s' > text.txt",
            path, wrong, size, path, path);
    const char *nul = memchr(head, 0, size);
    if (nul)
        return ce_fail(CS_BAD_FILE,
                       "%s: not text: it has a NUL byte at offset %td; if it is text, remove these bytes: tr -d "
                       "'\\000' < '%s' > text.txt",
                       path, nul - head, path);
    return CS_OK;
}
