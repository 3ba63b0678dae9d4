/* SPDX-License-Identifier: MIT */

#include "base/settings.h"

#include <inttypes.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/settings-words.h"
#include "base/strv.h"
#include "config.h"
#include "files.h"
#include "settings-rows.h"
#include "test.h"
#include "wire/wire.h"

static void forget_variables(void) {
        static const char *const names[] = {
                "MCP_EXEC_TRANSPORT",
                "MCP_EXEC_ADDR",
                "MCP_EXEC_DEFAULT_TIMEOUT_S",
                "MCP_EXEC_MAX_TIMEOUT_S",
                "MCP_EXEC_MAX_OUTPUT_BYTES",
                "MCP_EXEC_MAX_STDIN_BYTES",
                "MCP_EXEC_PYTHON",
                "MCP_EXEC_AUTH_TOKEN",
                "CREDENTIALS_DIRECTORY",
        };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                (void) unsetenv(names[i]);
}

static Settings* defaults(void) {
        Settings *s = NULL;

        ASSERT_EQ_INT(settings_new_default(&s), 0);
        return s;
}

typedef struct Wanted {
        const char *key;
        char *value;
} Wanted;

static int find_value(const char *section, const char *key, const char *value, void *userdata) {
        Wanted *w = userdata;

        (void) section;
        return streq(key, w->key) ? str_copy(&w->value, value) : 0;
}

static void check_value(const Settings *s, const char *key, const char *expected) {
        Wanted w = { .key = key };

        ASSERT_EQ_INT(settings_foreach(s, find_value, &w), 0);
        if (!streq_ptr(w.value, expected))
                FAIL("%s= is \"%s\", expected \"%s\"", key, w.value, expected);
        free(w.value);
}

static int check_is_covered(const char *section, const char *key, const char *value, void *userdata) {
        unsigned *n = userdata;

        (*n)++;
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (streq(rows[i].section, section) && streq(rows[i].key, key)) {
                        ASSERT_EQ_STR(value, rows[i].default_value);
                        return 0;
                }
        FAIL("no row for [%s] %s=", section, key);
}

TEST(settings_have_the_documented_defaults_and_every_key_is_tested_here) {
        _cleanup_(settings_freep) Settings *s = defaults();
        unsigned n = 0;

        ASSERT_EQ_INT(settings_foreach(s, check_is_covered, &n), 0);
        ASSERT_EQ_UINT(n, ELEMENTSOF(rows));
        ASSERT_EQ_INT(s->transport, TRANSPORT_STDIO);
        ASSERT_EQ_STR(s->auth_token, NULL);
        ASSERT_FALSE(s->has_output_limit_override);
}

TEST(settings_defaults_are_the_predecessors_numbers) {
        _cleanup_(settings_freep) Settings *s = defaults();

        ASSERT_EQ_UINT(s->default_timeout_usec, 30 * USEC_PER_SEC);
        ASSERT_EQ_UINT(s->max_timeout_usec, 300 * USEC_PER_SEC);
        ASSERT_EQ_UINT(s->max_output_bytes, MIB);
        ASSERT_EQ_UINT(s->max_stdin_bytes, MIB);
        ASSERT_EQ_UINT(s->max_reply_chars, 40000);
        ASSERT_EQ_UINT(s->memory_max_bytes, 512 * MIB);
        ASSERT_EQ_UINT(s->tasks_max, 128);
        ASSERT_EQ_UINT(s->cpu_quota_percent, 100);
        ASSERT_EQ_UINT(s->tmpfs_bytes, 64 * MIB);
        ASSERT_EQ_UINT(s->require_controllers, CONTROLLER_MEMORY | CONTROLLER_PIDS | CONTROLLER_CPU);
}

TEST(settings_take_good_values_of_every_key) {
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_(settings_freep) Settings *s = defaults();
                _cleanup_free_ char *reason = NULL;

                if (settings_set(s, rows[i].section, rows[i].key, rows[i].good, &reason) != 0)
                        FAIL("%s", reason);
                check_value(s, rows[i].key, rows[i].good_shown ? rows[i].good_shown : rows[i].good);
        }
}

TEST(hosts_packages_and_moments_in_each_of_their_forms) {
        static const struct {
                const char *key, *good, *bad;
        } cases[] = {
                { "AllowedHosts", "::1", "::g" },
                { "AllowedHosts", "[::1]:80", "10.0.0.0/8" },
                { "PythonMirror", "https://m.example:443/a?b=c", "https://m.example:/a" },
                { "DenyPackages", "a_B.c-*", "a." },
                { "ExcludeNewer", "2024-02-29", "2100-02-29" },
                { "ExcludeNewer", "2026-12-31T23:59:59.123456789+14:00", "2026-12-31T24:00:00Z" },
                { "ExcludeNewer", "P30D", "2026-12-31Z" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(settings_freep) Settings *s = defaults();
                const char *section = streq(cases[i].key, "AllowedHosts") ? "Server" : "Packages";
                _cleanup_free_ char *reason = NULL;

                if (settings_set(s, section, cases[i].key, cases[i].good, &reason) != 0)
                        FAIL("%s=: %s", cases[i].key, reason);
                if (settings_set(s, section, cases[i].key, cases[i].bad, &reason) != -EINVAL)
                        FAIL("%s=%s was taken", cases[i].key, cases[i].bad);
        }
}

TEST(hosts_are_what_the_program_that_connects_to_them_takes_them_for) {
        static const struct {
                Kind kind;
                const char *word;
                int expected;
        } cases[] = {
#define DESTINATION(word, host, port) { KIND_DESTINATIONS, word, 0 },
#define NO_DESTINATION(word) { KIND_DESTINATIONS, word, -EINVAL },
#define PLACE(url, host, port) { KIND_URL, url, 0 },
#define NO_PLACE(url) { KIND_URL, url, -EINVAL },
#include "host-words.inc"
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *reason = NULL;

                if (settings_check_word(cases[i].kind, cases[i].word, &reason) != cases[i].expected)
                        FAIL("\"%s\": %s", cases[i].word, reason ?: "was taken");
        }
}

TEST(settings_refuse_bad_values_with_file_line_and_key) {
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                for (size_t k = 0; k < ELEMENTSOF(rows[i].bad) && rows[i].bad[k]; k++) {
                        _cleanup_free_ char *text = NULL, *message = NULL, *expected = NULL;
                        _cleanup_tree_ char *tree = make_tree();
                        _cleanup_(settings_freep) Settings *s = NULL;

                        forget_variables();
                        ASSERT_EQ_INT(str_printf(&text, "# comment\n[%s]\n%s=%s\n", rows[i].section,
                                                 rows[i].key, rows[i].bad[k]),
                                      0);
                        put_file(tree, "mcp-exec.conf", text);
                        if (settings_load_from((const char*[]) { tree, NULL }, &s, &message) != -EBADMSG)
                                FAIL("%s=%s was taken", rows[i].key, rows[i].bad[k]);
                        ASSERT_EQ_INT(str_printf(&expected, "%s/mcp-exec.conf:3: %s=: ", tree, rows[i].key),
                                      0);
                        ASSERT_EQ_INT(strncmp(message, expected, strlen(expected)), 0);
                        ASSERT_TRUE(strlen(message) > strlen(expected));
                        ASSERT_TRUE(s == NULL);
                }
}

TEST(settings_say_what_would_be_right) {
        _cleanup_(settings_freep) Settings *s = defaults();
        _cleanup_free_ char *range = NULL, *shape = NULL;

        ASSERT_EQ_INT(settings_set(s, "Sandbox", "MemoryMax", "16M", &range), -EINVAL);
        ASSERT_EQ_STR(range, "MemoryMax=: 16M is out of range, 32M to 16T");
        ASSERT_EQ_INT(settings_set(s, "Exec", "PoolIdleSec", "soon", &shape), -EINVAL);
        ASSERT_EQ_STR(shape, "PoolIdleSec=: \"soon\" is not a time such as 30s or 5min");
        check_value(s, "MemoryMax", "512M"); /* nothing changed */
}

TEST(settings_refuse_unknown_keys_and_sections) {
        _cleanup_(settings_freep) Settings *s = defaults();
        _cleanup_free_ char *key = NULL, *section = NULL, *moved = NULL;

        ASSERT_EQ_INT(settings_set(s, "Exec", "Frobnicate", "1", &key), -EINVAL);
        ASSERT_EQ_STR(key, "unknown key Frobnicate= in section [Exec]");
        ASSERT_EQ_INT(settings_set(s, "Nowhere", "Frobnicate", "1", &section), -EINVAL);
        ASSERT_EQ_STR(section, "unknown section [Nowhere]");
        ASSERT_EQ_INT(settings_set(s, "Exec", "MemoryMax", "1G", &moved), -EINVAL);
        ASSERT_EQ_STR(moved, "MemoryMax= belongs to section [Sandbox]");
}

TEST(settings_lists_replace_the_default_then_append_then_clear) {
        _cleanup_(settings_freep) Settings *s = defaults();
        _cleanup_free_ char *reason = NULL;

        ASSERT_EQ_INT(settings_set(s, "Server", "AllowGroups", "a b", &reason), 0);
        check_value(s, "AllowGroups", "a b");
        ASSERT_EQ_INT(settings_set(s, "Server", "AllowGroups", "b c", &reason), 0);
        check_value(s, "AllowGroups", "a b c");
        ASSERT_EQ_INT(settings_set(s, "Server", "AllowGroups", "", &reason), 0);
        check_value(s, "AllowGroups", "");
        ASSERT_EQ_INT(settings_set(s, "Server", "AllowGroups", "d", &reason), 0);
        check_value(s, "AllowGroups", "d");
}

TEST(settings_require_controllers_always_replaces) {
        _cleanup_(settings_freep) Settings *s = defaults();
        _cleanup_free_ char *reason = NULL;

        ASSERT_EQ_INT(settings_set(s, "Sandbox", "RequireControllers", "cpu", &reason), 0);
        ASSERT_EQ_INT(settings_set(s, "Sandbox", "RequireControllers", "pids memory", &reason), 0);
        ASSERT_EQ_UINT(s->require_controllers, CONTROLLER_MEMORY | CONTROLLER_PIDS);
        ASSERT_EQ_INT(settings_set(s, "Sandbox", "RequireControllers", "", &reason), 0);
        ASSERT_EQ_UINT(s->require_controllers, 0);
}

TEST(settings_empty_assignment_restores_a_default) {
        _cleanup_(settings_freep) Settings *s = defaults();
        _cleanup_free_ char *reason = NULL;

        ASSERT_EQ_INT(settings_set(s, "Sandbox", "MemoryMax", "1G", &reason), 0);
        ASSERT_EQ_INT(settings_set(s, "Sandbox", "MemoryMax", "", &reason), 0);
        check_value(s, "MemoryMax", "512M");

        /* A default again, it follows the maximum as one. */
        ASSERT_EQ_INT(settings_set(s, "Exec", "DefaultTimeoutSec", "20s", &reason), 0);
        ASSERT_EQ_INT(settings_set(s, "Exec", "DefaultTimeoutSec", "", &reason), 0);
        ASSERT_EQ_INT(settings_set(s, "Exec", "MaxTimeoutSec", "10s", &reason), 0);
        check_value(s, "DefaultTimeoutSec", "10s");
}

TEST(settings_refuse_endless_lists) {
        _cleanup_(settings_freep) Settings *s = defaults();
        _cleanup_buffer_ Buffer words = BUFFER_INIT(0);
        _cleanup_free_ char *reason = NULL;

        for (int i = 0; i < 65; i++)
                ASSERT_EQ_INT(buffer_printf(&words, "u%d ", i), 0);
        ASSERT_EQ_INT(settings_set(s, "Server", "AllowUsers", words.data, &reason), -EINVAL);
        ASSERT_EQ_STR(reason, "AllowUsers=: more than 64 entries");
        check_value(s, "AllowUsers", "");
}

/* Loads from TREE/etc over TREE/lib. */
static Settings* load(const char *tree, const char *expected_message) {
        _cleanup_free_ char *etc = NULL, *lib = NULL, *message = NULL;
        Settings *s = NULL;
        int r;

        ASSERT_EQ_INT(str_printf(&etc, "%s/etc", tree), 0);
        ASSERT_EQ_INT(str_printf(&lib, "%s/lib", tree), 0);
        r = settings_load_from((const char*[]) { etc, lib, NULL }, &s, &message);
        ASSERT_EQ_STR(message, expected_message);
        ASSERT_EQ_INT(r, expected_message ? -EBADMSG : 0);
        return s;
}

TEST(settings_refuse_fewer_tasks_than_uv_needs_on_this_machine) {
        _cleanup_(settings_freep) Settings *s = defaults();
        uint64_t n_needed = 64 + (uint64_t) sysconf(_SC_NPROCESSORS_ONLN);
        char value[32], message[128];

        ASSERT_EQ_UINT(settings_prepare_tasks_max(s), MAX_OF(UINT64_C(512), n_needed));
        for (int missing = 1; missing >= 0; missing--) {
                _cleanup_free_ char *reason = NULL;

                (void) snprintf(value, sizeof(value), "%" PRIu64, n_needed - (uint64_t) missing);
                ASSERT_EQ_INT(settings_set(s, "Packages", "PrepareTasksMax", value, &reason), 0);
                ASSERT_EQ_INT(settings_verify(s, &reason), missing ? -EBADMSG : 0);
                (void) snprintf(message, sizeof(message),
                                "PrepareTasksMax=: %" PRIu64 " is less than uv needs here, which is %" PRIu64
                                " (64, and one for each CPU)", n_needed - 1, n_needed);
                ASSERT_EQ_STR(reason, missing ? message : NULL);
                ASSERT_EQ_UINT(settings_prepare_tasks_max(s), n_needed - (uint64_t) missing);
        }
}

TEST(settings_precedence_is_default_lib_etc_drop_in_variable) {
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_(settings_freep) Settings *s = NULL;

        forget_variables();
        put_file(tree, "lib/mcp-exec.conf", "[Exec]\nQueueMax=1\nPoolSize=1\n");
        put_file(tree, "lib/mcp-exec.conf.d/10-lib.conf",
                 "[Exec]\nMaxStdinBytes=1K\nMaxCodeBytes=2K\nQueueMaxPerUser=3\n");
        put_file(tree, "etc/mcp-exec.conf", "[Exec]\nQueueMax=2\nMaxStdinBytes=9K\n");
        put_file(tree, "etc/mcp-exec.conf.d/20-etc.conf", "[Exec]\nQueueMaxPerUser=4\nMaxOutputBytes=5K\n");
        (void) setenv("MCP_EXEC_MAX_OUTPUT_BYTES", "6144", 1);
        s = load(tree, NULL);
        forget_variables();
        ASSERT_EQ_UINT(s->queue_max, 2);              /* /etc hides /usr/lib … */
        check_value(s, "MaxStdinBytes", "1K");        /* … but a drop-in of either comes after it */
        check_value(s, "MaxCodeBytes", "2K");
        ASSERT_EQ_UINT(s->queue_max_per_user, 4);     /* by name: 20 after 10 */
        check_value(s, "MaxOutputBytes", "6K");
        ASSERT_EQ_UINT(s->max_connections, 256);
}

TEST(settings_variables_set_what_the_predecessors_did) {
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_(settings_freep) Settings *s = NULL;

        forget_variables();
        (void) setenv("MCP_EXEC_TRANSPORT", "http", 1);
        (void) setenv("MCP_EXEC_ADDR", ":8080", 1);
        (void) setenv("MCP_EXEC_DEFAULT_TIMEOUT_S", "5", 1);
        (void) setenv("MCP_EXEC_MAX_TIMEOUT_S", "7", 1);
        (void) setenv("MCP_EXEC_MAX_OUTPUT_BYTES", "1024", 1);
        (void) setenv("MCP_EXEC_MAX_STDIN_BYTES", "2000", 1);
        (void) setenv("MCP_EXEC_PYTHON", "python3.12", 1);
        (void) setenv("MCP_EXEC_AUTH_TOKEN", " s3cret\n", 1);
        s = load(tree, NULL);
        forget_variables();
        ASSERT_EQ_INT(s->transport, TRANSPORT_HTTP);
        ASSERT_EQ_STR(s->listen_address, ":8080");
        ASSERT_EQ_UINT(s->default_timeout_usec, 5 * USEC_PER_SEC);
        ASSERT_EQ_UINT(s->max_timeout_usec, 7 * USEC_PER_SEC);
        ASSERT_EQ_UINT(s->max_output_bytes, 1024);
        ASSERT_TRUE(s->has_output_limit_override);
        ASSERT_EQ_UINT(s->max_stdin_bytes, 2000);
        ASSERT_EQ_STR(s->python, "python3.12");
        ASSERT_EQ_STR(s->auth_token, "s3cret");
}

TEST(settings_empty_variables_count_as_not_set) {
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_(settings_freep) Settings *s = NULL;

        forget_variables();
        (void) setenv("MCP_EXEC_TRANSPORT", "", 1);
        (void) setenv("MCP_EXEC_MAX_OUTPUT_BYTES", "", 1);
        (void) setenv("MCP_EXEC_AUTH_TOKEN", " \n", 1);
        s = load(tree, NULL);
        forget_variables();
        ASSERT_EQ_INT(s->transport, TRANSPORT_STDIO);
        ASSERT_FALSE(s->has_output_limit_override);
        ASSERT_EQ_STR(s->auth_token, NULL);
}

TEST(settings_refuse_bad_variables_by_name_and_never_show_a_token) {
        static const struct {
                const char *name, *value, *message;
        } bad[] = {
                { "MCP_EXEC_TRANSPORT", "tcp", "MCP_EXEC_TRANSPORT: must be stdio, http or sse" },
                { "MCP_EXEC_ADDR", "8080", "MCP_EXEC_ADDR: must be HOST:PORT, [IPv6]:PORT or :PORT" },
                { "MCP_EXEC_ADDR", ":65536", "MCP_EXEC_ADDR: must be HOST:PORT, [IPv6]:PORT or :PORT" },
                { "MCP_EXEC_DEFAULT_TIMEOUT_S", "1m", "MCP_EXEC_DEFAULT_TIMEOUT_S: not a whole number" },
                { "MCP_EXEC_MAX_TIMEOUT_S", "0",
                  "MCP_EXEC_MAX_TIMEOUT_S: MaxTimeoutSec=: 0s is out of range, 1s to 20h" },
                { "MCP_EXEC_MAX_OUTPUT_BYTES", "-1", "MCP_EXEC_MAX_OUTPUT_BYTES: not a whole number" },
                { "MCP_EXEC_MAX_STDIN_BYTES", "1M", "MCP_EXEC_MAX_STDIN_BYTES: not a whole number" },
                { "MCP_EXEC_PYTHON", "a b",
                  "MCP_EXEC_PYTHON: Python=: \"a b\" is neither a program's name nor its absolute path" },
                { "MCP_EXEC_AUTH_TOKEN", "hidden word",
                  "MCP_EXEC_AUTH_TOKEN: the token has characters other than visible ASCII" },
        };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                _cleanup_tree_ char *tree = make_tree();

                forget_variables();
                (void) setenv(bad[i].name, bad[i].value, 1);
                ASSERT_TRUE(load(tree, bad[i].message) == NULL);
                forget_variables();
        }
}

TEST(settings_read_the_token_from_a_credential_and_fail_closed) {
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_(settings_freep) Settings *file = NULL, *variable = NULL, *absent = NULL;

        forget_variables();
        put_file(tree, "auth-token", "from-file\n");
        (void) setenv("CREDENTIALS_DIRECTORY", tree, 1);
        file = load(tree, NULL);
        ASSERT_EQ_STR(file->auth_token, "from-file");
        (void) setenv("MCP_EXEC_AUTH_TOKEN", "from-variable", 1);
        variable = load(tree, NULL);
        ASSERT_EQ_STR(variable->auth_token, "from-variable");

        forget_variables();
        (void) setenv("CREDENTIALS_DIRECTORY", tree, 1);
        put_bytes(tree, "auth-token", "a\0b", 3);
        ASSERT_TRUE(load(tree, MCP_EXEC_SYSCONFDIR "/auth-token (credential auth-token): cannot be read as "
                               "a text file of at most 4096 bytes") == NULL);
        put_file(tree, "auth-token", "two words\n");
        ASSERT_TRUE(load(tree, MCP_EXEC_SYSCONFDIR "/auth-token (credential auth-token): the token has "
                               "characters other than visible ASCII") == NULL);

        (void) setenv("CREDENTIALS_DIRECTORY", "/nonexistent", 1);
        absent = load(tree, NULL);
        forget_variables();
        ASSERT_EQ_STR(absent->auth_token, NULL);
}

TEST(settings_http_by_variable_without_an_address_is_port_8080) {
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_(settings_freep) Settings *s = NULL;

        forget_variables();
        (void) setenv("MCP_EXEC_TRANSPORT", "http", 1);
        s = load(tree, NULL);
        forget_variables();
        ASSERT_EQ_STR(s->listen_address, ":8080");
}

TEST(settings_default_timeout_follows_a_lower_maximum_unless_written) {
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_free_ char *message = NULL;
        _cleanup_(settings_freep) Settings *s = NULL;

        forget_variables();
        put_file(tree, "etc/mcp-exec.conf", "[Exec]\nMaxTimeoutSec=10\n");
        s = load(tree, NULL);
        ASSERT_EQ_UINT(s->default_timeout_usec, 10 * USEC_PER_SEC);
        put_file(tree, "etc/mcp-exec.conf", "[Exec]\nMaxTimeoutSec=10\nDefaultTimeoutSec=11\n");
        ASSERT_EQ_INT(str_printf(&message,
                                 "%s/etc/mcp-exec.conf:3: DefaultTimeoutSec=: 11 s is more than "
                                 "MaxTimeoutSec=, which is 10 s: lower the one or raise the other", tree),
                      0);
        ASSERT_TRUE(load(tree, message) == NULL);
        (void) setenv("MCP_EXEC_DEFAULT_TIMEOUT_S", "12", 1);
        ASSERT_TRUE(load(tree, "MCP_EXEC_DEFAULT_TIMEOUT_S: DefaultTimeoutSec=: 12 s is more than "
                               "MaxTimeoutSec=, which is 10 s: lower the one or raise the other") == NULL);
        forget_variables();
}

TEST(settings_verify_keeps_the_seams_bounds) {
        _cleanup_tree_ char *tree = make_tree();

        forget_variables();
        put_file(tree, "etc/mcp-exec.conf",
                 "[Exec]\nMaxParallel=168\nPoolSize=16\nMaxTimeoutSec=20h\nPoolIdleSec=1h\n");
        settings_free(load(tree, NULL));
}

TEST(settings_of_a_user_come_from_its_configuration_home) {
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_free_ char *home = NULL, *message = NULL;
        _cleanup_(settings_freep) Settings *by_xdg = NULL, *by_home = NULL;

        forget_variables();
        put_file(tree, "xdg/mcp-exec/mcp-exec.conf.d/99.conf", "[Exec]\nQueueMax=11\n");
        put_file(tree, ".config/mcp-exec/mcp-exec.conf.d/99.conf", "[Exec]\nQueueMax=12\n");
        ASSERT_EQ_INT(str_printf(&home, "%s/xdg", tree), 0);
        (void) setenv("HOME", tree, 1);
        (void) setenv("XDG_CONFIG_HOME", home, 1);
        ASSERT_EQ_INT(settings_load(/* is_user= */ true, &by_xdg, &message), 0);
        ASSERT_EQ_UINT(by_xdg->queue_max, 11);
        (void) setenv("XDG_CONFIG_HOME", "relative", 1); /* to be ignored, says the specification */
        ASSERT_EQ_INT(settings_load(/* is_user= */ true, &by_home, &message), 0);
        ASSERT_EQ_UINT(by_home->queue_max, 12);
        (void) unsetenv("XDG_CONFIG_HOME");
}

TEST(settings_parallel_is_never_zero_and_obeys) {
        _cleanup_(settings_freep) Settings *s = defaults();

        ASSERT_TRUE(settings_parallel(s) >= 1 && settings_parallel(s) <= 128);
        s->max_parallel = 3;
        ASSERT_EQ_UINT(settings_parallel(s), 3);
}

/* base/ may not include wire/, so it repeats numbers of the seam. */
TEST(settings_bounds_are_the_seams) {
        _cleanup_(settings_freep) Settings *s = defaults();
        _cleanup_free_ char *reason = NULL, *value = NULL, *less = NULL;

        ASSERT_EQ_INT(str_printf(&value, "%" PRIu64, (uint64_t) WIRE_MEMORY_BYTES_MIN), 0);
        ASSERT_EQ_INT(str_printf(&less, "%" PRIu64, (uint64_t) WIRE_MEMORY_BYTES_MIN - 1), 0);
        ASSERT_EQ_INT(settings_set(s, "Sandbox", "MemoryMax", value, &reason), 0);
        ASSERT_EQ_INT(settings_set(s, "Sandbox", "MemoryMax", less, &reason), -EINVAL);
        free(TAKE_PTR(reason));

        free(TAKE_PTR(value));
        free(TAKE_PTR(less));
        ASSERT_EQ_INT(str_printf(&value, "%d", WIRE_TASKS_MIN), 0);
        ASSERT_EQ_INT(str_printf(&less, "%d", WIRE_TASKS_MIN - 1), 0);
        ASSERT_EQ_INT(settings_set(s, "Sandbox", "TasksMax", value, &reason), 0);
        ASSERT_EQ_INT(settings_set(s, "Sandbox", "TasksMax", less, &reason), -EINVAL);
        free(TAKE_PTR(reason));

        s->max_timeout_usec = WIRE_RUNTIME_USEC_MAX - s->pool_idle_usec - 60 * USEC_PER_SEC;
        ASSERT_EQ_INT(settings_verify(s, &reason), 0);
        s->max_timeout_usec++;
        ASSERT_EQ_INT(settings_verify(s, &reason), -EBADMSG);
}
