/* SPDX-License-Identifier: MIT */

/* What a valid message is, byte by byte. */

#include "base/macro.h"
#include "base/utf8.h"
#include "test.h"
#include "wire/wire.h"

#define N_TYPES (_WIRE_TYPE_MAX - 1)

static WireRole receiver(WireType type) {
        return type <= WIRE_SET || type == WIRE_LOOK ? WIRE_ROLE_LAUNCHER : WIRE_ROLE_DAEMON;
}

static bool has_job_id(WireType type) {
        return type != WIRE_HELLO && type != WIRE_LOOK;
}

static size_t n_fds_of(WireType type) {
        return type == WIRE_START ? _WIRE_FD_MAX : 0;
}

/* A message with every field in use. */
static WireMessage valid_message(WireType type) {
        const WireLimits limits = { 1000000, 1 << 30, 128, 1000000 };
        WireMessage m = {};

        wire_header_init(&m, type, has_job_id(type) ? UINT64_C(0x0102030405060708) : 0);
        if (type == WIRE_START) {
                m.start.limits = limits;
                m.start.interpreter = 1;
                memset(m.start.environment, 'a', sizeof(m.start.environment));
        } else if (type == WIRE_ASSIGN)
                m.assign.limits = limits;
        else if (type == WIRE_SET) {
                m.set.action = WIRE_SET_COMMIT;
                memset(m.set.environment, 'c', sizeof(m.set.environment));
                memset(m.set.to, 'd', sizeof(m.set.to));
        } else if (type == WIRE_HELLO) {
                m.hello.verdict = WIRE_VERDICT_REFUSED;
                m.hello.is_user = m.hello.has_memory_peak = m.hello.is_relaxed = 1;
                m.hello.controllers = 7;
                m.hello.manager_version = 257;
                m.hello.n_interpreters = 1;
                wire_set_text(m.hello.manager_version_text, sizeof(m.hello.manager_version_text),
                              "257.9-1~deb13u1");
                wire_set_text(m.hello.interpreters[0], sizeof(m.hello.interpreters[0]), "/usr/bin/python3");
                wire_set_text(m.hello.interpreters[7], sizeof(m.hello.interpreters[7]), "/usr/bin/py3.12");
                wire_set_text(m.hello.sets_directory, sizeof(m.hello.sets_directory), "/var/lib/sets");
                wire_set_text(m.hello.sets_reason, sizeof(m.hello.sets_reason), "No uv.");
                wire_set_text(m.hello.uv, sizeof(m.hello.uv), "/uv");
                wire_set_text(m.hello.uv_on_host, sizeof(m.hello.uv_on_host), "/home/u/uv");
                wire_set_text(m.hello.reason, sizeof(m.hello.reason), "No.");
                wire_set_text(m.hello.remedy, sizeof(m.hello.remedy), "Yes.");
        } else if (type == WIRE_STARTED) {
                m.started.monotonic_usec = 1;
                wire_set_text(m.started.unit, sizeof(m.started.unit), "mcp-exec-run-0123.service");
                memset(m.started.invocation_id, 'b', 32);
        } else if (type == WIRE_FINISHED) {
                m.finished.result = WIRE_RESULT_SIGNAL;
                m.finished.start_failed = 1;
                m.finished.main_code = 2;
                m.finished.main_status = 9;
                m.finished.cpu_nsec = m.finished.memory_peak_bytes = WIRE_UNKNOWN;
        } else if (type == WIRE_REFUSED) {
                wire_set_text(m.refused.reason, sizeof(m.refused.reason), "Busy.");
                wire_set_text(m.refused.remedy, sizeof(m.refused.remedy), "Wait.");
        } else if (type == WIRE_SET_DONE) {
                m.set_done.error = EBUSY;
                wire_set_text(m.set_done.text, sizeof(m.set_done.text), "It is in use.");
        }
        return m;
}

/* Checks from an allocation of exactly n_bytes, so that a sanitizer sees any reading beyond. */
static int check_exact(WireRole role, const WireMessage *m, size_t n_bytes, size_t n_fds) {
        void *copy = malloc(n_bytes > 0 ? n_bytes : 1);
        int r;

        memcpy(copy, m, n_bytes);
        r = wire_check(role, copy, n_bytes, n_fds);
        free(copy);
        return r;
}

static int check(WireType type, const WireMessage *m) {
        return check_exact(receiver(type), m, wire_message_size((uint16_t) type), n_fds_of(type));
}

TEST(wire_check_takes_valid_messages_of_every_type) {
        for (WireType type = 1; type < _WIRE_TYPE_MAX; type++) {
                WireMessage full = valid_message(type), least = {};

                ASSERT_EQ_INT(check(type, &full), 0);
                wire_header_init(&least, type, has_job_id(type) ? 1 : 0);
                /* Two texts must say something, and a set has a name. */
                ASSERT_EQ_INT(check(type, &least),
                              type == WIRE_STARTED || type == WIRE_REFUSED || type == WIRE_SET ?
                                      -EBADMSG :
                                      0);
        }
}

TEST(wire_check_refuses_every_other_size) {
        for (WireType type = 1; type < _WIRE_TYPE_MAX; type++) {
                WireMessage m = valid_message(type);

                for (size_t n = 0; n <= sizeof(m); n++)
                        ASSERT_EQ_INT(check_exact(receiver(type), &m, n, n_fds_of(type)),
                                      n == wire_message_size((uint16_t) type) ? 0 : -EBADMSG);
        }
}

TEST(wire_check_refuses_the_wrong_direction_and_number_of_descriptors) {
        for (WireType type = 1; type < _WIRE_TYPE_MAX; type++) {
                WireMessage m = valid_message(type);
                size_t n = wire_message_size((uint16_t) type);
                WireRole other = receiver(type) == WIRE_ROLE_DAEMON ? WIRE_ROLE_LAUNCHER : WIRE_ROLE_DAEMON;

                ASSERT_EQ_INT(check_exact(other, &m, n, n_fds_of(type)), -EBADMSG);
                for (size_t n_fds = 0; n_fds < 6; n_fds++)
                        ASSERT_EQ_INT(check_exact(receiver(type), &m, n, n_fds),
                                      n_fds == n_fds_of(type) ? 0 : -EBADMSG);
        }
}

TEST(wire_check_refuses_bad_headers) {
        for (WireType type = 1; type < _WIRE_TYPE_MAX; type++) {
                WireMessage m = valid_message(type);

                m.header.magic ^= 1;
                ASSERT_EQ_INT(check(type, &m), -EBADMSG);
                m = valid_message(type);
                m.header.version++;
                ASSERT_EQ_INT(check(type, &m), -EBADMSG);
                m = valid_message(type);
                m.header.job_id = has_job_id(type) ? 0 : 1;
                ASSERT_EQ_INT(check(type, &m), -EBADMSG);
                for (uint32_t t = 0; t <= UINT16_MAX; t++) {
                        m.header.type = (uint16_t) t;
                        if (t == 0 || t >= _WIRE_TYPE_MAX)
                                ASSERT_EQ_INT(check(type, &m), -EBADMSG);
                }
        }
}

#define REFUSES(type, change)                                                   \
        do {                                                                    \
                WireMessage m = valid_message(type);                            \
                change;                                                         \
                if (check(type, &m) != -EBADMSG)                                \
                        FAIL("taken with %s", #change);                         \
        } while (0)
#define TAKES(type, change)                                                     \
        do {                                                                    \
                WireMessage m = valid_message(type);                            \
                change;                                                         \
                if (check(type, &m) != 0)                                       \
                        FAIL("refused with %s", #change);                       \
        } while (0)

TEST(wire_check_start_names_nothing_but_indices_and_digits) {
        REFUSES(WIRE_START, m.start.profile = _WIRE_PROFILE_MAX);
        REFUSES(WIRE_START, m.start.profile = UINT32_MAX);
        REFUSES(WIRE_START, m.start.interpreter = 8);
        REFUSES(WIRE_START, m.start.interpreter = UINT32_MAX);
        REFUSES(WIRE_START, m.start.environment[63] = 0);
        REFUSES(WIRE_START, m.start.environment[0] = 0);
        REFUSES(WIRE_START, m.start.environment[5] = 'g');
        REFUSES(WIRE_START, m.start.environment[5] = 'A');
        REFUSES(WIRE_START, m.start.environment[5] = '/');
        TAKES(WIRE_START, memset(m.start.environment, 0, sizeof(m.start.environment)));
        REFUSES(WIRE_START, m.start.profile = WIRE_PROFILE_PARSE); /* which has no set */
        TAKES(WIRE_START, m.start.profile = WIRE_PROFILE_FETCH);
        TAKES(WIRE_START, m.start.profile = WIRE_PROFILE_INSTALL);
        for (uint32_t profile = 0; profile < _WIRE_PROFILE_MAX; profile++) {
                WireMessage m = valid_message(WIRE_START);

                m.start.profile = profile;
                memset(m.start.environment, 0, sizeof(m.start.environment));
                ASSERT_EQ_INT(check(WIRE_START, &m), profile >= WIRE_PROFILE_FETCH ? -EBADMSG : 0);
        }
        TAKES(WIRE_START, memset(&m.start.limits, 0xff, sizeof(m.start.limits))); /* clamped, not refused */
        TAKES(WIRE_ASSIGN, memset(&m.assign.limits, 0, sizeof(m.assign.limits)));
}

TEST(wire_check_set_names_nothing_but_digits) {
        REFUSES(WIRE_SET, m.set.action = _WIRE_SET_ACTION_MAX);
        REFUSES(WIRE_SET, m.set.action = UINT32_MAX);
        REFUSES(WIRE_SET, m.set._padding = 1);
        REFUSES(WIRE_SET, memset(m.set.environment, 0, sizeof(m.set.environment)));
        REFUSES(WIRE_SET, m.set.environment[0] = '.');
        REFUSES(WIRE_SET, m.set.environment[63] = 0);
        REFUSES(WIRE_SET, m.set.to[0] = '/');
        REFUSES(WIRE_SET, m.set.to[0] = 0);
        REFUSES(WIRE_SET, m.set.to[63] = 'D');
        REFUSES(WIRE_SET, memset(m.set.to, 0, sizeof(m.set.to))); /* made ready as what? */
        REFUSES(WIRE_SET, m.set.action = WIRE_SET_DROP);
        REFUSES(WIRE_SET, m.set.action = WIRE_SET_RETIRE);
        TAKES(WIRE_SET, memset(m.set.to, 0, sizeof(m.set.to)); m.set.action = WIRE_SET_RETIRE);
        TAKES(WIRE_SET, memset(m.set.to, 0, sizeof(m.set.to)); m.set.action = WIRE_SET_DROP);

        REFUSES(WIRE_SET_DONE, m.set_done.error = 4096);
        REFUSES(WIRE_SET_DONE, m.set_done._padding = 1);
        REFUSES(WIRE_SET_DONE, m.set_done.text[0] = '\n');
        REFUSES(WIRE_SET_DONE, m.set_done.text[255] = 'x');
        TAKES(WIRE_SET_DONE, memset(m.set_done.text, 0, sizeof(m.set_done.text)));
}

TEST(wire_set_names_end_where_the_field_ends) {
        const WireMessage m = valid_message(WIRE_SET), none = {};
        char name[WIRE_SET_NAME_CHARS + 1];

        wire_get_set_name(m.set.to, name);
        ASSERT_EQ_STR(name, "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd");
        wire_get_set_name(none.set.to, name);
        ASSERT_EQ_STR(name, "");
}

TEST(wire_check_hello_fields) {
        REFUSES(WIRE_HELLO, m.hello.verdict = _WIRE_VERDICT_MAX);
        REFUSES(WIRE_HELLO, m.hello.is_user = 2);
        REFUSES(WIRE_HELLO, m.hello.has_memory_peak = 2);
        REFUSES(WIRE_HELLO, m.hello.is_relaxed = 255);
        REFUSES(WIRE_HELLO, m.hello.controllers = 8);
        REFUSES(WIRE_HELLO, m.hello.n_interpreters = 9);
        REFUSES(WIRE_HELLO, memset(m.hello.manager_version_text, 'x', sizeof(m.hello.manager_version_text)));
        REFUSES(WIRE_HELLO, memset(m.hello.interpreters[0], 'x', 256));
        REFUSES(WIRE_HELLO, memset(m.hello.interpreters[7], 'x', 256)); /* runs on into the next field */
        REFUSES(WIRE_HELLO, m.hello.interpreters[3][1] = 'x');
        TAKES(WIRE_HELLO, m.hello.interpreters[3][0] = 'x');
        REFUSES(WIRE_HELLO, memset(m.hello.sets_directory, 'x', sizeof(m.hello.sets_directory)));
        REFUSES(WIRE_HELLO, memset(m.hello.sets_reason, 'x', sizeof(m.hello.sets_reason)));
        REFUSES(WIRE_HELLO, memset(m.hello.uv, 'x', sizeof(m.hello.uv)));
        REFUSES(WIRE_HELLO, memset(m.hello.uv_on_host, 'x', sizeof(m.hello.uv_on_host)));
        REFUSES(WIRE_HELLO, memset(m.hello.reason, 'x', sizeof(m.hello.reason)));
        REFUSES(WIRE_HELLO, memset(m.hello.remedy, 'x', sizeof(m.hello.remedy)));
        REFUSES(WIRE_HELLO, m.hello.reason[sizeof(m.hello.reason) - 1] = 'x'); /* behind the end */
        REFUSES(WIRE_HELLO, m.hello.reason[0] = '\n');
        REFUSES(WIRE_HELLO, m.hello.reason[0] = '\x1b');
        REFUSES(WIRE_HELLO, m.hello.reason[0] = '\x7f');
        REFUSES(WIRE_HELLO, m.hello.reason[0] = (char) 0xff);
        REFUSES(WIRE_HELLO, memcpy(m.hello.reason, "\xc2\x9b", 2)); /* CSI as C1 */
        REFUSES(WIRE_HELLO, memcpy(m.hello.reason, "\xed\xa0\x80", 3));
        TAKES(WIRE_HELLO, memcpy(m.hello.reason, "\xc3\xbc", 2));
}

TEST(wire_check_started_finished_refused_fields) {
        REFUSES(WIRE_STARTED, memset(m.started.unit, 0, sizeof(m.started.unit)));
        REFUSES(WIRE_STARTED, m.started.unit[0] = '\t');
        REFUSES(WIRE_STARTED, m.started.invocation_id[0] = 'x');
        REFUSES(WIRE_STARTED, m.started.invocation_id[31] = 0);
        REFUSES(WIRE_STARTED, m.started.invocation_id[32] = 'b');
        REFUSES(WIRE_STARTED, m.started._padding[6] = 1);
        TAKES(WIRE_STARTED, memset(m.started.invocation_id, 0, sizeof(m.started.invocation_id)));

        REFUSES(WIRE_FINISHED, m.finished.result = _WIRE_RESULT_MAX);
        REFUSES(WIRE_FINISHED, m.finished.start_failed = 2);
        REFUSES(WIRE_FINISHED, m.finished._padding[0] = 1);
        REFUSES(WIRE_FINISHED, m.finished.main_code = 4);
        REFUSES(WIRE_FINISHED, m.finished.main_code = -1);
        REFUSES(WIRE_FINISHED, m.finished.main_status = 256);
        REFUSES(WIRE_FINISHED, m.finished.main_status = -1);

        REFUSES(WIRE_REFUSED, memset(m.refused.reason, 0, sizeof(m.refused.reason)));
        REFUSES(WIRE_REFUSED, m.refused.remedy[511] = '.');
        TAKES(WIRE_REFUSED, memset(m.refused.remedy, 0, sizeof(m.refused.remedy)));
}

/* Which bytes are free to be anything: the numbers that the receiver clamps or only shows. */
static bool is_free_byte(WireType type, size_t at) {
#define WITHIN(t, first, last)                                                                              \
        (at >= offsetof(t, first) && at < offsetof(t, last) + sizeof(((t *) NULL)->last))
        if (at >= offsetof(WireHeader, job_id) && at < sizeof(WireHeader))
                return has_job_id(type);
        switch (type) {
        case WIRE_START:
                return WITHIN(WireStart, limits, limits);
        case WIRE_ASSIGN:
                return WITHIN(WireAssign, limits, limits);
        case WIRE_HELLO:
                return WITHIN(WireHello, manager_version, manager_version) ||
                       WITHIN(WireHello, memory_max_bytes, tmpfs_bytes);
        case WIRE_STARTED:
                return WITHIN(WireStarted, monotonic_usec, monotonic_usec);
        case WIRE_FINISHED:
                /* The status is one byte of four. */
                return at == offsetof(WireFinished, main_status) +
                                       (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 3 : 0) ||
                       WITHIN(WireFinished, start_monotonic_usec, memory_peak_bytes);
        case WIRE_SET_DONE:
                /* An errno is one byte and four bits. */
                return at == offsetof(WireSetDone, error) +
                                       (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 3 : 0);
        case WIRE_STOP:
        case WIRE_LOOK:
        case WIRE_SET:
        case WIRE_REFUSED:
        case _WIRE_TYPE_MAX:
        default:
                return false;
        }
#undef WITHIN
}

TEST(wire_check_judges_every_byte_of_every_message) {
        for (WireType type = 1; type < _WIRE_TYPE_MAX; type++)
                for (size_t at = 0; at < wire_message_size((uint16_t) type); at++) {
                        unsigned n_taken = 0;

                        for (unsigned value = 0; value < 256; value++) {
                                WireMessage m = valid_message(type);

                                ((uint8_t*) &m)[at] = (uint8_t) value;
                                n_taken += check(type, &m) == 0;
                        }
                        /* 256 values nowhere else; the original value everywhere. */
                        if (n_taken == 0 || (n_taken == 256) != is_free_byte(type, at))
                                FAIL("type %d, byte %zu: %u values are taken", type, at, n_taken);
                }
}

TEST(wire_check_survives_any_bytes) {
        uint64_t seed = 5;

        for (int i = 0; i < 200000; i++) {
                WireMessage m;
                size_t n = test_random(&seed) % (sizeof(m) + 1);
                WireType type = (WireType) (1 + test_random(&seed) % N_TYPES);
                uint64_t x;

                for (size_t k = 0; k < sizeof(m); k += sizeof(x)) {
                        x = test_random(&seed);
                        memcpy((char*) &m + k, &x, MIN_OF(sizeof(x), sizeof(m) - k));
                }
                if (i % 2) { /* with a good header, so that the fields are reached */
                        wire_header_init(&m, type, has_job_id(type) ? 1 : 0);
                        n = wire_message_size((uint16_t) type);
                        /* ASSIGN, STOP and LOOK have nothing to be wrong then. */
                        if (type != WIRE_ASSIGN && type != WIRE_STOP && type != WIRE_LOOK)
                                ASSERT_EQ_INT(check_exact(receiver(type), &m, n, n_fds_of(type)), -EBADMSG);
                } else
                        ASSERT_EQ_INT(check_exact((WireRole) (i / 2 % 2), &m, n, 0), -EBADMSG);
        }
}

TEST(wire_set_text_always_makes_what_wire_check_takes) {
        uint64_t seed = 6;

        for (int i = 0; i < 20000; i++) {
                char text[700];
                size_t n = test_random(&seed) % (sizeof(text) - 1);
                WireMessage m = valid_message(WIRE_REFUSED);

                for (size_t k = 0; k < n; k++) {
                        static const uint8_t bytes[] = { 'a',  '\n', 0x1b, 0x7f, 0xc2, 0x9b, 0xc3, 0xe2,
                                                         0x82, 0xac, 0xf0, 0x9f, 0x98, 0x80, 0xff };

                        text[k] = (char) bytes[test_random(&seed) % ELEMENTSOF(bytes)];
                }
                text[n] = 0;
                wire_set_text(m.refused.reason, sizeof(m.refused.reason), text);
                ASSERT_EQ_INT(check(WIRE_REFUSED, &m), n > 0 ? 0 : -EBADMSG);
        }
}

TEST(wire_set_text_cuts_at_a_character_and_replaces_the_unprintable) {
        char field[8];

        memset(field, 'x', sizeof(field));
        wire_set_text(field, sizeof(field), "abc");
        ASSERT_EQ_MEM(field, 8, "abc\0\0\0\0\0", 8);
        wire_set_text(field, sizeof(field), "abcdefghij");
        ASSERT_EQ_STR(field, "abcdefg");
        wire_set_text(field, sizeof(field), "abcde\xe2\x82\xac");
        ASSERT_EQ_STR(field, "abcde");
        wire_set_text(field, sizeof(field), "abcd\xe2\x82\xac");
        ASSERT_EQ_STR(field, "abcd\xe2\x82\xac");
        wire_set_text(field, sizeof(field), "a\n\x1b\xff\xc2\x9b");
        ASSERT_EQ_STR(field, "a????");
}

TEST(wire_results_have_systemds_words) {
        for (WireResult r = 0; r < _WIRE_RESULT_MAX; r++)
                ASSERT_EQ_INT(wire_result_from_string(wire_result_to_string(r)),
                              r < WIRE_RESULT_OTHER ? r : WIRE_RESULT_OTHER);
        ASSERT_EQ_STR(wire_result_to_string(WIRE_RESULT_OOM_KILL), "oom-kill");
        ASSERT_EQ_INT(wire_result_from_string("never-heard"), WIRE_RESULT_OTHER);
        ASSERT_EQ_STR(wire_result_to_string((WireResult) 1000), "other");
}
