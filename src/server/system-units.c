/* SPDX-License-Identifier: MIT */

/* systemd refuses much: to start a socket while its service runs, to start anything masked, to start what
 * has failed too often. And much is lost without a word: socket files that somebody removed while their
 * units are active. What is said here was tried in each of these states (tests/system/test_repair.py). */

#include "server/system-units.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
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

/* "Listen=127.0.0.1:8080 (Stream)", one line for each. A path may hold blanks. What has no room is left out
 * as a whole: the beginning of a path is another path. */
static void take_address(SystemUnitState *s, const char *address) {
        size_t n_there = strlen(s->listen), n_more = strlen(address);
        const char *type = strrchr(address, '(');

        if (type && type > address && type[-1] == ' ')
                n_more = (size_t) (type - 1 - address);
        if (n_there + 1 + n_more < sizeof(s->listen))
                (void) snprintf(s->listen + n_there, sizeof(s->listen) - n_there, "%s%.*s",
                                n_there > 0 ? "\n" : "", (int) n_more, address);
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

/* ---- Places ---- */

bool system_path_is_away(const char *path) {
        struct stat st;

        assert(path);

        /* Not what this user may not look at. */
        return lstat(path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR);
}

bool system_path_is_taken(const char *path, unsigned type) {
        struct stat st;

        assert(path);

        if (lstat(path, &st) < 0)
                return false;
        if (type == S_IFDIR && S_ISLNK(st.st_mode) && stat(path, &st) < 0)
                return true;
        return (st.st_mode & S_IFMT) != type;
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

/* Nothing can listen under the name of something else, or below it. It is only moved: whoever put it there,
 * nothing of theirs is lost, and nothing behind it is touched, be it a link or a mount point. */
static void clear_the_way(Commands *c, const char *path) {
        begin(c, "mv -T");
        add_word(c, path);
        if (c->error >= 0)
                c->error = buffer_printf(&c->line, " %s.old", path);
}

static void clear_the_ways(Commands *c, bool for_socket, bool for_launcher) {
        if ((for_socket || for_launcher) && system_path_is_taken(MCP_EXEC_RUNTIME_DIR, S_IFDIR))
                clear_the_way(c, MCP_EXEC_RUNTIME_DIR);
        if (for_socket && system_path_is_taken(MCP_EXEC_SOCKET_PATH, S_IFSOCK))
                clear_the_way(c, MCP_EXEC_SOCKET_PATH);
        if (for_launcher && system_path_is_taken(MCP_EXEC_LAUNCHER_SOCKET_PATH, S_IFSOCK))
                clear_the_way(c, MCP_EXEC_LAUNCHER_SOCKET_PATH);
}

/* It did start, and something else than itself ended it. */
static bool was_ended(const char *result) {
        return streq(result, "signal") || streq(result, "core-dump") || streq(result, "oom-kill") ||
               streq(result, "watchdog");
}

/* The socket of a service that was started too often in a short time. */
static int explain_limit(const SystemUnits *u, SystemUnit socket, const char *sudo, char **ret) {
        const char *name = names[socket], *service = names[socket + 1];
        const char *result = u->states[socket + 1].result;
        _cleanup_free_ char *command = NULL;
        int r;

        r = str_printf(&command, "%ssystemctl reset-failed %s && %ssystemctl restart %s", sudo, name, sudo,
                       name);
        if (r < 0)
                return r;
        if (was_ended(result))
                return str_printf(ret, "%s was started and ended many times in a short time (systemd says: "
                                       "%s), which \"%sjournalctl -u %s\" shows. Once the reason is gone, "
                                       "such as somebody who killed it: \"%s\".",
                                  service, result, sudo, service, command);
        return str_printf(ret, "Find out why %s cannot be started (\"%sjournalctl -u %s\") and repair it, "
                               "then \"%ssystemctl daemon-reload && %s\".",
                          service, sudo, service, sudo, command);
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
                        /* What else has to be done for it depends on what runs by then. */
                        r = str_printf(ret, "Correct %s: \"systemctl status %s\" shows the mistake and "
                                       "\"systemctl cat %s\" the files. Then \"%ssystemctl daemon-reload\" "
                                       "and \"%smcp-exec check\" again.",
                                       names[i], names[i], names[i], sudo, sudo);
        }
        /* It was tried again and again, and would be once more. */
        for (size_t i = 0; i < _SYSTEM_UNIT_NEEDED_MAX && r == 0 && !*ret; i += 2)
                if (streq(u->states[i].result, "trigger-limit-hit") && has_failed(u, (SystemUnit) (i + 1)))
                        r = explain_limit(u, (SystemUnit) i, sudo, ret);
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
                         system_path_is_away(MCP_EXEC_LAUNCHER_SOCKET_PATH));
        /* The socket brings a launcher's socket along that was only stopped. */
        if (want_socket && want_launcher && symptoms->is_launcher_away &&
            streq(u->states[SYSTEM_UNIT_LAUNCHER_SOCKET].active, "inactive") &&
            !is_masked(u, SYSTEM_UNIT_LAUNCHER_SOCKET) && !is_masked(u, SYSTEM_UNIT_LAUNCHER_SERVICE))
                want_launcher = false;

        add_for(&c, "systemctl unmask", u, _SYSTEM_UNIT_NEEDED_MAX, is_masked_for_good);
        add_for(&c, "systemctl unmask --runtime", u, _SYSTEM_UNIT_NEEDED_MAX, is_masked_until_boot);
        clear_the_ways(&c, want_socket, want_launcher);
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
        /* A client that waits for its next start, a second later, is served by it. This one was not. */
        if (streq(units->states[SYSTEM_UNIT_SERVICE].active, "activating") &&
            was_ended(units->states[SYSTEM_UNIT_SERVICE].result))
                return str_printf(ret, "Find out why mcp-exec.service, which systemd starts again each "
                                       "time, ends before it serves (systemd says: %s; \"%sjournalctl -u "
                                       "mcp-exec.service\").", units->states[SYSTEM_UNIT_SERVICE].result,
                                  sudo);
        if (!units->is_known && sd_booted() <= 0)
                return str_copy(ret, "Use a machine where systemd runs, for mcp-exec needs it (\"mcp-exec "
                                     "check\" tells what can be done here).");
        if (code == SYSTEM_SOCKET_E_ABSENT)
                return str_printf(ret, is_installed() ? "%ssystemctl enable --now mcp-exec.socket" :
                                                        "Install the package mcp-exec, then \"%ssystemctl "
                                                        "enable --now mcp-exec.socket\".", sudo);
        return 0;
}
