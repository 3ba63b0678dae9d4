/* SPDX-License-Identifier: MIT */

/* A configuration file of any content: refused with a message that names its place, or taken; and what was
 * taken can be written out and read again. */

#include "base/conf-file.h"
#include "base/settings.h"
#include "base/utf8.h"
#include "fuzz.h"

static int assign(const char *section, const char *key, const char *value, const char *place, void *userdata,
                  char **reterr_reason) {
        FUZZ_CHECK(strncmp(place, "f:", 2) == 0);
        FUZZ_CHECK(utf8_is_valid(value, strlen(value)) && !strpbrk(value, "\n\r\x1b"));
        return settings_set(userdata, section, key, value, reterr_reason);
}

static int assign_again(const char *section, const char *key, const char *value, void *userdata) {
        _cleanup_free_ char *reason = NULL;

        FUZZ_CHECK(settings_set(userdata, section, key, value, &reason) == 0);
        return 0;
}

static int append(const char *section, const char *key, const char *value, void *userdata) {
        return buffer_printf(userdata, "[%s]\n%s=%s\n", section, key, value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
        _cleanup_buffer_ Buffer text = BUFFER_INIT(0), once = BUFFER_INIT(0), twice = BUFFER_INIT(0);
        _cleanup_(settings_freep) Settings *s = NULL, *again = NULL;
        _cleanup_free_ char *message = NULL;
        int r;

        FUZZ_CHECK(buffer_append(&text, data, n_bytes) == 0);
        FUZZ_CHECK(settings_new_default(&s) == 0 && settings_new_default(&again) == 0);
        r = conf_parse("f", text.data, assign, s, &message);
        FUZZ_CHECK(r == 0 || r == -EBADMSG);
        FUZZ_CHECK(r == 0 ? !message : message && strncmp(message, "f:", 2) == 0);

        FUZZ_CHECK(settings_foreach(s, assign_again, again) == 0);
        FUZZ_CHECK(settings_foreach(s, append, &once) == 0);
        FUZZ_CHECK(settings_foreach(again, append, &twice) == 0);
        FUZZ_CHECK(streq(once.data, twice.data));
        return 0;
}
