/* SPDX-License-Identifier: MIT */

/* A message too long to keep, in pieces of any size (first two bytes: the head kept, the pieces). The reply
 * is one valid message, and an id in it is one that stands in the input. */

#include "fuzz.h"
#include "json/json.h"
#include "transport/skipped.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
        size_t n_head = fuzz_byte(&data, &n_bytes), piece = (size_t) fuzz_byte(&data, &n_bytes) + 1;
        _cleanup_buffer_ Buffer reply = BUFFER_INIT(0);
        SkippedMessage s = {};
        const char *id;
        size_t n_id;
        int verdict;

        skipped_head(&s, (const char*) data, MIN_OF(n_head, n_bytes));
        for (size_t at = 0; at < n_bytes; at += piece)
                skipped_push(&s, (const char*) data + at, MIN_OF(piece, n_bytes - at));
        FUZZ_CHECK(skipped_error(&s, -32600, "too long", &reply) == 0);
        verdict = json_check(reply.data, reply.n_bytes);
        FUZZ_CHECK(verdict == 0 || verdict == JSON_E_TEXT);
        FUZZ_CHECK(!memchr(reply.data, '\n', reply.n_bytes));
        if (json_raw_member(reply.data, reply.n_bytes, "id", &id, &n_id) &&
            !(n_id == 4 && memcmp(id, "null", 4) == 0))
                FUZZ_CHECK(memmem(data, n_bytes, id, n_id));
        skipped_done(&s);
        return 0;
}
