/* SPDX-License-Identifier: MIT */

/* The properties of a unit, from settings and a request. Exhaustive on purpose: what is not listed here
 * word for word is not in the sandbox. */

#include "base/strv.h"
#include "config.h"
#include "launch/unit-spec.h"
#include "test.h"

static UnitInput input(const Settings *s) {
        return (UnitInput) {
                .manager_version = 257,
                .settings = s,
                .limits = limits_ceiling(s, WIRE_PROFILE_RUN),
                .python = "/usr/bin/python3",
                .namespaces = "net=1,mnt=2",
        };
}

static Settings* settings(void) {
        Settings *s = NULL;

        if (settings_new_default(&s) < 0)
                FAIL("no settings");
        return s;
}

static char* print(const UnitInput *in) {
        _cleanup_(unit_spec_freep) UnitSpec *spec = NULL;
        Buffer b = BUFFER_INIT(0);
        char *text = NULL;

        ASSERT_EQ_INT(unit_spec_new(in, &spec), 0);
        ASSERT_EQ_INT(unit_spec_print(spec, &b), 0);
        ASSERT_EQ_INT(buffer_steal(&b, &text, NULL), 0);
        return text;
}

/* Exactly this line, once. */
static void has_line(const char *text, const char *line) {
        _cleanup_free_ char *pattern = NULL;
        const char *found;

        ASSERT_EQ_INT(str_printf(&pattern, "\n%s\n", line), 0);
        found = strncmp(text, pattern + 1, strlen(pattern + 1)) == 0 ? text : strstr(text, pattern);
        if (!found)
                FAIL("no line %s in\n%s", line, text);
        if (strstr(found + 1, pattern))
                FAIL("twice: %s", line);
}

static void has_no(const char *text, const char *part) {
        if (strstr(text, part))
                FAIL("there is %s in\n%s", part, text);
}

#define COMMON_1                                                                                        \
        "Description=mcp-exec: sandbox of one Python program\n"                                         \
        "Type=exec\n"                                                                                   \
        "AddRef=yes\n"                                                                                  \
        "CollectMode=inactive-or-failed\n"                                                              \
        "Slice=mcp-exec.slice\n"
#define COMMON_2                                                                                        \
        "StartLimitBurst=1\n"                                                                           \
        "StartLimitIntervalUSec=86400000000\n"                                                          \
        "LogLevelMax=3\n"
#define COMMON_3                                                                                        \
        "StandardInputFileDescriptor=(control socket)\n"                                                \
        "StandardOutputFileDescriptor=(stdout pipe)\n"                                                  \
        "StandardErrorFileDescriptor=(stderr pipe)\n"                                                   \
        "Environment=BLIS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1 NUMEXPR_MAX_THREADS=1 "   \
        "NUMEXPR_NUM_THREADS=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 POLARS_MAX_THREADS=1 "          \
        "RAYON_NUM_THREADS=1 VECLIB_MAXIMUM_THREADS=1\n"                                                \
        "UnsetEnvironment=CREDENTIALS_DIRECTORY DBUS_SESSION_BUS_ADDRESS DEBUG_INVOCATION INVOCATION_ID " \
        "JOURNAL_STREAM LISTEN_FDNAMES LISTEN_FDS LISTEN_PID LISTEN_PIDFDID MAINPID MANAGERPID "        \
        "MANAGERPIDFDID MEMORY_PRESSURE_WATCH MEMORY_PRESSURE_WRITE NOTIFY_SOCKET SHELL "               \
        "SYSTEMD_EXEC_PID XDG_RUNTIME_DIR GLIBC_TUNABLES LD_AUDIT LD_BIND_NOW LD_DEBUG "                 \
        "LD_DEBUG_OUTPUT LD_LIBRARY_PATH LD_PRELOAD LD_PROFILE LD_SHOW_AUXV LD_TRACE_LOADED_OBJECTS "    \
        "LD_VERBOSE LD_WARN\n"                                                                          \
        "WorkingDirectory=/\n"                                                                          \
        "UMask=0022\n"                                                                                  \
        "IgnoreSIGPIPE=no\n"
#define COMMON_4                                                                                        \
        "NoNewPrivileges=yes\n"                                                                         \
        "CapabilityBoundingSet=0\n"                                                                     \
        "AmbientCapabilities=0\n"
#define ROOT                                                                                            \
        "RootDirectory=" MCP_EXEC_LIBDIR "/root\n"                                                      \
        "MountAPIVFS=yes\n"
#define BINDS                                                                                           \
        "BindReadOnlyPaths=/usr -/etc/ld.so.cache -/etc/alternatives -/etc/localtime "                  \
        "-/var/cache/mcp-exec/matplotlib\n"
#define TMPFS_OPTIONS ":size=67108864,nr_inodes=16384,mode=1777,nodev,nosuid"
#define TMPFS(tmp)                                                                                      \
        "TemporaryFileSystem=" tmp TMPFS_OPTIONS " /dev/shm" TMPFS_OPTIONS " /run:ro,nodev,nosuid,noexec\n"
#define COMMON_5                                                                                        \
        "InaccessiblePaths=-+/sys -+/dev/pts -+/dev/ptmx\n"                                             \
        "PrivateNetwork=yes\n"                                                                          \
        "PrivateIPC=yes\n"                                                                              \
        "PrivateDevices=yes\n"                                                                          \
        "ProtectProc=invisible\n"                                                                       \
        "ProcSubset=pid\n"
#define COMMON_6                                                                                        \
        "RestrictNamespaces=0\n"                                                                        \
        "RestrictSUIDSGID=yes\n"                                                                        \
        "RestrictRealtime=yes\n"                                                                        \
        "LockPersonality=yes\n"                                                                         \
        "RestrictAddressFamilies=none\n"                                                                \
        "SystemCallArchitectures=native\n"                                                              \
        "SystemCallErrorNumber=1\n"                                                                     \
        "SystemCallFilter=@system-service\n"                                                            \
        "SystemCallFilter=~@privileged @resources @keyring @debug @aio io_uring_setup io_uring_enter "  \
        "io_uring_register userfaultfd inotify_init inotify_init1 sync\n"                               \
        "SystemCallFilter=~syncfs\n"                                                                    \
        "MemoryMax=536870912\n"                                                                         \
        "MemorySwapMax=0\n"
#define COMMON_7                                                                                        \
        "TasksMax=128\n"                                                                                \
        "CPUQuotaPerSecUSec=1000000\n"                                                                  \
        "RuntimeMaxUSec=960000000\n"                                                                    \
        "LimitCORE=1\n"                                                                                 \
        "LimitNOFILE=4096\n"                                                                            \
        "LimitFSIZE=1073741824\n"                                                                       \
        "LimitMEMLOCK=0\n"                                                                              \
        "LimitMSGQUEUE=0\n"
#define COMMON_8                                                                                        \
        "TimeoutStopUSec=1000000\n"                                                                     \
        "KillSignal=9\n"                                                                                \
        "OOMPolicy=kill\n"                                                                              \
        "OOMScoreAdjust=500\n"
#define COMMAND(what, mode)                                                                             \
        "ExecStartEx=" MCP_EXEC_LIBDIR "/init " what " --mode " mode                                    \
        " --ns net=1,mnt=2 --tmpfs 67108864:16384 /usr/bin/python3\n"

TEST(system_252_word_for_word) {
        _cleanup_(settings_freep) Settings *s = settings();
        _cleanup_free_ char *text = NULL;
        UnitInput in = input(s);

        in.manager_version = 252;
        text = print(&in);
        ASSERT_EQ_STR(text, COMMON_1
                            "BindsTo=mcp-exec-launcher.service\n"
                            "After=mcp-exec-launcher.service\n"
                            "Before=mcp-exec-runs.target\n"
                            COMMON_2 COMMAND("run", "system") COMMON_3
                            "DynamicUser=yes\n"
                            COMMON_4
                            "KeyringMode=private\n"
                            ROOT BINDS TMPFS("/var/zz/tmp") COMMON_5 COMMON_6 COMMON_7 COMMON_8);
}

TEST(user_257_word_for_word) {
        _cleanup_(settings_freep) Settings *s = settings();
        _cleanup_free_ char *text = NULL;
        UnitInput in = input(s);

        in.is_user = true;
        text = print(&in);
        ASSERT_EQ_STR(text, COMMON_1 COMMON_2 COMMAND("run", "user") COMMON_3
                            "PrivateUsers=yes\n"
                            "PrivatePIDs=yes\n"
                            COMMON_4 ROOT
                            "ProtectSystem=strict\n"
                            BINDS TMPFS("/tmp") COMMON_5
                            "BindLogSockets=no\n"
                            COMMON_6
                            "MemoryZSwapMax=0\n"
                            COMMON_7
                            "MemoryPressureWatch=off\n"
                            COMMON_8);
}

TEST(optional_properties_begin_at_their_version) {
        static const struct {
                const char *line;
                unsigned since;
        } table[] = {
                { "MemoryZSwapMax=0", 253 },
                { "MemoryPressureWatch=off", 254 },
                { "BindLogSockets=no", 257 },
                { "ProtectHostnameEx=private:sandbox", 258 },
        };
        _cleanup_(settings_freep) Settings *s = settings();

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                _cleanup_free_ char *before = NULL, *from = NULL;
                UnitInput in = input(s);

                in.manager_version = table[i].since - 1;
                before = print(&in);
                has_no(before, table[i].line);
                in.manager_version = table[i].since;
                from = print(&in);
                has_line(from, table[i].line);
        }
}

TEST(an_unknown_optional_property_is_left_out_and_a_must_never) {
        _cleanup_(settings_freep) Settings *s = settings();
        _cleanup_strv_ char **without = NULL;
        _cleanup_free_ char *text = NULL;
        UnitInput in = input(s);

        ASSERT_EQ_INT(strv_split("BindLogSockets PrivateNetwork SystemCallFilter", &without), 0);
        in.without = without;
        text = print(&in);
        has_no(text, "BindLogSockets");
        has_line(text, "PrivateNetwork=yes");
        has_line(text, "SystemCallFilter=@system-service");
}

TEST(a_must_is_sent_to_managers_that_do_not_know_it) {
        _cleanup_(settings_freep) Settings *s = settings();
        _cleanup_free_ char *text = NULL;
        UnitInput in = input(s);

        in.is_user = true;
        in.manager_version = 252;
        text = print(&in);
        has_line(text, "PrivatePIDs=yes");
}

TEST(the_selftest_differs_in_one_word_only) {
        _cleanup_(settings_freep) Settings *s = settings();
        _cleanup_free_ char *run = NULL, *selftest = NULL;
        UnitInput in = input(s);
        char *word;

        run = print(&in);
        in.is_selftest = true;
        selftest = print(&in);
        has_line(selftest, "ExecStartEx=" MCP_EXEC_LIBDIR "/init selftest --mode system --ns net=1,mnt=2 "
                           "--tmpfs 67108864:16384 /usr/bin/python3");
        word = strstr(selftest, "selftest");
        memmove(word + 3, word + 8, strlen(word + 8) + 1);
        memcpy(word, "run", 3);
        ASSERT_EQ_STR(selftest, run);
}

TEST(settings_reach_their_properties) {
        _cleanup_(settings_freep) Settings *s = settings();
        _cleanup_free_ char *text = NULL;
        UnitInput in;

        ASSERT_EQ_INT(settings_set(s, "Sandbox", "TmpfsSize", "3G", &(char*) { NULL }), 0);
        ASSERT_EQ_INT(settings_set(s, "Sandbox", "TmpfsInodes", "999", &(char*) { NULL }), 0);
        ASSERT_EQ_INT(settings_set(s, "Sandbox", "MemoryMax", "1G", &(char*) { NULL }), 0);
        ASSERT_EQ_INT(settings_set(s, "Sandbox", "TasksMax", "77", &(char*) { NULL }), 0);
        ASSERT_EQ_INT(settings_set(s, "Sandbox", "CPUQuota", "250%", &(char*) { NULL }), 0);
        ASSERT_EQ_INT(
                settings_set(s, "Sandbox", "BindReadOnlyPaths", "/opt/models /srv/data", &(char *){ NULL }),
                0);
        in = input(s);
        text = print(&in);
        has_line(text, "MemoryMax=1073741824");
        has_line(text, "TasksMax=77");
        has_line(text, "CPUQuotaPerSecUSec=2500000");
        has_line(text, "LimitFSIZE=6442450944");
        ASSERT_CONTAINS(text,
                        "TemporaryFileSystem=/var/zz/tmp:size=3221225472,nr_inodes=999,mode=1777,nodev,"
                        "nosuid /dev/shm:size=3221225472,nr_inodes=999,");
        ASSERT_CONTAINS(text, " -/var/cache/mcp-exec/matplotlib /opt/models:rbind /srv/data:rbind\n");
}

TEST(mounts_below_usr_are_taken_where_they_cannot_be_left_out) {
        static const struct {
                bool is_user, has_mounts, has_local;
                const char *binds, *inaccessible;
        } table[] = {
                { false, false, false, "=/usr -/etc", "/dev/ptmx\n" },
                { false, true, false, "=/usr -/etc", "/dev/ptmx\n" },
                { false, true, true, "=/usr /usr/local -/etc", "/dev/ptmx\n" },
                { true, false, false, "=/usr -/etc", "/dev/ptmx\n" },
                { true, true, false, "=/usr:rbind -/etc", "/dev/ptmx -+" MCP_EXEC_LIBDIR "/root\n" },
                { true, true, true, "=/usr:rbind -/etc", "/dev/ptmx -+" MCP_EXEC_LIBDIR "/root\n" },
        };
        _cleanup_(settings_freep) Settings *s = settings();

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                _cleanup_free_ char *text = NULL;
                UnitInput in = input(s);

                in.is_user = table[i].is_user;
                in.has_usr_mounts = table[i].has_mounts;
                in.has_usr_local_mount = table[i].has_local;
                text = print(&in);
                ASSERT_CONTAINS(text, table[i].binds);
                ASSERT_CONTAINS(text, table[i].inaccessible);
        }
}

TEST(thread_counts_follow_the_quota_of_the_run) {
        static const struct {
                uint64_t quota_usec;
                const char *text;
        } table[] = {
                { 10000, " OMP_NUM_THREADS=1 " },   { 1000000, " OMP_NUM_THREADS=1 " },
                { 1000001, " OMP_NUM_THREADS=2 " }, { 2500000, " OMP_NUM_THREADS=3 " },
                { 64000000, " OMP_NUM_THREADS=64 " },
        };
        _cleanup_(settings_freep) Settings *s = settings();

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                _cleanup_free_ char *text = NULL;
                UnitInput in = input(s);

                in.limits.cpu_quota_per_sec_usec = table[i].quota_usec;
                text = print(&in);
                ASSERT_CONTAINS(text, table[i].text);
        }
}

TEST(variables_of_the_manager_are_taken_out_by_name) {
        char *variables[] = { (char*) "API_TOKEN=secret=x", (char*) "PATH=/bin", (char*) "OMP_NUM_THREADS=9",
                              (char*) "bad name=1", (char*) "=x", (char*) "9A=1", (char*) "SHELL=/bin/sh",
                              (char*) "NOVALUE", NULL };
        _cleanup_(settings_freep) Settings *s = settings();
        _cleanup_free_ char *text = NULL;
        UnitInput in = input(s);

        in.manager_environment = variables;
        text = print(&in);
        ASSERT_CONTAINS(text, "LD_VERBOSE LD_WARN API_TOKEN PATH NOVALUE\n");
        has_no(text, "secret");
}

TEST(ceiling_is_the_settings) {
        _cleanup_(settings_freep) Settings *s = settings();
        WireLimits l = limits_ceiling(s, WIRE_PROFILE_RUN);

        ASSERT_EQ_UINT(l.memory_max_bytes, 512 * MIB);
        ASSERT_EQ_UINT(l.tasks_max, 128);
        ASSERT_EQ_UINT(l.cpu_quota_per_sec_usec, USEC_PER_SEC);
        ASSERT_EQ_UINT(l.runtime_max_usec, (300 + 600 + 60) * USEC_PER_SEC);
        s->max_timeout_usec = s->pool_idle_usec = UINT64_C(24) * 3600 * USEC_PER_SEC;
        l = limits_ceiling(s, WIRE_PROFILE_RUN);
        ASSERT_EQ_UINT(l.runtime_max_usec, WIRE_RUNTIME_USEC_MAX);
}

TEST(limits_are_clamped_to_floor_and_ceiling) {
        const WireLimits ceiling = { 100 * USEC_PER_SEC, 512 * MIB, 128, 2 * USEC_PER_SEC };
        WireLimits l = {};

        limits_clamp(&l, &ceiling);
        ASSERT_EQ_UINT(l.runtime_max_usec, WIRE_RUNTIME_USEC_MIN);
        ASSERT_EQ_UINT(l.memory_max_bytes, WIRE_MEMORY_BYTES_MIN);
        ASSERT_EQ_UINT(l.tasks_max, WIRE_TASKS_MIN);
        ASSERT_EQ_UINT(l.cpu_quota_per_sec_usec, 10000);

        l = (WireLimits) { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX };
        limits_clamp(&l, &ceiling);
        ASSERT_EQ_MEM(&l, sizeof(l), &ceiling, sizeof(ceiling));

        l = (WireLimits) { 5 * USEC_PER_SEC, 64 * MIB, 9, 300000 };
        limits_clamp(&l, &ceiling);
        ASSERT_EQ_UINT(l.runtime_max_usec, 5 * USEC_PER_SEC);
        ASSERT_EQ_UINT(l.memory_max_bytes, 64 * MIB);
        ASSERT_EQ_UINT(l.tasks_max, 9);
        ASSERT_EQ_UINT(l.cpu_quota_per_sec_usec, 300000);
}

TEST(a_ceiling_below_the_floor_wins) {
        const WireLimits ceiling = { 1, 2, 3, 4 };
        WireLimits l = { 10, 10, 10, 10 };

        limits_clamp(&l, &ceiling);
        ASSERT_EQ_MEM(&l, sizeof(l), &ceiling, sizeof(ceiling));
}

TEST(every_row_of_the_profile_is_for_somebody_and_has_a_value) {
        for (size_t i = 0; i < profile_n_rows; i++) {
                const ProfileRow *row = profile_rows + i;

                ASSERT_TRUE(row->where != 0);
                ASSERT_TRUE(row->kind < _VALUE_KIND_MAX);
                if (row->source != SOURCE_FIXED)
                        continue;
                if ((row->kind == VALUE_STRING || row->kind == VALUE_STRINGS || row->kind == VALUE_DENY) &&
                    (!row->text || row->text[0] == '\0'))
                        FAIL("%s has no value", row->name);
        }
        ASSERT_TRUE(profile_find("DynamicUser") != NULL);
        ASSERT_TRUE(profile_find("Dynamic") == NULL);
}
