/* SPDX-License-Identifier: MIT */

/* A packet of any bytes at either end of the seam. First byte: which end, and how many descriptors came with
 * it. */

#include "base/utf8.h"
#include "fuzz.h"
#include "wire/wire.h"

static void check_text(const char *field, size_t field_bytes) {
        size_t n = strnlen(field, field_bytes);

        FUZZ_CHECK(n < field_bytes && utf8_is_valid(field, n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
        uint8_t how = fuzz_byte(&data, &n_bytes);
        WireRole role = how & 1 ? WIRE_ROLE_DAEMON : WIRE_ROLE_LAUNCHER;
        WireMessage *m;
        int r;

        m = malloc(n_bytes > 0 ? n_bytes : 1);
        FUZZ_CHECK(m);
        memcpy(m, data, n_bytes);
        r = wire_check(role, m, n_bytes, how >> 1);
        FUZZ_CHECK(r == 0 || r == -EBADMSG);
        if (r == 0) {
                FUZZ_CHECK(n_bytes == wire_message_size(m->header.type));
                FUZZ_CHECK((m->header.type == WIRE_START ? _WIRE_FD_MAX : 0) == how >> 1);
                FUZZ_CHECK((m->header.type <= WIRE_SET) == (role == WIRE_ROLE_LAUNCHER));
                if (m->header.type == WIRE_HELLO) {
                        check_text(m->hello.reason, sizeof(m->hello.reason));
                        check_text(m->hello.remedy, sizeof(m->hello.remedy));
                        check_text(m->hello.interpreters[0], sizeof(m->hello.interpreters[0]));
                } else if (m->header.type == WIRE_STARTED)
                        check_text(m->started.unit, sizeof(m->started.unit));
                else if (m->header.type == WIRE_REFUSED)
                        check_text(m->refused.reason, sizeof(m->refused.reason));
                else if (m->header.type == WIRE_FINISHED)
                        FUZZ_CHECK(wire_result_to_string((WireResult) m->finished.result));
        }
        free(m);
        return 0;
}
