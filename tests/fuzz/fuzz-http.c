/* SPDX-License-Identifier: MIT */

/* Header values and ends of skipped messages: what is let through is what it seems to be. */

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "fuzz.h"
#include "json/json.h"
#include "transport/http-checks.h"
#include "transport/skipped.h"

/* A name of this machine, and nothing but a port behind it: checked here with other means than there. */
static bool is_plainly_local(const char *authority) {
        static const char *const names[] = { "localhost", "127.0.0.1", "[::1]", "[localhost]",
                                             "[127.0.0.1]" };

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                size_t n = strlen(names[i]);

                if (strncasecmp(authority, names[i], n) != 0)
                        continue;
                if (authority[n] == 0 || (authority[n] == ':' &&
                                          authority[n + 1 + strspn(authority + n + 1, "0123456789")] == 0))
                        return true;
        }
        return false;
}

/* A copy without blanks around it. */
static char* trimmed(const char *s) {
        size_t n;

        s += strspn(s, " \t");
        n = strlen(s);
        while (n > 0 && (s[n - 1] == ' ' || s[n - 1] == '\t'))
                n--;
        return strndup(s, n);
}

static void check_headers(const char *text) {
        _cleanup_free_ char *s = trimmed(text);
        const char *authority;

        if (!s)
                return;
        (void) http_accepts(text);
        (void) http_is_json(text);
        FUZZ_CHECK(http_is_identity(text) == (s[0] == 0 || strcasecmp(s, "identity") == 0));
        if (http_host_is_allowed(text, NULL, NULL))
                FUZZ_CHECK(is_plainly_local(s));
        if (http_origin_is_allowed(text, NULL)) {
                FUZZ_CHECK(strncasecmp(s, "http://", 7) == 0 || strncasecmp(s, "https://", 8) == 0);
                authority = strstr(s, "://") + 3;
                FUZZ_CHECK(is_plainly_local(authority));
        }
}

/* Whatever came, the refusal is one JSON object on one line. */
static void check_skipped(const char *data, size_t n_bytes, size_t n_head) {
        _cleanup_(skipped_done) SkippedMessage s = {};
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int verdict;

        n_head = MIN_OF(n_head, n_bytes);
        skipped_head(&s, data, n_head);
        skipped_push(&s, data + n_head, n_bytes - n_head);
        FUZZ_CHECK(skipped_error(&s, -1, "m", &b) == 0);
        /* An id comes back as it was sent, be it a lone surrogate. */
        verdict = json_check(b.data, b.n_bytes);
        FUZZ_CHECK(verdict == 0 || verdict == JSON_E_TEXT);
        FUZZ_CHECK(!memchr(b.data, '\n', b.n_bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
        _cleanup_free_ char *text = NULL;
        uint8_t n_head = fuzz_byte(&data, &n_bytes);

        check_skipped((const char*) data, n_bytes, n_head);
        text = strndup((const char*) data, n_bytes);
        if (text)
                check_headers(text);
        return 0;
}
