/* SPDX-License-Identifier: MIT */

/* Opens a connection to a launcher.
 *
 * The user's launcher is started by posix_spawn() with a socketpair as its fd 3. It gets an environment of
 * the few variables that it reads and no other descriptor of ours: not the client's pipes, not the
 * connections of others. It ends when the connection ends, however we die. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/fd.h"
#include "base/macro.h"
#include "base/strv.h"
#include "config.h"
#include "server/launcher-connect.h"
#include "server/system-units.h"

#define LAUNCHER_FD 3

/* What the launcher's settings_load() and its search for the user's service manager read. Not the token: the
 * launcher has no use for it. */
static const char *const passed_variables[] = {
        "HOME",
        "XDG_CONFIG_HOME",
        "XDG_RUNTIME_DIR",
        "MCP_EXEC_DEFAULT_TIMEOUT_S",
        "MCP_EXEC_MAX_OUTPUT_BYTES",
        "MCP_EXEC_MAX_STDIN_BYTES",
        "MCP_EXEC_MAX_TIMEOUT_S",
        "MCP_EXEC_PYTHON",
};

static bool is_masked_in(const char *directory, const char *unit) {
        char path[128], target[16];
        ssize_t n;

        (void) snprintf(path, sizeof(path), "%s/%s", directory, unit);
        n = readlink(path, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = 0;
        return streq(target, "/dev/null");
}

/* systemd does not start what an administrator masked, whoever asks. *ret: the first that is; NULL: none.
 * commands: what takes all of the masks away, with " && " behind each. */
static int find_masks(const char **ret, Buffer *commands) {
        static const char *const units[] = { "mcp-exec-launcher.socket", "mcp-exec-launcher.service" };
        static const struct {
                const char *directory, *command;
        } places[] = {
                { "/etc/systemd/system", "systemctl unmask"           },
                { "/run/systemd/system", "systemctl unmask --runtime" },
        };
        int r = 0;

        *ret = NULL;
        for (size_t k = 0; k < ELEMENTSOF(places) && r >= 0; k++)
                for (size_t i = 0; i < ELEMENTSOF(units) && r >= 0; i++) {
                        if (!is_masked_in(places[k].directory, units[i]))
                                continue;
                        *ret = *ret ?: units[i];
                        r = buffer_printf(commands, "%s %s && ", places[k].command, units[i]);
                }
        return r;
}

/* reset-failed, for it has perhaps failed more often than systemd allows. */
#define RESTART \
        "systemctl reset-failed mcp-exec-launcher.socket && systemctl restart mcp-exec-launcher.socket"

static void explain_absence(const LauncherConnect *c, char **reterr_message) {
        _cleanup_free_ char *cause = NULL, *remedy = NULL;
        _cleanup_buffer_ Buffer unmask = BUFFER_INIT(0);
        const char *path = c->socket_path, *masked;
        int r;

        r = find_masks(&masked, &unmask);
        if (r < 0)
                return;
        if (masked) {
                r = str_printf(&cause, "The launcher's socket %s is not there, for %s is masked.", path,
                               masked);
                if (r >= 0)
                        r = str_printf(&remedy, "%s" RESTART, unmask.data);
        } else if (system_path_is_taken(path, S_IFSOCK)) {
                r = str_printf(&cause, "Something else is in the place of the launcher's socket %s.", path);
                /* Moved, not removed: whatever it is, it is not ours. And only where the unit listens. */
                if (r >= 0 && streq(path, MCP_EXEC_LAUNCHER_SOCKET_PATH))
                        r = str_printf(&remedy, "mv -T %s %s.old && " RESTART, path, path);
        } else {
                r = str_printf(&cause, "The launcher's socket %s is not there.", path);
                if (r >= 0)
                        r = str_copy(&remedy, RESTART);
        }
        if (r >= 0 && (c->has_remedy || !remedy))
                *reterr_message = TAKE_PTR(cause);
        else if (r >= 0)
                (void) str_printf(reterr_message, "%s Start it as root with \"%s\".", cause, remedy);
}

static int connect_system(const LauncherConnect *c, char **reterr_message) {
        const char *path = c->socket_path;
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        _cleanup_close_ int fd = -EBADF;
        int r;

        if (strlen(path) >= sizeof(address.sun_path))
                return -ENAMETOOLONG;
        memcpy(address.sun_path, path, strlen(path));

        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0) {
                r = -errno;
                if (r == -EMFILE || r == -ENFILE)
                        (void) str_printf(reterr_message,
                                          "No file descriptor is left for a connection to the "
                                          "launcher. Raise LimitNOFILE= of mcp-exec.service.");
                return r;
        }
        if (connect(fd, (const struct sockaddr*) &address, sizeof(address)) >= 0)
                return TAKE_FD(fd);

        r = -errno;
        if (r == -ENOENT || r == -ECONNREFUSED || system_path_is_taken(path, S_IFSOCK))
                explain_absence(c, reterr_message);
        else if (r == -EACCES || r == -EPERM)
                (void) str_printf(reterr_message,
                                  "The launcher's socket %s does not admit uid %u. Run the server as "
                                  "mcp-exec.service does, as the user mcp-exec; where it does, \"mcp-exec "
                                  "check\" as root tells what is wrong with the directory.",
                                  path, (unsigned) geteuid());
        else if (r == -EAGAIN)
                (void) str_printf(reterr_message, "The launcher does not accept connections. See "
                                  "\"journalctl -u mcp-exec-launcher\".");
        return r;
}

static int build_environment(char ***ret) {
        _cleanup_strv_ char **environment = NULL;
        int r;

        /* Never empty, or the NULL array would mean "inherit". */
        r = strv_extend(&environment, "PATH=/usr/local/bin:/usr/bin:/bin");
        if (r < 0)
                return r;
        for (size_t i = 0; i < ELEMENTSOF(passed_variables); i++) {
                const char *value = getenv(passed_variables[i]);
                if (!value)
                        continue;
                r = strv_extendf(&environment, "%s=%s", passed_variables[i], value);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(environment);
        return 0;
}

static int fill_file_actions(posix_spawn_file_actions_t *actions, int connection_fd, bool is_quiet) {
        int r;

        /* dup2() of a number to itself clears close-on-exec here: posix_spawn() promises it. */
        r = posix_spawn_file_actions_adddup2(actions, connection_fd, LAUNCHER_FD);
        if (r == 0)
                r = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        if (r == 0) /* standard output belongs to the protocol */
                r = posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
        if (r == 0 && is_quiet)
                r = posix_spawn_file_actions_addopen(actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        if (r == 0)
                r = posix_spawn_file_actions_addclosefrom_np(actions, LAUNCHER_FD + 1);
        return -r;
}

static int fill_attributes(posix_spawnattr_t *attributes) {
        sigset_t none, all;
        int r;

        (void) sigemptyset(&none);
        (void) sigfillset(&all);

        /* A session of its own: Ctrl-C and a client that signals our process group must not take away the
         * one that stops the runs when we are gone. Ignored and blocked signals are inherited, so they are
         * reset. */
        r = posix_spawnattr_setflags(attributes,
                                     POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
        if (r == 0)
                r = posix_spawnattr_setsigdefault(attributes, &all);
        if (r == 0)
                r = posix_spawnattr_setsigmask(attributes, &none);
        return -r;
}

static int spawn_launcher(int connection_fd, char *const *environment, const LauncherConnect *c) {
        static const char name[] = "mcp-exec-launcher", user[] = "--user", connection[] = "--connection=3",
                          uv[] = "--uv-path";
        char *const argv[] = { (char*) name, (char*) user, (char*) connection,
                               (char*) (c->uv_path ? uv : NULL), (char*) c->uv_path, NULL };
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        pid_t pid;
        int r;

        r = -posix_spawn_file_actions_init(&actions);
        if (r < 0)
                return r;
        r = -posix_spawnattr_init(&attributes);
        if (r < 0) {
                (void) posix_spawn_file_actions_destroy(&actions);
                return r;
        }

        r = fill_file_actions(&actions, connection_fd, c->is_quiet);
        if (r == 0)
                r = fill_attributes(&attributes);
        if (r == 0)
                r = -posix_spawn(&pid, MCP_EXEC_LAUNCHER_PATH, &actions, &attributes, argv, environment);

        (void) posix_spawnattr_destroy(&attributes);
        (void) posix_spawn_file_actions_destroy(&actions);
        return r;
}

static int connect_user(const LauncherConnect *c, char **reterr_message) {
        _cleanup_strv_ char **environment = NULL;
        _cleanup_close_ int ours = -EBADF, theirs = -EBADF;
        int r, pair[2];

        r = build_environment(&environment);
        if (r < 0)
                return r;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                return -errno;
        ours = pair[0];
        theirs = pair[1];

        /* Only its connection tells how the child is: no zombie, no exit status. */
        if (signal(SIGCHLD, SIG_IGN) == SIG_ERR)
                return -errno;

        r = spawn_launcher(theirs, environment, c);
        if (r == -ENOENT || r == -EACCES)
                (void) str_printf(reterr_message,
                                  "The launcher %s is not there or cannot be started. Install the "
                                  "package mcp-exec again.",
                                  MCP_EXEC_LAUNCHER_PATH);
        else if (r == -EAGAIN || r == -ENOMEM)
                (void) str_printf(reterr_message,
                                  "The launcher could not be started, for this user has no more "
                                  "processes or memory. End some programs.");
        if (r < 0)
                return r;
        return TAKE_FD(ours);
}

int launcher_connect(void *userdata, char **reterr_message) {
        const LauncherConnect *c = userdata;

        assert(c);
        assert(reterr_message);

        return c->socket_path ? connect_system(c, reterr_message) :
                                connect_user(c, reterr_message);
}
