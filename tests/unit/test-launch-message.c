/* SPDX-License-Identifier: MIT */

/* A unit's properties as the service manager reads them, and what is read from its answers. */

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strv.h"
#include "launch/bus.h"
#include "launch/record.h"
#include "launch/unit-message.h"
#include "test.h"

/* A connection that leads nowhere: enough to make and to read messages. */
static sd_bus* bus_new(void) {
        sd_bus *bus = NULL;
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0 ||
            sd_bus_new(&bus) < 0 || sd_bus_set_fd(bus, pair[0], pair[0]) < 0 ||
            sd_bus_negotiate_fds(bus, true) < 0 || sd_bus_start(bus) < 0)
                FAIL("no bus");
        return bus; /* the other end stays open until the test ends */
}

static sd_bus_message* message_new(sd_bus *bus, bool is_user) {
        _cleanup_(settings_freep) Settings *s = NULL;
        _cleanup_(unit_spec_freep) UnitSpec *spec = NULL;
        sd_bus_message *m = NULL;
        int fds[_WIRE_FD_MAX];

        ASSERT_EQ_INT(settings_new_default(&s), 0);
        UnitInput in = {
                .is_user = is_user,
                .manager_version = 257,
                .settings = s,
                .limits = limits_ceiling(s, WIRE_PROFILE_RUN),
                .python = "/usr/bin/python3",
                .namespaces = "net=1",
        };
        ASSERT_EQ_INT(unit_spec_new(&in, &spec), 0);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
        ASSERT_EQ_INT(unit_message_start(bus, "mcp-exec-run-0.service", spec, fds, &m), 0);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                safe_close(fds[i]);
        ASSERT_TRUE(sd_bus_message_seal(m, 1, 0) >= 0);
        ASSERT_TRUE(sd_bus_message_rewind(m, true) >= 0);
        return m;
}

/* Moves to the value of a property; of several with that name to the n-th. */
static void enter(sd_bus_message *m, const char *wanted, unsigned n, const char *signature) {
        const char *name, *contents, *unit, *mode;
        char type;

        ASSERT_TRUE(sd_bus_message_rewind(m, true) >= 0);
        ASSERT_TRUE(sd_bus_message_read(m, "ss", &unit, &mode) > 0);
        ASSERT_EQ_STR(unit, "mcp-exec-run-0.service");
        ASSERT_EQ_STR(mode, "fail");
        ASSERT_TRUE(sd_bus_message_enter_container(m, 'a', "(sv)") > 0);
        while (sd_bus_message_enter_container(m, 'r', "sv") > 0) {
                ASSERT_TRUE(sd_bus_message_read(m, "s", &name) > 0);
                if (streq(name, wanted) && n-- == 0) {
                        ASSERT_TRUE(sd_bus_message_peek_type(m, &type, &contents) > 0);
                        ASSERT_EQ_INT(type, 'v');
                        ASSERT_EQ_STR(contents, signature);
                        ASSERT_TRUE(sd_bus_message_enter_container(m, 'v', signature) > 0);
                        return;
                }
                ASSERT_TRUE(sd_bus_message_skip(m, "v") >= 0);
                ASSERT_TRUE(sd_bus_message_exit_container(m) >= 0);
        }
        FAIL("no property %s", wanted);
}

TEST(the_call_is_the_managers) {
        _cleanup_(sd_bus_close_unrefp) sd_bus *bus = bus_new();
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = message_new(bus, false);

        ASSERT_TRUE(sd_bus_message_is_method_call(m, MANAGER_INTERFACE, "StartTransientUnit"));
        ASSERT_EQ_STR(sd_bus_message_get_destination(m), MANAGER_NAME);
        ASSERT_EQ_STR(sd_bus_message_get_path(m), MANAGER_PATH);
        ASSERT_EQ_STR(sd_bus_message_get_signature(m, true), "ssa(sv)a(sa(sv))");
}

TEST(the_command_is_one_and_nothing_in_it_is_expanded) {
        _cleanup_(sd_bus_close_unrefp) sd_bus *bus = bus_new();
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = message_new(bus, false);
        _cleanup_strv_ char **argv = NULL, **flags = NULL;
        const char *path;

        enter(m, "ExecStartEx", 0, "a(sasas)");
        ASSERT_TRUE(sd_bus_message_enter_container(m, 'a', "(sasas)") > 0);
        ASSERT_TRUE(sd_bus_message_enter_container(m, 'r', "sasas") > 0);
        ASSERT_TRUE(sd_bus_message_read(m, "s", &path) > 0);
        ASSERT_TRUE(sd_bus_message_read_strv(m, &argv) > 0);
        ASSERT_TRUE(sd_bus_message_read_strv(m, &flags) > 0);
        ASSERT_EQ_STR(path, argv[0]);
        ASSERT_EQ_STR(argv[1], "run");
        ASSERT_EQ_STR(argv[strv_length(argv) - 1], "/usr/bin/python3");
        ASSERT_EQ_INT(strv_length(flags), 1);
        ASSERT_EQ_STR(flags[0], "no-env-expand");
        ASSERT_TRUE(sd_bus_message_exit_container(m) >= 0);
        ASSERT_TRUE(sd_bus_message_at_end(m, false) > 0);
}

TEST(filters_say_allow_and_deny) {
        _cleanup_(sd_bus_close_unrefp) sd_bus *bus = bus_new();
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = message_new(bus, false);
        static const struct {
                const char *name;
                unsigned n;
                int is_allow_list;
                size_t n_words;
                const char *first;
        } table[] = {
                { "SystemCallFilter", 0, 1, 1, "@system-service" },
                { "SystemCallFilter", 1, 0, SIZE_MAX, "@privileged" },
                { "RestrictAddressFamilies", 0, 1, 0, NULL },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                _cleanup_strv_ char **words = NULL;
                int is_allow_list;

                enter(m, table[i].name, table[i].n, "(bas)");
                ASSERT_TRUE(sd_bus_message_enter_container(m, 'r', "bas") > 0);
                ASSERT_TRUE(sd_bus_message_read(m, "b", &is_allow_list) > 0);
                ASSERT_TRUE(sd_bus_message_read_strv(m, &words) >= 0);
                ASSERT_EQ_INT(is_allow_list, table[i].is_allow_list);
                if (table[i].n_words != SIZE_MAX) /* which they are, test-launch-unit-spec.c knows */
                        ASSERT_EQ_INT(strv_length(words), table[i].n_words);
                ASSERT_EQ_STR(words ? words[0] : NULL, table[i].first);
        }
}

TEST(binds_are_read_one_by_one) {
        _cleanup_(sd_bus_close_unrefp) sd_bus *bus = bus_new();
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = message_new(bus, false);
        const char *source, *target;
        uint64_t flags;
        int may_be_absent;

        enter(m, "BindReadOnlyPaths", 0, "a(ssbt)");
        ASSERT_TRUE(sd_bus_message_enter_container(m, 'a', "(ssbt)") > 0);
        ASSERT_TRUE(sd_bus_message_read(m, "(ssbt)", &source, &target, &may_be_absent, &flags) > 0);
        ASSERT_EQ_STR(source, "/usr");
        ASSERT_EQ_STR(target, "/usr");
        ASSERT_EQ_INT(may_be_absent, 0);
        ASSERT_EQ_UINT(flags, 0);
        ASSERT_TRUE(sd_bus_message_read(m, "(ssbt)", &source, &target, &may_be_absent, &flags) > 0);
        ASSERT_EQ_STR(source, "/etc/ld.so.cache");
        ASSERT_EQ_INT(may_be_absent, 1);
}

TEST(tmpfs_path_and_options_are_apart) {
        _cleanup_(sd_bus_close_unrefp) sd_bus *bus = bus_new();
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = message_new(bus, true);
        const char *path, *options;

        enter(m, "TemporaryFileSystem", 0, "a(ss)");
        ASSERT_TRUE(sd_bus_message_enter_container(m, 'a', "(ss)") > 0);
        ASSERT_TRUE(sd_bus_message_read(m, "(ss)", &path, &options) > 0);
        ASSERT_EQ_STR(path, "/tmp");
        ASSERT_EQ_STR(options, "size=67108864,nr_inodes=16384,mode=1777,nodev,nosuid");
}

TEST(basic_types_have_the_managers_signatures) {
        static const struct {
                const char *name, *signature;
        } table[] = {
                { "Type", "s" },
                { "AddRef", "b" },
                { "BindsTo", "as" },
                { "StartLimitBurst", "u" },
                { "UMask", "u" },
                { "LogLevelMax", "i" },
                { "KillSignal", "i" },
                { "OOMScoreAdjust", "i" },
                { "MemoryMax", "t" },
                { "SystemCallErrorNumber", "i" },
                { "RestrictNamespaces", "t" },
                { "CapabilityBoundingSet", "t" },
                { "StandardInputFileDescriptor", "h" },
                { "StandardErrorFileDescriptor", "h" },
                { "Environment", "as" },
                { "InaccessiblePaths", "as" },
                { "SystemCallArchitectures", "as" },
                { "LimitCORE", "t" },
                { "ProtectProc", "s" },
        };
        _cleanup_(sd_bus_close_unrefp) sd_bus *bus = bus_new();
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = message_new(bus, false);

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                enter(m, table[i].name, 0, table[i].signature);
}

TEST(limits_are_changed_until_the_end_of_the_unit_only) {
        const WireLimits limits = { 1, 2, 3, 4 };
        _cleanup_(sd_bus_close_unrefp) sd_bus *bus = bus_new();
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
        const char *unit, *name[3];
        uint64_t value[3];
        int is_runtime;

        ASSERT_EQ_INT(unit_message_limits(bus, "u.service", &limits, &m), 0);
        ASSERT_TRUE(sd_bus_message_seal(m, 1, 0) >= 0);
        ASSERT_TRUE(sd_bus_message_read(m, "sba(sv)", &unit, &is_runtime, 3, name, "t", value, name + 1, "t",
                                        value + 1, name + 2, "t", value + 2) > 0);
        ASSERT_EQ_INT(is_runtime, 1);
        ASSERT_EQ_STR(name[0], "MemoryMax");
        ASSERT_EQ_UINT(value[0], 2);
        ASSERT_EQ_STR(name[1], "TasksMax");
        ASSERT_EQ_UINT(value[1], 3);
        ASSERT_EQ_STR(name[2], "CPUQuotaPerSecUSec");
        ASSERT_EQ_UINT(value[2], 4);
}

static sd_bus_message* record_new(sd_bus *bus, const char *result) {
        sd_bus_message *m = NULL;

        ASSERT_TRUE(sd_bus_message_new_signal(bus, &m, "/", "a.b", "C") >= 0);
        if (result)
                ASSERT_TRUE(sd_bus_message_append(m, "a{sv}", 8, "Unknown", "(uo)", 5, "/", "Result", "s",
                                                  result, "ExecMainCode", "i", 2, "ExecMainStatus", "i", 11,
                                                  "ExecMainStartTimestampMonotonic", "t", UINT64_C(100),
                                                  "ExecMainExitTimestampMonotonic", "t", UINT64_C(200),
                                                  "CPUUsageNSec", "t", UINT64_C(300), "MemoryPeak", "t",
                                                  UINT64_C(400)) >= 0);
        else
                ASSERT_TRUE(sd_bus_message_append(m, "a{sv}", 1, "ExecMainCode", "i", 1) >= 0);
        ASSERT_TRUE(sd_bus_message_seal(m, 1, 0) >= 0);
        return m;
}

TEST(a_record_is_read) {
        _cleanup_(sd_bus_close_unrefp) sd_bus *bus = bus_new();
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = record_new(bus, "signal");
        WireFinished f = {};

        ASSERT_EQ_INT(record_read(m, &f), 0);
        ASSERT_EQ_INT(f.result, WIRE_RESULT_SIGNAL);
        ASSERT_EQ_INT(f.main_code, 2);
        ASSERT_EQ_INT(f.main_status, 11);
        ASSERT_EQ_UINT(f.start_monotonic_usec, 100);
        ASSERT_EQ_UINT(f.exit_monotonic_usec, 200);
        ASSERT_EQ_UINT(f.cpu_nsec, 300);
        ASSERT_EQ_UINT(f.memory_peak_bytes, 400);
}

TEST(a_record_without_result_is_none) {
        _cleanup_(sd_bus_close_unrefp) sd_bus *bus = bus_new();
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = record_new(bus, NULL);
        WireFinished f = {};

        ASSERT_EQ_INT(record_read(m, &f), -EBADMSG);
}

TEST(an_unknown_result_is_not_a_success) {
        _cleanup_(sd_bus_close_unrefp) sd_bus *bus = bus_new();
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = record_new(bus, "new-word");
        WireFinished f = {};

        ASSERT_EQ_INT(record_read(m, &f), 0);
        ASSERT_EQ_INT(f.result, WIRE_RESULT_OTHER);
}

TEST(the_unknown_property_is_found_in_the_managers_error) {
        static const struct {
                const char *name, *message, *property;
        } table[] = {
                { SD_BUS_ERROR_PROPERTY_READ_ONLY, "Cannot set property PrivatePIDs, or unknown property.",
                  "PrivatePIDs" },
                { SD_BUS_ERROR_PROPERTY_READ_ONLY, "Cannot set property", NULL },
                { SD_BUS_ERROR_PROPERTY_READ_ONLY, "", NULL },
                { SD_BUS_ERROR_INVALID_ARGS, "Cannot set property X, or unknown property.", NULL },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                const sd_bus_error e = SD_BUS_ERROR_MAKE_CONST(table[i].name, table[i].message);
                _cleanup_free_ char *property = bus_unknown_property(&e);

                ASSERT_EQ_STR(property, table[i].property);
        }
}
