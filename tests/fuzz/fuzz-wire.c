/* SPDX-License-Identifier: MIT */

/* A packet of any bytes at either end of the seam. First byte: which end, whether magic, version and size
 * are put right (so that a corpus does not grow old with them), and how many descriptors came with it. */

#include "base/utf8.h"
#include "fuzz.h"
#include "wire/wire.h"

enum { HOW_DAEMON = 1, HOW_HEADER = 2, HOW_SIZE = 4, HOW_FDS_SHIFT = 3 };

static void check_text(const char *field, size_t field_bytes) {
        size_t n = strnlen(field, field_bytes);

        FUZZ_CHECK(n < field_bytes && utf8_is_valid(field, n));
}

static void check_set_name(const char field[static WIRE_SET_NAME_CHARS]) {
        char name[WIRE_SET_NAME_CHARS + 1];
        size_t n;

        wire_get_set_name(field, name);
        n = strlen(name);
        FUZZ_CHECK(n == 0 || (n == WIRE_SET_NAME_CHARS && strspn(name, "0123456789abcdef") == n));
}

static void check_hello(const WireHello *h) {
        check_text(h->manager_version_text, sizeof(h->manager_version_text));
        for (size_t i = 0; i < WIRE_INTERPRETERS_MAX; i++)
                check_text(h->interpreters[i], sizeof(h->interpreters[i]));
        check_text(h->sets_directory, sizeof(h->sets_directory));
        check_text(h->sets_reason, sizeof(h->sets_reason));
        check_text(h->uv, sizeof(h->uv));
        check_text(h->uv_on_host, sizeof(h->uv_on_host));
        check_text(h->reason, sizeof(h->reason));
        check_text(h->remedy, sizeof(h->remedy));
        FUZZ_CHECK(h->n_interpreters <= WIRE_INTERPRETERS_MAX);
}

/* What the receiver relies on. */
static void check_accepted(WireRole receiver, const WireMessage *m) {
        WireRole expected = WIRE_ROLE_DAEMON;

        switch (m->header.type) {
        case WIRE_START:
                check_set_name(m->start.environment);
                FUZZ_CHECK(m->start.profile < _WIRE_PROFILE_MAX &&
                           m->start.interpreter < WIRE_INTERPRETERS_MAX);
                expected = WIRE_ROLE_LAUNCHER;
                break;
        case WIRE_SET:
                check_set_name(m->set.environment);
                check_set_name(m->set.to);
                FUZZ_CHECK(m->set.environment[0] && m->set.action < _WIRE_SET_ACTION_MAX);
                expected = WIRE_ROLE_LAUNCHER;
                break;
        case WIRE_ASSIGN:
        case WIRE_STOP:
        case WIRE_LOOK:
                expected = WIRE_ROLE_LAUNCHER;
                break;
        case WIRE_HELLO:
                check_hello(&m->hello);
                break;
        case WIRE_STARTED:
                check_text(m->started.unit, sizeof(m->started.unit));
                check_text(m->started.invocation_id, sizeof(m->started.invocation_id));
                break;
        case WIRE_REFUSED:
                check_text(m->refused.reason, sizeof(m->refused.reason));
                check_text(m->refused.remedy, sizeof(m->refused.remedy));
                break;
        case WIRE_FINISHED:
                FUZZ_CHECK(wire_result_to_string((WireResult) m->finished.result));
                break;
        case WIRE_SET_DONE:
                check_text(m->set_done.text, sizeof(m->set_done.text));
                break;
        default:
                FUZZ_CHECK(!"a message that the protocol does not have");
        }
        FUZZ_CHECK(receiver == expected);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
        uint8_t how = fuzz_byte(&data, &n_bytes);
        WireRole role = how & HOW_DAEMON ? WIRE_ROLE_DAEMON : WIRE_ROLE_LAUNCHER;
        size_t n_fds = how >> HOW_FDS_SHIFT, n_copied = n_bytes;
        WireHeader header = {};
        WireMessage *m;
        int r;

        memcpy(&header, data, MIN_OF(n_bytes, sizeof(header)));
        if ((how & HOW_SIZE) && wire_message_size(header.type) > 0)
                n_bytes = wire_message_size(header.type);
        m = calloc(1, n_bytes > 0 ? n_bytes : 1);
        FUZZ_CHECK(m);
        memcpy(m, data, MIN_OF(n_bytes, n_copied));
        if ((how & HOW_HEADER) && n_bytes >= sizeof(header)) {
                m->header.magic = WIRE_MAGIC;
                m->header.version = WIRE_VERSION;
        }
        r = wire_check(role, m, n_bytes, n_fds);
        FUZZ_CHECK(r == 0 || r == -EBADMSG);
        if (r == 0) {
                FUZZ_CHECK(n_bytes == wire_message_size(m->header.type));
                FUZZ_CHECK((m->header.type == WIRE_START ? _WIRE_FD_MAX : 0) == n_fds);
                check_accepted(role, m);
        }
        free(m);
        return 0;
}
