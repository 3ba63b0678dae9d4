/* SPDX-License-Identifier: MIT */

/* The remedies for the units, from what systemctl shows. tests/system/test_repair.py tries their effect. */

#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/macro.h"
#include "base/strv.h"
#include "server/system-socket.h"
#include "server/system-units.h"
#include "test.h"

typedef struct State {
        const char *load, *active, *result, *enabled;
} State;

#define UP { "loaded", "active", "success", "enabled" }
#define DOWN { "loaded", "inactive", "success", "static" }
#define UNUSED { "loaded", "inactive", "success", "disabled" }

/* As systemctl prints them. */
static void show(SystemUnits *u, const State states[_SYSTEM_UNIT_MAX], const char *listen) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

        for (size_t i = 0; i < _SYSTEM_UNIT_MAX; i++) {
                const State *s = &states[i];

                ASSERT_EQ_INT(buffer_printf(&b, "%s%sLoadState=%s\nActiveState=%s\nResult=%s\n"
                                                "UnitFileState=%s\n",
                                            i > 0 ? "\n" : "", i == SYSTEM_UNIT_HTTP_SOCKET ? listen : "",
                                            s->load, s->active, s->result, s->enabled), 0);
        }
        system_units_parse(u, b.data);
        ASSERT_TRUE(u->is_known);
}

static const char* repair(const State states[_SYSTEM_UNIT_MAX], bool as_root) {
        static char text[1024];
        _cleanup_free_ char *remedy = NULL;
        SystemUnits u;

        show(&u, states, "");
        ASSERT_EQ_INT(system_units_repair(&u, &(SystemUnitsSymptoms) {}, as_root, &remedy), 0);
        (void) snprintf(text, sizeof(text), "%s", remedy ?: "nothing");
        return text;
}

TEST(units_as_they_should_be_need_nothing) {
        ASSERT_EQ_STR(repair((State[]) { UP, UP, DOWN, DOWN, UNUSED, UNUSED }, true), "nothing");
        /* Not the other way round: where nothing has been said there is nothing to be known. */
        SystemUnits u;
        char nothing[] = "";

        system_units_parse(&u, nothing);
        ASSERT_FALSE(u.is_known);
}

TEST(each_command_of_a_line_has_its_sudo) {
        ASSERT_EQ_STR(repair((State[]) { { "masked", "inactive", "success", "masked" },
                                         { "masked", "failed", "signal", "masked-runtime" },
                                         DOWN, DOWN, UNUSED, UNUSED }, false),
                      "sudo systemctl unmask mcp-exec.socket && sudo systemctl unmask --runtime "
                      "mcp-exec.service && sudo systemctl reset-failed mcp-exec.service && "
                      "sudo systemctl restart mcp-exec.socket");
}

TEST(a_service_that_was_killed_too_often_is_not_one_that_cannot_be_started) {
        static const char *const ended[] = { "signal", "core-dump", "oom-kill", "watchdog" };
        State states[] = { { "loaded", "failed", "trigger-limit-hit", "enabled" },
                           { "loaded", "failed", "", "indirect" }, DOWN, DOWN, UNUSED, UNUSED };

        for (size_t i = 0; i < ELEMENTSOF(ended); i++) {
                _cleanup_free_ char *expected = NULL;

                states[1].result = ended[i];
                ASSERT_EQ_INT(str_printf(&expected,
                                         "mcp-exec.service was started and ended many times in a short "
                                         "time (systemd says: %s), which \"journalctl -u "
                                         "mcp-exec.service\" shows. Once the reason is gone, such as "
                                         "somebody who killed it: "
                                         "\"systemctl reset-failed mcp-exec.socket && systemctl restart "
                                         "mcp-exec.socket\".", ended[i]), 0);
                ASSERT_EQ_STR(repair(states, true), expected);
        }
        states[1].result = "exit-code";
        ASSERT_EQ_STR(repair(states, false),
                      "Find out why mcp-exec.service cannot be started (\"sudo journalctl -u "
                      "mcp-exec.service\") and repair it, then \"sudo systemctl daemon-reload && sudo "
                      "systemctl reset-failed mcp-exec.socket && sudo systemctl restart mcp-exec.socket\".");
        /* One that ended by itself, as it does when it is idle. */
        states[1].active = "inactive";
        states[1].result = "success";
        ASSERT_EQ_STR(repair(states, true),
                      "systemctl reset-failed mcp-exec.socket && systemctl restart mcp-exec.socket");
}

TEST(a_service_that_ends_again_and_again_before_it_serves_is_told_with_what_systemd_says) {
        State states[] = { UP, { "loaded", "activating", "oom-kill", "indirect" }, DOWN, DOWN, UNUSED,
                           UNUSED };
        _cleanup_free_ char *told = NULL, *of_a_start = NULL;
        SystemUnits u;

        show(&u, states, "");
        ASSERT_EQ_INT(system_units_remedy(&u, SYSTEM_SOCKET_E_SILENT, /* as_root= */ false, &told), 0);
        ASSERT_EQ_STR(told, "Find out why mcp-exec.service, which systemd starts again each time, ends "
                            "before it serves (systemd says: oom-kill; \"sudo journalctl -u "
                            "mcp-exec.service\").");
        states[1].result = "success"; /* it starts, and has not been killed */
        show(&u, states, "");
        (void) system_units_remedy(&u, SYSTEM_SOCKET_E_SILENT, /* as_root= */ true, &of_a_start);
        ASSERT_TRUE(!of_a_start || !strstr(of_a_start, "ends before"));
}

TEST(the_launcher_that_was_killed_too_often_is_named_itself) {
        static const State states[] = { UP, UP, { "loaded", "failed", "trigger-limit-hit", "static" },
                                        { "loaded", "failed", "signal", "static" }, UNUSED, UNUSED };

        ASSERT_CONTAINS(repair(states, true),
                        "\"systemctl reset-failed mcp-exec-launcher.socket && systemctl restart "
                        "mcp-exec-launcher.socket\"");
}

/* A restart of the socket is refused while its service runs, and would leave it stopped. */
TEST(a_unit_with_a_mistake_restarts_nothing_before_it_was_looked_at_again) {
        static const State states[] = { UP, UP, DOWN, { "bad-setting", "inactive", "success", "static" },
                                        UNUSED, UNUSED };
        static const char expected[] =
                "Correct mcp-exec-launcher.service: \"systemctl status mcp-exec-launcher.service\" shows "
                "the mistake and \"systemctl cat mcp-exec-launcher.service\" the files. Then \"systemctl "
                "daemon-reload\" and \"mcp-exec check\" again.";

        ASSERT_EQ_STR(repair(states, true), expected);
}

TEST(a_path_with_a_blank_is_one_address) {
        static const State states[] = { UP, UP, DOWN, DOWN, UNUSED, UNUSED };
        SystemUnits u;

        show(&u, states, "Listen=/srv/our data/mcp (1).sock (Stream)\nListen=[::1]:8080 (Stream)\n");
        ASSERT_EQ_STR(u.states[SYSTEM_UNIT_HTTP_SOCKET].listen, "/srv/our data/mcp (1).sock\n[::1]:8080");
        ASSERT_EQ_STR(u.states[SYSTEM_UNIT_PROXY_SOCKET].listen, "");
}

TEST(an_address_that_has_no_room_is_left_out_and_never_cut) {
        static const State states[] = { UP, UP, DOWN, DOWN, UNUSED, UNUSED };
        char listen[512], expected[256];
        SystemUnits u;

        (void) snprintf(listen, sizeof(listen), "Listen=/%0100d (Stream)\nListen=/%0100d (Stream)\n"
                        "Listen=/%0100d (Stream)\nListen=127.0.0.1:80 (Stream)\n", 1, 2, 3);
        (void) snprintf(expected, sizeof(expected), "/%0100d\n/%0100d\n127.0.0.1:80", 1, 2);
        show(&u, states, listen);
        ASSERT_EQ_STR(u.states[SYSTEM_UNIT_HTTP_SOCKET].listen, expected);
}

TEST(what_is_in_the_place_of_a_socket_is_told_from_what_cannot_be_looked_at) {
        char directory[] = "/tmp/mcp-exec-test-XXXXXX", path[64], below[80];

        ASSERT_TRUE(mkdtemp(directory) != NULL);
        (void) snprintf(path, sizeof(path), "%s/x", directory);
        (void) snprintf(below, sizeof(below), "%s/y", path);
        ASSERT_TRUE(system_path_is_away(path));
        ASSERT_FALSE(system_path_is_taken(path, S_IFSOCK));

        ASSERT_EQ_INT(symlink("nowhere", path), 0); /* not there, and in the way all the same */
        ASSERT_FALSE(system_path_is_away(path));
        ASSERT_TRUE(system_path_is_taken(path, S_IFSOCK));
        ASSERT_TRUE(system_path_is_taken(path, S_IFDIR));
        ASSERT_EQ_INT(unlink(path), 0);

        ASSERT_EQ_INT(symlink(".", path), 0);
        ASSERT_FALSE(system_path_is_taken(path, S_IFDIR));
        ASSERT_EQ_INT(unlink(path), 0);

        ASSERT_EQ_INT(mkdir(path, 0700), 0);
        ASSERT_TRUE(system_path_is_taken(path, S_IFSOCK));
        ASSERT_FALSE(system_path_is_taken(path, S_IFDIR));
        ASSERT_TRUE(system_path_is_away(below));
        if (geteuid() == 0) {
                ASSERT_EQ_INT(chmod(directory, 0700), 0);
                ASSERT_EQ_INT(seteuid(65534), 0);
                bool is_away = system_path_is_away(below);
                ASSERT_EQ_INT(seteuid(0), 0);
                ASSERT_FALSE(is_away);
        }
        ASSERT_EQ_INT(rmdir(path), 0);
        ASSERT_EQ_INT(rmdir(directory), 0);
}
