/* written.c - opens a configuration whose text a test gives as a string. */
#include "written.h"

#include "config/config.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

cs_config *written_config(const char *text)
{
    char path[512];
    const char *folder = getenv("TMPDIR");
    cs_config *config;
    snprintf(path, sizeof path, "%s/%s.XXXXXX", folder ? folder : "/tmp", program_invocation_short_name);
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
    cs_status status = cs_config_open(&config, path);
    unlink(path);
    ck_assert_msg(status == CS_OK, "%s", cs_error());
    return config;
}

const char *written_with(const char *more)
{
    static char text[1024];
    snprintf(text, sizeof text, "{\"train_micro_batch_size_per_gpu\": 1, %s}", more);
    return text;
}

void written_refused(const char *text, const char *sentence)
{
    cs_config *config = written_config(text);
    ck_assert_msg(cs_config_finish(config) == CS_BAD_CONFIG, "%s was accepted", text);
    ck_assert_msg(strstr(cs_error(), sentence) != NULL, "%s: %s", text, cs_error());
    ck_assert_int_eq(cs_config_finish(config), CS_BAD_CONFIG); /* a second call returns the same status */
    cs_config_close(config);
}

bool written_has_note(const cs_config *config, const char *text)
{
    for (int i = 0; i < ce_json_note_count(config->doc); i++)
        if (strstr(ce_json_note_text(config->doc, i), text))
            return true;
    return false;
}
