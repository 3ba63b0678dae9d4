/* SPDX-License-Identifier: MIT */

/* A service manager that does what a test tells it. */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/timeutil.h"
#include "fake-pid1.h"

#define PATIENCE_MSEC 5000

/* Test programs run in a process of their own each; a fake that cannot go on ends the program, which is a
 * failure. */
#define REQUIRE(expression)                                                                                 \
        do {                                                                                                \
                if (!(expression)) {                                                                        \
                        printf("Bail out! %s:%d: %s\n", __FILE__, __LINE__, #expression);                   \
                        exit(1);                                                                            \
                }                                                                                           \
        } while (0)

void fake_pid1_init(FakePid1 *f, int fd) {
        sd_id128_t id = { .qwords = { 1, 2 } };

        *f = (FakePid1){ .version = "257.13-1",
                         .features = "+PAM +SECCOMP -BPF_FRAMEWORK",
                         .environment = "LANG=C" };
        REQUIRE(sd_bus_new(&f->bus) >= 0);
        REQUIRE(sd_bus_set_fd(f->bus, fd, fd) >= 0);
        REQUIRE(sd_bus_set_server(f->bus, true, id) >= 0);
        REQUIRE(sd_bus_negotiate_fds(f->bus, true) >= 0);
        REQUIRE(sd_bus_set_anonymous(f->bus, true) >= 0);
        REQUIRE(sd_bus_start(f->bus) >= 0);
}

void fake_pid1_done(FakePid1 *f) {
        f->bus = sd_bus_close_unref(f->bus);
}

void fake_pid1_reply(FakePid1 *f, sd_bus_message *call, const char *types, ...) {
        sd_bus_message *m = NULL;
        va_list ap;

        REQUIRE(sd_bus_message_new_method_return(call, &m) >= 0);
        va_start(ap, types);
        if (types[0] != '\0')
                REQUIRE(sd_bus_message_appendv(m, types, ap) >= 0);
        va_end(ap);
        REQUIRE(sd_bus_send(f->bus, m, NULL) >= 0);
        sd_bus_message_unref(m);
        (void) sd_bus_flush(f->bus);
}

void fake_pid1_error(FakePid1 *f, sd_bus_message *call, const char *name, const char *text) {
        const sd_bus_error e = SD_BUS_ERROR_MAKE_CONST(name, text);

        REQUIRE(sd_bus_reply_method_error(call, &e) >= 0);
        (void) sd_bus_flush(f->bus);
}

/* What is always the same. Returns true when nothing is left to do. */
static bool answer(FakePid1 *f, sd_bus_message *m) {
        const char *interface;

        if (sd_bus_message_is_method_call(m, MANAGER_INTERFACE, "Subscribe")) {
                fake_pid1_reply(f, m, "");
                return true;
        }
        if (sd_bus_message_is_method_call(m, MANAGER_INTERFACE, "UnrefUnit")) {
                f->n_unref++;
                return true;
        }
        if (sd_bus_message_is_method_call(m, PROPERTIES_INTERFACE, "GetAll")) {
                REQUIRE(sd_bus_message_read(m, "s", &interface) > 0);
                if (streq(interface, MANAGER_INTERFACE)) {
                        fake_pid1_reply(f, m, "a{sv}", 4, "Version", "s", f->version, "NNames", "u", 7,
                                        "Features", "s", f->features, "Environment", "as", 1,
                                        f->environment);
                        return true;
                }
                REQUIRE(sd_bus_message_rewind(m, true) >= 0);
        }
        return false;
}

sd_bus_message* fake_pid1_call_within(FakePid1 *f, unsigned msec) {
        uint64_t end = now_monotonic_usec() + msec * USEC_PER_MSEC;

        for (;;) {
                sd_bus_message *m = NULL;
                uint64_t now;
                int r;

                r = sd_bus_process(f->bus, &m);
                if (r < 0)
                        return NULL; /* the launcher is gone */
                if (m && (sd_bus_message_is_method_call(m, NULL, NULL) <= 0 || answer(f, m)))
                        m = sd_bus_message_unref(m);
                if (m)
                        return m;
                if (r > 0)
                        continue;
                now = now_monotonic_usec();
                if (now >= end)
                        return NULL;
                (void) sd_bus_wait(f->bus, end - now);
        }
}

sd_bus_message* fake_pid1_call(FakePid1 *f, const char *member) {
        sd_bus_message *m = fake_pid1_call_within(f, PATIENCE_MSEC);

        if (!m || !streq(sd_bus_message_get_member(m), member)) {
                printf("Bail out! expected a call of %s, got %s\n", member,
                       m ? sd_bus_message_get_member(m) : "none");
                exit(1);
        }
        return m;
}

void fake_pid1_handshake(FakePid1 *f) {
        for (;;) {
                sd_bus_message *m = NULL;
                bool is_last;

                REQUIRE(sd_bus_process(f->bus, &m) >= 0);
                if (!m) {
                        REQUIRE(sd_bus_wait(f->bus, PATIENCE_MSEC * USEC_PER_MSEC) >= 0);
                        continue;
                }
                is_last = sd_bus_message_is_method_call(m, MANAGER_INTERFACE, "Subscribe") > 0;
                if (sd_bus_message_is_method_call(m, NULL, NULL) > 0)
                        REQUIRE(answer(f, m));
                sd_bus_message_unref(m);
                if (is_last)
                        return;
        }
}

static char* unit_path(const FakePid1 *f) {
        char *path = NULL;

        REQUIRE(sd_bus_path_encode(MANAGER_PATH "/unit", f->unit, &path) >= 0);
        return path;
}

void fake_pid1_changed(FakePid1 *f, const char *active_state, unsigned job_id) {
        _cleanup_free_ char *path = unit_path(f);
        uint8_t id[16] = { 0xab, [15] = 0x01 };
        sd_bus_message *m = NULL;

        REQUIRE(sd_bus_message_new_signal(f->bus, &m, path, PROPERTIES_INTERFACE, "PropertiesChanged") >= 0);
        REQUIRE(sd_bus_message_append(m, "s", UNIT_INTERFACE) >= 0);
        REQUIRE(sd_bus_message_open_container(m, 'a', "{sv}") >= 0);
        REQUIRE(sd_bus_message_append(m, "{sv}", "ActiveState", "s", active_state) >= 0);
        REQUIRE(sd_bus_message_append(m, "{sv}", "Job", "(uo)", job_id, job_id ? "/job/1" : "/") >= 0);
        REQUIRE(sd_bus_message_append(m, "{sv}", "SomethingNew", "a(ss)", 1, "a", "b") >= 0);
        REQUIRE(sd_bus_message_open_container(m, 'e', "sv") >= 0);
        REQUIRE(sd_bus_message_append(m, "s", "InvocationID") >= 0);
        REQUIRE(sd_bus_message_open_container(m, 'v', "ay") >= 0);
        REQUIRE(sd_bus_message_append_array(m, 'y', id, sizeof(id)) >= 0);
        REQUIRE(sd_bus_message_close_container(m) >= 0);
        REQUIRE(sd_bus_message_close_container(m) >= 0);
        REQUIRE(sd_bus_message_close_container(m) >= 0);
        REQUIRE(sd_bus_message_append(m, "as", 0) >= 0);
        REQUIRE(sd_bus_send(f->bus, m, NULL) >= 0);
        sd_bus_message_unref(m);
        (void) sd_bus_flush(f->bus);
}

void fake_pid1_job_removed(FakePid1 *f, const char *result) {
        REQUIRE(sd_bus_emit_signal(f->bus, MANAGER_PATH, MANAGER_INTERFACE, "JobRemoved", "uoss", 1,
                                   "/job/1", f->unit, result) >= 0);
        (void) sd_bus_flush(f->bus);
}

void fake_pid1_unit_removed(FakePid1 *f) {
        _cleanup_free_ char *path = unit_path(f);

        REQUIRE(sd_bus_emit_signal(f->bus, MANAGER_PATH, MANAGER_INTERFACE, "UnitRemoved", "so", f->unit,
                                   path) >= 0);
        (void) sd_bus_flush(f->bus);
}

void fake_pid1_begin(FakePid1 *f) {
        sd_bus_message *m = fake_pid1_call(f, "StartTransientUnit");
        const char *unit;

        REQUIRE(sd_bus_message_read(m, "s", &unit) > 0);
        (void) snprintf(f->unit, sizeof(f->unit), "%s", unit);
        fake_pid1_reply(f, m, "o", "/job/1");
        sd_bus_message_unref(m);
        /* As systemd does: the first thing it says of a new unit is that it is inactive. */
        fake_pid1_changed(f, "inactive", 1);
        fake_pid1_changed(f, "activating", 1);
}

void fake_pid1_start(FakePid1 *f) {
        fake_pid1_begin(f);
        fake_pid1_changed(f, "active", 1);
        fake_pid1_job_removed(f, "done");
        fake_pid1_changed(f, "active", 0);
}

void fake_pid1_record(FakePid1 *f, const char *result, int code, int status) {
        sd_bus_message *m = fake_pid1_call(f, "GetAll");

        fake_pid1_reply(f, m, "a{sv}", 7, "Result", "s", result, "ExecMainCode", "i", code, "ExecMainStatus",
                        "i", status, "ExecMainStartTimestampMonotonic", "t", UINT64_C(1000),
                        "ExecMainExitTimestampMonotonic", "t", UINT64_C(2000), "CPUUsageNSec", "t",
                        UINT64_C(3000), "MemoryPeak", "t", UINT64_C(4000));
        sd_bus_message_unref(m);
}

void fake_pid1_end(FakePid1 *f, const char *result, int code, int status) {
        fake_pid1_changed(f, streq(result, "success") ? "inactive" : "failed", 0);
        fake_pid1_record(f, result, code, status);
}
