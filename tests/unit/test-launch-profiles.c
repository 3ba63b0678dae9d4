/* SPDX-License-Identifier: MIT */

/* The units that are no runs. Each is compared with the unit of a run, line by line: what is not named here
 * is the same, word for word (test-launch-unit-spec.c). */

#include "base/strv.h"
#include "config.h"
#include "launch/unit-spec.h"
#include "test.h"

#define LEAF "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc.tmp"
#define INIT "ExecStartEx=" MCP_EXEC_LIBDIR "/init run --mode "
#define NS " --ns net=1,mnt=2 --tmpfs 67108864:16384 "
#define UNSET                                                                                               \
        "DBUS_SESSION_BUS_ADDRESS DEBUG_INVOCATION INVOCATION_ID JOURNAL_STREAM LISTEN_FDNAMES "            \
        "LISTEN_FDS LISTEN_PID LISTEN_PIDFDID MAINPID MANAGERPID MANAGERPIDFDID MEMORY_PRESSURE_WATCH "     \
        "MEMORY_PRESSURE_WRITE NOTIFY_SOCKET SHELL SYSTEMD_EXEC_PID XDG_RUNTIME_DIR GLIBC_TUNABLES "        \
        "LD_AUDIT LD_BIND_NOW LD_DEBUG LD_DEBUG_OUTPUT LD_LIBRARY_PATH LD_PRELOAD LD_PROFILE "              \
        "LD_SHOW_AUXV LD_TRACE_LOADED_OBJECTS LD_VERBOSE LD_WARN\n"
#define BINDS                                                                                               \
        "BindReadOnlyPaths=/usr -/etc/ld.so.cache -/etc/alternatives -/etc/localtime "                      \
        "-/var/cache/mcp-exec/matplotlib"
#define NETWORK_BINDS                                                                                       \
        " -/etc/resolv.conf -/etc/hosts -/etc/ssl -/etc/pki -/etc/ca-certificates -/etc/crypto-policies "   \
        "-/var/lib/ca-certificates"
#define NSSWITCH MCP_EXEC_LIBDIR "/nsswitch-network.conf:/etc/nsswitch.conf"
#define TMPFS_OPTIONS ":size=67108864,nr_inodes=16384,mode=1777,nodev,nosuid"
#define SHM_AND_RUN " /dev/shm" TMPFS_OPTIONS " /run:ro,nodev,nosuid,noexec\n"
#define SETS_TMPFS                                                                                          \
        " /dev/shm" TMPFS_OPTIONS                                                                           \
        " /var/lib/mcp-exec/sets:ro,size=64k,nr_inodes=16,mode=755,nodev,nosuid"                            \
        " /run:ro,nodev,nosuid,noexec\n"

static Settings* settings(void) {
        Settings *s = NULL;

        if (settings_new_default(&s) < 0)
                FAIL("no settings");
        return s;
}

static UnitInput input(const Settings *s, WireProfile profile, bool is_user) {
        bool has_leaf = profile_has_leaf(profile);

        return (UnitInput) {
                .is_user = is_user,
                .profile = profile,
                .set = has_leaf ? "/sets/" LEAF : NULL,
                .leaf = has_leaf ? LEAF : NULL,
                .manager_version = 257,
                .settings = s,
                .limits = { 10 * USEC_PER_SEC, 64 * MIB, 20, USEC_PER_SEC },
                .python = "/usr/bin/python3",
                .namespaces = "net=1,mnt=2",
        };
}

static char* print(const UnitInput *in) {
        _cleanup_(unit_spec_freep) UnitSpec *spec = NULL;
        Buffer b = BUFFER_INIT(0);
        char *text = NULL;

        ASSERT_EQ_INT(unit_spec_new(in, &spec), 0);
        ASSERT_EQ_INT(spec->profile, in->profile);
        ASSERT_EQ_INT(unit_spec_print(spec, &b), 0);
        ASSERT_EQ_INT(buffer_steal(&b, &text, NULL), 0);
        return text;
}

/* The lines of one that the other has not, each with a sign before it. */
static void subtract(Buffer *b, char sign, const char *text, const char *other) {
        for (const char *line = text, *end; *line; line = end) {
                _cleanup_free_ char *copy = NULL, *wanted = NULL;
                const char *found;

                end = strchr(line, '\n') + 1;
                ASSERT_EQ_INT(str_printf(&copy, "%.*s", (int) (end - line), line), 0);
                ASSERT_EQ_INT(str_printf(&wanted, "\n%s", copy), 0);
                found = strncmp(other, copy, strlen(copy)) == 0 ? other : strstr(other, wanted);
                if (!found)
                        ASSERT_EQ_INT(buffer_printf(b, "%c%s", sign, copy), 0);
        }
}

static char* difference(const UnitInput *run, const UnitInput *other) {
        _cleanup_free_ char *a = print(run), *b = print(other);
        Buffer result = BUFFER_INIT(0);
        char *text = NULL;

        subtract(&result, '-', a, b);
        subtract(&result, '+', b, a);
        ASSERT_EQ_INT(buffer_append_str(&result, ""), 0);
        ASSERT_EQ_INT(buffer_steal(&result, &text, NULL), 0);
        return text;
}

TEST(parse_has_every_wall_of_a_run) {
        _cleanup_(settings_freep) Settings *s = settings();

        for (int is_user = 0; is_user <= 1; is_user++) {
                UnitInput run = input(s, WIRE_PROFILE_RUN, is_user);
                UnitInput parse = input(s, WIRE_PROFILE_PARSE, is_user);
                _cleanup_free_ char *text = difference(&run, &parse);

                ASSERT_EQ_STR(text, "-Description=mcp-exec: sandbox of one Python program\n"
                                    "+Description=mcp-exec: reads what a script needs\n");
        }
}

TEST(a_set_is_read_only_and_told_to_init) {
        _cleanup_(settings_freep) Settings *s = settings();

        for (int is_user = 0; is_user <= 1; is_user++) {
                UnitInput run = input(s, WIRE_PROFILE_RUN, is_user), other = run;
                _cleanup_free_ char *text = NULL, *expected = NULL;
                const char *mode = is_user ? "user" : "system";

                other.set = "/var/lib/mcp-exec/sets/aaaa";
                other.leaf = "aaaa";
                text = difference(&run, &other);
                ASSERT_EQ_INT(str_printf(&expected,
                                         "-" INIT "%s" NS "/usr/bin/python3\n"
                                         "+" INIT "%s" NS "--set /env /usr/bin/python3\n"
                                         "+BindReadOnlyPaths=/var/lib/mcp-exec/sets/aaaa:/env\n",
                                         mode, mode), 0);
                ASSERT_EQ_STR(text, expected);
        }
}

TEST(install_on_a_server) {
        _cleanup_(settings_freep) Settings *s = settings();
        UnitInput run = input(s, WIRE_PROFILE_RUN, false), install = input(s, WIRE_PROFILE_INSTALL, false);
        _cleanup_free_ char *text = difference(&run, &install);

        ASSERT_EQ_STR(text, "-Description=mcp-exec: sandbox of one Python program\n"
                            "-" INIT "system" NS "/usr/bin/python3\n"
                            "-DynamicUser=yes\n"
                            "-TemporaryFileSystem=/var/zz/tmp" TMPFS_OPTIONS SHM_AND_RUN
                            "-SystemCallFilter=~syncfs\n"
                            "-LimitFSIZE=1073741824\n"
                            "+Description=mcp-exec: installs packages\n"
                            "+" INIT "system" NS "--profile install /usr/bin/python3\n"
                            "+User=mcp-exec-prepare\n"
                            "+PrivateUsers=yes\n"
                            "+ProtectSystem=strict\n"
                            "+StateDirectory=mcp-exec/sets/" LEAF "\n"
                            "+StateDirectoryMode=0755\n"
                            "+BindPaths=/sets/" LEAF ":/env\n"
                            "+TemporaryFileSystem=/tmp" TMPFS_OPTIONS SETS_TMPFS
                            "+LimitFSIZE=4294967296\n");
}

TEST(fetch_on_a_server) {
        _cleanup_(settings_freep) Settings *s = settings();
        UnitInput run = input(s, WIRE_PROFILE_RUN, false), fetch = input(s, WIRE_PROFILE_FETCH, false);
        _cleanup_free_ char *text = difference(&run, &fetch);

        ASSERT_EQ_STR(text, "-Description=mcp-exec: sandbox of one Python program\n"
                            "-" INIT "system" NS "/usr/bin/python3\n"
                            "-UnsetEnvironment=CREDENTIALS_DIRECTORY " UNSET
                            "-DynamicUser=yes\n"
                            "-" BINDS "\n"
                            "-TemporaryFileSystem=/var/zz/tmp" TMPFS_OPTIONS SHM_AND_RUN
                            "-InaccessiblePaths=-+/sys -+/dev/pts -+/dev/ptmx\n"
                            "-PrivateNetwork=yes\n"
                            "-RestrictAddressFamilies=none\n"
                            "-SystemCallFilter=~syncfs\n"
                            "-LimitFSIZE=1073741824\n"
                            "+Description=mcp-exec: fetches packages\n"
                            "+" INIT "system" NS "--profile fetch /usr/bin/python3\n"
                            "+UnsetEnvironment=" UNSET
                            "+User=mcp-exec-prepare\n"
                            "+PrivateUsers=yes\n"
                            "+ProtectSystem=strict\n"
                            "+" BINDS NETWORK_BINDS "\n"
                            "+BindReadOnlyPaths=" NSSWITCH "\n"
                            "+StateDirectory=mcp-exec/sets/" LEAF "\n"
                            "+StateDirectoryMode=0755\n"
                            "+BindPaths=/sets/" LEAF ":/env\n"
                            "+TemporaryFileSystem=/tmp" TMPFS_OPTIONS SETS_TMPFS
                            "+InaccessiblePaths=-+/sys -+/dev/pts -+/dev/ptmx -+/etc/ssl/private "
                            "-+/etc/pki/tls/private\n"
                            "+RestrictAddressFamilies=AF_INET AF_INET6\n"
                            "+LimitFSIZE=4294967296\n");
}

TEST(a_user_has_no_other_user_to_be) {
        _cleanup_(settings_freep) Settings *s = settings();
        UnitInput run = input(s, WIRE_PROFILE_RUN, true), install = input(s, WIRE_PROFILE_INSTALL, true),
                  fetch = input(s, WIRE_PROFILE_FETCH, true);
        _cleanup_free_ char *text = difference(&run, &install), *from_fetch = difference(&install, &fetch);

        ASSERT_EQ_STR(text, "-Description=mcp-exec: sandbox of one Python program\n"
                            "-" INIT "user" NS "/usr/bin/python3\n"
                            "-SystemCallFilter=~syncfs\n"
                            "-LimitFSIZE=1073741824\n"
                            "+Description=mcp-exec: installs packages\n"
                            "+" INIT "user" NS "--profile install /usr/bin/python3\n"
                            "+BindPaths=/sets/" LEAF ":/env\n"
                            "+LimitFSIZE=4294967296\n");
        ASSERT_EQ_STR(from_fetch, "-Description=mcp-exec: installs packages\n"
                                  "-" INIT "user" NS "--profile install /usr/bin/python3\n"
                                  "-UnsetEnvironment=CREDENTIALS_DIRECTORY " UNSET
                                  "-" BINDS "\n"
                                  "-InaccessiblePaths=-+/sys -+/dev/pts -+/dev/ptmx\n"
                                  "-PrivateNetwork=yes\n"
                                  "-RestrictAddressFamilies=none\n"
                                  "+Description=mcp-exec: fetches packages\n"
                                  "+" INIT "user" NS "--profile fetch /usr/bin/python3\n"
                                  "+UnsetEnvironment=" UNSET
                                  "+" BINDS NETWORK_BINDS "\n"
                                  "+BindReadOnlyPaths=" NSSWITCH "\n"
                                  "+InaccessiblePaths=-+/sys -+/dev/pts -+/dev/ptmx -+/etc/ssl/private "
                                  "-+/etc/pki/tls/private\n"
                                  "+RestrictAddressFamilies=AF_INET AF_INET6\n");
}

TEST(tools_and_credentials_go_where_they_are_needed) {
        static const char *const expected[_WIRE_PROFILE_MAX] = {
                [WIRE_PROFILE_RUN] = "",
                [WIRE_PROFILE_PARSE] = "+BindReadOnlyPaths=/opt/uv/uv:/var/lib/mcp-exec/uv\n",
                [WIRE_PROFILE_FETCH] = "-BindReadOnlyPaths=" NSSWITCH "\n"
                                       "+BindReadOnlyPaths=/opt/uv/uv:/var/lib/mcp-exec/uv " NSSWITCH
                                       " /etc/ca.pem:/etc/ca-bundle.pem\n"
                                       "+LoadCredential=index-credentials:/etc/netrc\n",
                [WIRE_PROFILE_INSTALL] = "+BindReadOnlyPaths=/opt/uv/uv:/var/lib/mcp-exec/uv\n",
        };
        _cleanup_(settings_freep) Settings *s = settings();

        for (unsigned i = 0; i < _WIRE_PROFILE_MAX; i++)
                for (int is_user = 0; is_user <= 1; is_user++) {
                        UnitInput without = input(s, (WireProfile) i, is_user), with = without;
                        _cleanup_free_ char *text = NULL;

                        with.uv = "/opt/uv/uv";
                        with.ca_bundle = "/etc/ca.pem";
                        with.index_credentials = "/etc/netrc";
                        text = difference(&without, &with);
                        ASSERT_EQ_STR(text, expected[i]);
                }
}

TEST(each_profile_has_limits_of_its_own) {
        _cleanup_(settings_freep) Settings *s = settings();
        WireLimits parse, fetch, install;

        ASSERT_EQ_INT(settings_set(s, "Packages", "PrepareMemoryMax", "3G", &(char*) { NULL }), 0);
        ASSERT_EQ_INT(settings_set(s, "Packages", "PrepareTasksMax", "99", &(char*) { NULL }), 0);
        ASSERT_EQ_INT(settings_set(s, "Packages", "PrepareTimeoutSec", "20s", &(char*) { NULL }), 0);
        parse = limits_ceiling(s, WIRE_PROFILE_PARSE);
        fetch = limits_ceiling(s, WIRE_PROFILE_FETCH);
        install = limits_ceiling(s, WIRE_PROFILE_INSTALL);

        ASSERT_EQ_UINT(parse.memory_max_bytes, 256 * MIB);
        ASSERT_EQ_UINT(parse.tasks_max, 16);
        ASSERT_EQ_UINT(parse.runtime_max_usec, 60 * USEC_PER_SEC);
        ASSERT_EQ_UINT(parse.cpu_quota_per_sec_usec, USEC_PER_SEC);
        ASSERT_EQ_UINT(fetch.memory_max_bytes, UINT64_C(3) << 30);
        ASSERT_EQ_UINT(fetch.tasks_max, 99);
        ASSERT_EQ_UINT(fetch.runtime_max_usec, 80 * USEC_PER_SEC);
        ASSERT_EQ_UINT(fetch.cpu_quota_per_sec_usec, 2 * USEC_PER_SEC);
        ASSERT_EQ_MEM(&install, sizeof(install), &fetch, sizeof(fetch));

        /* What a run may not have, PARSE may not either; who gives a run more CPUs, gives them here. */
        ASSERT_EQ_INT(settings_set(s, "Sandbox", "MemoryMax", "100M", &(char*) { NULL }), 0);
        ASSERT_EQ_INT(settings_set(s, "Sandbox", "TasksMax", "9", &(char*) { NULL }), 0);
        ASSERT_EQ_INT(settings_set(s, "Sandbox", "CPUQuota", "400%", &(char*) { NULL }), 0);
        parse = limits_ceiling(s, WIRE_PROFILE_PARSE);
        ASSERT_EQ_UINT(parse.memory_max_bytes, 100 * MIB);
        ASSERT_EQ_UINT(parse.tasks_max, 9);
        ASSERT_EQ_UINT(limits_ceiling(s, WIRE_PROFILE_INSTALL).cpu_quota_per_sec_usec, 4 * USEC_PER_SEC);
}

TEST(profiles_have_names) {
        for (unsigned i = 0; i < _WIRE_PROFILE_MAX; i++)
                ASSERT_EQ_INT(profile_from_string(profile_to_string((WireProfile) i)), i);
        ASSERT_EQ_STR(profile_to_string(WIRE_PROFILE_FETCH), "fetch");
        ASSERT_TRUE(profile_to_string(_WIRE_PROFILE_MAX) == NULL);
        ASSERT_EQ_INT(profile_from_string("Run"), _WIRE_PROFILE_MAX);
        ASSERT_EQ_INT(profile_from_string(""), _WIRE_PROFILE_MAX);
}
