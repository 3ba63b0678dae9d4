/* SPDX-License-Identifier: MIT */

/* systemd refuses much: to start a socket while its service runs, to start anything masked, to start what
 * has failed too often. And much is lost without a word: socket files that somebody removed while their
 * units are active. What is said here was tried in each of these states (tests/system/test_repair.py). */

#include "server/system-units.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/macro.h"
#include "base/strv.h"
#include "config.h"
#include "server/read-command.h"
#include "server/system-socket.h"

#define OUTPUT_BYTES_MAX (64 * KIB)

static const char *const names[_SYSTEM_UNIT_MAX] = {
        [SYSTEM_UNIT_SOCKET] = "mcp-exec.socket",
        [SYSTEM_UNIT_SERVICE] = "mcp-exec.service",
        [SYSTEM_UNIT_LAUNCHER_SOCKET] = "mcp-exec-launcher.socket",
        [SYSTEM_UNIT_LAUNCHER_SERVICE] = "mcp-exec-launcher.service",
        [SYSTEM_UNIT_HTTP_SOCKET] = "mcp-exec-http.socket",
        [SYSTEM_UNIT_PROXY_SOCKET] = "mcp-exec-proxy.socket",
};

/* ---- Asking ---- */

/* "Listen=127.0.0.1:8080 (Stream)", one line for each. */
static void take_address(SystemUnitState *s, const char *address) {
        size_t n = strlen(s->listen);

        (void) snprintf(s->listen + n, sizeof(s->listen) - n, "%s%.*s", n > 0 ? " " : "",
                        (int) strcspn(address, " "), address);
}

static void take_line(SystemUnits *u, SystemUnitState *s, bool is_service, const char *line) {
        const struct {
                const char *key;
                char *field;
                size_t n_bytes;
        } fields[] = {
                { "LoadState=",     s->load,    sizeof(s->load)    },
                { "ActiveState=",   s->active,  sizeof(s->active)  },
                { "Result=",        s->result,  sizeof(s->result)  },
                { "UnitFileState=", s->enabled, sizeof(s->enabled) },
                { "StatusText=",    is_service ? u->status : NULL, sizeof(u->status) },
        };

        for (size_t i = 0; i < ELEMENTSOF(fields); i++)
                if (fields[i].field && strncmp(line, fields[i].key, strlen(fields[i].key)) == 0)
                        (void) snprintf(fields[i].field, fields[i].n_bytes, "%s",
                                        line + strlen(fields[i].key));
        if (strncmp(line, "Listen=", strlen("Listen=")) == 0)
                take_address(s, line + strlen("Listen="));
}

void system_units_parse(SystemUnits *u, char *text) {
        size_t i = 0; /* systemctl answers in our order, with an empty line between two units */

        assert(u);
        assert(text);

        *u = (SystemUnits) {};
        while (text && i < _SYSTEM_UNIT_MAX) {
                const char *line = strsep(&text, "\n");

                if (*line)
                        take_line(u, &u->states[i], i == SYSTEM_UNIT_SERVICE, line);
                else
                        i++;
        }
        u->is_known = *u->states[SYSTEM_UNIT_SOCKET].load;
}

void system_units_read(SystemUnits *ret) {
        const char *argv[_SYSTEM_UNIT_MAX + 4] = {
                "systemctl", "show",
                "--property=LoadState,ActiveState,Result,UnitFileState,StatusText,Listen",
        };
        _cleanup_buffer_ Buffer output = BUFFER_INIT(OUTPUT_BYTES_MAX);

        assert(ret);

        for (size_t i = 0; i < _SYSTEM_UNIT_MAX; i++)
                argv[3 + i] = names[i];
        *ret = (SystemUnits) {};
        if (read_command(argv, &output) >= 0 && output.n_bytes > 0)
                system_units_parse(ret, output.data);
}

const char* system_unit_name(SystemUnit unit) {
        assert(unit < _SYSTEM_UNIT_MAX);
        return names[unit];
}

bool system_unit_is_up(const SystemUnits *u, SystemUnit unit) {
        const char *active;

        assert(u);
        assert(unit < _SYSTEM_UNIT_MAX);

        active = u->states[unit].active;
        return *active && !streq(active, "inactive") && !streq(active, "failed");
}

static bool has_failed(const SystemUnits *u, SystemUnit unit) {
        return streq(u->states[unit].active, "failed");
}

static bool is_masked(const SystemUnits *u, SystemUnit unit) {
        return streq(u->states[unit].load, "masked");
}

static bool is_enabled(const SystemUnits *u, SystemUnit unit) {
        return strncmp(u->states[unit].enabled, "enabled", strlen("enabled")) == 0;
}

bool system_units_are_wanted(const SystemUnits *u) {
        assert(u);

        return system_unit_is_up(u, SYSTEM_UNIT_SOCKET) || has_failed(u, SYSTEM_UNIT_SOCKET) ||
               is_enabled(u, SYSTEM_UNIT_SOCKET);
}

bool system_unit_is_chosen(const SystemUnits *u, SystemUnit unit) {
        assert(u);
        assert(unit < _SYSTEM_UNIT_MAX);

        return system_unit_is_up(u, unit) || has_failed(u, unit) || is_masked(u, unit) ||
               is_enabled(u, unit);
}

/* ---- Repairing ---- */

typedef struct Commands {
        Buffer line;
        bool as_root;
        int error;
} Commands;

static void add_word(Commands *c, const char *word) {
        if (c->error >= 0)
                c->error = buffer_printf(&c->line, " %s", word);
}

static void begin(Commands *c, const char *command) {
        if (c->error >= 0)
                c->error = buffer_printf(&c->line, "%s%s%s", c->line.n_bytes > 0 ? " && " : "",
                                         c->as_root ? "" : "sudo ", command);
}

/* One command for all of the units of which this is so, or none. */
static void add_for(Commands *c, const char *command, const SystemUnits *u, size_t n_units,
                    bool (*is_so)(const SystemUnits *u, SystemUnit unit)) {
        bool has_begun = false;

        for (size_t i = 0; i < n_units; i++) {
                if (!is_so(u, (SystemUnit) i))
                        continue;
                if (!has_begun)
                        begin(c, command);
                has_begun = true;
                add_word(c, names[i]);
        }
}

static bool is_masked_for_good(const SystemUnits *u, SystemUnit unit) {
        return is_masked(u, unit) && !streq(u->states[unit].enabled, "masked-runtime");
}

static bool is_masked_until_boot(const SystemUnits *u, SystemUnit unit) {
        return is_masked(u, unit) && streq(u->states[unit].enabled, "masked-runtime");
}

static bool is_away(const char *path) {
        return access(path, F_OK) < 0;
}

/* Nothing can listen under the name of something else. */
static void clear_the_way(Commands *c, const char *path) {
        struct stat st;

        if (lstat(path, &st) < 0 || S_ISSOCK(st.st_mode))
                return;
        begin(c, "rm -r");
        add_word(c, path);
}

/* What no command can repair. Returns 1 with *ret, 0, or -ENOMEM. */
static int explain(const SystemUnits *u, const char *sudo, char **ret) {
        int r = 0;

        if (streq(u->states[SYSTEM_UNIT_SOCKET].load, "not-found"))
                r = str_printf(ret, "Install the package mcp-exec, then \"%ssystemctl enable --now "
                               "mcp-exec.socket\".", sudo);
        for (size_t i = 0; i < _SYSTEM_UNIT_NEEDED_MAX && r == 0 && !*ret; i++) {
                const char *load = u->states[i].load;

                if (streq(load, "not-found"))
                        r = str_printf(ret, "Install the package mcp-exec again: %s is missing.", names[i]);
                else if (streq(load, "bad-setting") || streq(load, "error"))
                        r = str_printf(ret, "Correct %s: \"systemctl status %s\" shows the mistake and "
                                       "\"systemctl cat %s\" the files. Then \"%ssystemctl daemon-reload\" "
                                       "and \"%ssystemctl restart mcp-exec.socket\".",
                                       names[i], names[i], names[i], sudo, sudo);
        }
        /* It was tried again and again, and would be once more. */
        for (size_t i = 0; i < _SYSTEM_UNIT_NEEDED_MAX && r == 0 && !*ret; i += 2)
                if (streq(u->states[i].result, "trigger-limit-hit") && has_failed(u, (SystemUnit) (i + 1)))
                        r = str_printf(ret, "Find out why %s cannot be started (\"journalctl -u %s\") and "
                                       "repair it, then \"%ssystemctl daemon-reload && %ssystemctl "
                                       "reset-failed %s && %ssystemctl restart %s\".",
                                       names[i + 1], names[i + 1], sudo, sudo, names[i], sudo, names[i]);
        return r < 0 ? r : *ret != NULL;
}

static void add_sockets(Commands *c, const SystemUnits *u, bool are_stopped) {
        for (size_t i = _SYSTEM_UNIT_NEEDED_MAX; are_stopped && i < _SYSTEM_UNIT_MAX; i++)
                if (system_unit_is_up(u, (SystemUnit) i))
                        add_word(c, names[i]);
}

static void add_starts(Commands *c, const SystemUnits *u, bool want_socket, bool want_launcher) {
        bool is_in_the_way = system_unit_is_up(u, SYSTEM_UNIT_SERVICE);
        bool is_new = !system_unit_is_up(u, SYSTEM_UNIT_SOCKET) &&
                      streq(u->states[SYSTEM_UNIT_SOCKET].enabled, "disabled");

        /* No socket starts while its service runs, and a client of another one would start it again. */
        if (want_socket && is_in_the_way) {
                begin(c, "systemctl stop");
                add_sockets(c, u, /* are_stopped= */ true);
                add_word(c, names[SYSTEM_UNIT_SERVICE]);
        }
        if (want_launcher || (want_socket && !is_new))
                begin(c, "systemctl restart");
        if (want_launcher)
                add_word(c, names[SYSTEM_UNIT_LAUNCHER_SOCKET]);
        if (want_socket && is_new)
                begin(c, "systemctl enable --now");
        if (want_socket) {
                add_word(c, names[SYSTEM_UNIT_SOCKET]);
                if (is_new && is_in_the_way && (system_unit_is_up(u, SYSTEM_UNIT_HTTP_SOCKET) ||
                                                system_unit_is_up(u, SYSTEM_UNIT_PROXY_SOCKET)))
                        begin(c, "systemctl start");
                add_sockets(c, u, is_in_the_way);
        }
}

int system_units_repair(const SystemUnits *u, const SystemUnitsSymptoms *symptoms, bool as_root,
                        char **ret) {
        Commands c = { .line = BUFFER_INIT(0), .as_root = as_root };
        bool want_socket, want_launcher;
        int r;

        assert(u);
        assert(symptoms);
        assert(ret);

        *ret = NULL;
        if (!u->is_known)
                return 0;
        r = explain(u, as_root ? "" : "sudo ", ret);
        if (r != 0)
                return r < 0 ? r : 0;

        want_socket = symptoms->is_socket_away || !system_unit_is_up(u, SYSTEM_UNIT_SOCKET) ||
                      is_masked(u, SYSTEM_UNIT_SOCKET) || is_masked(u, SYSTEM_UNIT_SERVICE);
        want_launcher = symptoms->is_launcher_away || has_failed(u, SYSTEM_UNIT_LAUNCHER_SOCKET) ||
                        is_masked(u, SYSTEM_UNIT_LAUNCHER_SOCKET) ||
                        is_masked(u, SYSTEM_UNIT_LAUNCHER_SERVICE) ||
                        (system_unit_is_up(u, SYSTEM_UNIT_LAUNCHER_SOCKET) &&
                         is_away(MCP_EXEC_LAUNCHER_SOCKET_PATH));
        /* The socket brings a launcher's socket along that was only stopped. */
        if (want_socket && want_launcher && symptoms->is_launcher_away &&
            streq(u->states[SYSTEM_UNIT_LAUNCHER_SOCKET].active, "inactive") &&
            !is_masked(u, SYSTEM_UNIT_LAUNCHER_SOCKET) && !is_masked(u, SYSTEM_UNIT_LAUNCHER_SERVICE))
                want_launcher = false;

        add_for(&c, "systemctl unmask", u, _SYSTEM_UNIT_NEEDED_MAX, is_masked_for_good);
        add_for(&c, "systemctl unmask --runtime", u, _SYSTEM_UNIT_NEEDED_MAX, is_masked_until_boot);
        if (want_socket)
                clear_the_way(&c, MCP_EXEC_SOCKET_PATH);
        if (want_launcher)
                clear_the_way(&c, MCP_EXEC_LAUNCHER_SOCKET_PATH);
        /* Whatever failed was perhaps tried so often that systemd would refuse once more. */
        add_for(&c, "systemctl reset-failed", u, _SYSTEM_UNIT_NEEDED_MAX, has_failed);
        add_starts(&c, u, want_socket, want_launcher);

        r = c.error;
        if (r >= 0 && c.line.n_bytes > 0)
                r = buffer_steal(&c.line, ret, NULL);
        buffer_done(&c.line);
        return r < 0 ? r : 0;
}

int system_units_repair_http(const SystemUnits *u, SystemUnit unit, bool as_root, char **ret) {
        Commands c = { .line = BUFFER_INIT(0), .as_root = as_root };
        SystemUnit others[] = { SYSTEM_UNIT_SOCKET, SYSTEM_UNIT_HTTP_SOCKET, SYSTEM_UNIT_PROXY_SOCKET };
        bool stops = system_unit_is_up(u, SYSTEM_UNIT_SERVICE);
        int r;

        assert(u);
        assert(unit >= _SYSTEM_UNIT_NEEDED_MAX && unit < _SYSTEM_UNIT_MAX);
        assert(ret);

        if (is_masked(u, unit)) {
                begin(&c, is_masked_until_boot(u, unit) ? "systemctl unmask --runtime" : "systemctl unmask");
                add_word(&c, names[unit]);
        }
        if (has_failed(u, unit)) {
                begin(&c, "systemctl reset-failed");
                add_word(&c, names[unit]);
        }
        /* No socket starts while its service runs, and a client of another one would start it again. */
        if (stops) {
                begin(&c, "systemctl stop");
                for (size_t i = 0; i < ELEMENTSOF(others); i++)
                        if (others[i] != unit && system_unit_is_up(u, others[i]))
                                add_word(&c, names[others[i]]);
                add_word(&c, names[SYSTEM_UNIT_SERVICE]);
        }
        /* All in one, so that the others are there again even where this one fails once more. */
        begin(&c, "systemctl restart");
        for (size_t i = 0; i < ELEMENTSOF(others); i++)
                if (others[i] == unit || (stops && system_unit_is_up(u, others[i])))
                        add_word(&c, names[others[i]]);

        r = c.error;
        if (r >= 0)
                r = buffer_steal(&c.line, ret, NULL);
        buffer_done(&c.line);
        return r < 0 ? r : 0;
}

/* Where systemd cannot be asked, as in some containers. */
static bool is_installed(void) {
        static const char *const paths[] = {
                "/usr/lib/systemd/system/mcp-exec.socket",
                "/lib/systemd/system/mcp-exec.socket",
                "/etc/systemd/system/mcp-exec.socket",
        };

        for (size_t i = 0; i < ELEMENTSOF(paths); i++)
                if (access(paths[i], F_OK) == 0)
                        return true;
        return false;
}

int system_units_remedy(const SystemUnits *units, int code, bool as_root, char **ret) {
        const SystemUnitsSymptoms symptoms = { .is_socket_away = code == SYSTEM_SOCKET_E_ABSENT };
        const char *sudo = as_root ? "" : "sudo ";
        SystemUnits own;
        int r;

        assert(ret);

        *ret = NULL;
        if (!units) {
                system_units_read(&own);
                units = &own;
        }
        r = system_units_repair(units, &symptoms, as_root, ret);
        if (r < 0 || *ret)
                return r;
        if (streq(units->states[SYSTEM_UNIT_SERVICE].active, "deactivating"))
                return str_copy(ret, "Try again later: the service stops, and answers its calls before it "
                                     "is gone (\"systemctl status mcp-exec.service\").");
        if (code == SYSTEM_SOCKET_E_ABSENT)
                return str_printf(ret, is_installed() ? "%ssystemctl enable --now mcp-exec.socket" :
                                                        "Install the package mcp-exec, then \"%ssystemctl "
                                                        "enable --now mcp-exec.socket\".", sudo);
        return 0;
}
