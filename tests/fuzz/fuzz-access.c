/* SPDX-License-Identifier: MIT */

/* A file of tokens and limits of any content: refused with a message that names its place, or taken; and
 * what was taken can be written out and read again. */

#include "auth/access.h"
#include "fuzz.h"

static int write_all(const Access *a, Buffer *b) {
        for (size_t i = 0; i < a->n_entries; i++) {
                int r = access_write_entry(a->entries + i, b);

                if (r < 0)
                        return r;
        }
        return buffer_append_str(b, "");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
        _cleanup_buffer_ Buffer text = BUFFER_INIT(0), once = BUFFER_INIT(0), twice = BUFFER_INIT(0);
        _cleanup_(access_freep) Access *a = NULL, *again = NULL;
        _cleanup_free_ char *message = NULL;
        int r;

        FUZZ_CHECK(buffer_append(&text, data, n_bytes) == 0);
        if (n_bytes == 0 || memchr(data, 0, n_bytes))
                return 0; /* file_read() refuses it */
        r = access_parse("f", text.data, &a, &message);
        FUZZ_CHECK(r == 0 || r == -EBADMSG);
        FUZZ_CHECK(r == 0 ? !message : message && strncmp(message, "f:", 2) == 0);
        if (r < 0)
                return 0;

        FUZZ_CHECK(write_all(a, &once) == 0);
        FUZZ_CHECK(access_parse("f", once.data, &again, &message) == 0);
        FUZZ_CHECK(write_all(again, &twice) == 0);
        FUZZ_CHECK(streq(once.data, twice.data));
        return 0;
}
