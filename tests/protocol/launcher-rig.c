/* SPDX-License-Identifier: MIT */

/* The real launcher in a process of its own, between a service manager and a daemon that are both the
 * test. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/strv.h"
#include "launch/sandbox.h"
#include "launcher-rig.h"

#define PATIENCE_MSEC 5000
#define SILENCE_MSEC 200

#define REQUIRE(expression)                                                                                 \
        do {                                                                                                \
                if (!(expression)) {                                                                        \
                        printf("Bail out! %s:%d: %s\n", __FILE__, __LINE__, #expression);                   \
                        exit(1);                                                                            \
                }                                                                                           \
        } while (0)

/* The launcher as main() would set it up, on a connection instead of a bus. */
static int run_launcher(int manager_fd, int seam_fd, const char *sets) {
        Sandbox *s = calloc(1, sizeof(*s));
        sd_event *event = NULL;
        sd_bus *bus = NULL;
        Server *server = NULL;
        int r;

        REQUIRE(s);
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        log_open("launcher", LOG_CRIT);
        REQUIRE(sd_event_new(&event) >= 0);
        REQUIRE(sd_bus_new(&bus) >= 0 && sd_bus_set_fd(bus, manager_fd, manager_fd) >= 0 &&
                sd_bus_start(bus) >= 0);

        s->is_user = true;
        REQUIRE(settings_new_default(&s->settings) >= 0);
        for (unsigned i = 0; i < _WIRE_PROFILE_MAX; i++)
                s->ceilings[i] = limits_ceiling(s->settings, (WireProfile) i);
        REQUIRE(str_copy(&s->python, "/usr/bin/python3") >= 0 && str_copy(&s->namespaces, "net=1") >= 0);
        /* A program that is there, for it is looked at again. */
        REQUIRE(settings_set(s->settings, "Packages", "UvPath", "/usr/bin/env", &(char*) { NULL }) >= 0);
        REQUIRE(str_copy(&s->packages.uv, "/usr/bin/env") >= 0);
        REQUIRE(sets_new_at(sets, true, geteuid(), &s->sets) >= 0);
        s->packages.uv_inside = UV_PATH_INSIDE;
        REQUIRE(str_copy(&s->packages.pythons[2], "/usr/bin/python3.99") >= 0);
        REQUIRE(manager_new(event, bus, true, &s->manager, &s->problem) >= 0);
        sd_bus_unref(bus);
        if (sandbox_check_manager(s->manager, &s->problem) < 0 && !strstr(s->problem.reason, "cgroup v2"))
                s->has_problem = true;
        REQUIRE(manager_attach(s->manager, &s->problem) >= 0);

        REQUIRE(server_new(event, s, &server) >= 0);
        REQUIRE(server_take_connection(server, seam_fd) >= 0);
        REQUIRE(server_start(server) >= 0);
        r = sd_event_loop(event);
        server_free(server);
        sandbox_free(s);
        sd_event_unref(event);
        return r;
}

static void start(LauncherRig *rig) {
        const char *version = rig->pid1.version, *features = rig->pid1.features;
        int manager[2], seam[2];

        REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, manager) >= 0);
        REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, seam) >= 0);
        (void) fflush(stdout);
        rig->launcher = fork();
        REQUIRE(rig->launcher >= 0);
        if (rig->launcher == 0) {
                int r;

                (void) safe_close(manager[0]);
                (void) safe_close(seam[0]);
                (void) setenv("XDG_RUNTIME_DIR", rig->runtime, true);
                r = run_launcher(manager[1], seam[1], rig->sets);
                exit(r < 0 ? 99 : r); /* not _exit(): leaks are looked for at exit */
        }
        (void) safe_close(manager[1]);
        (void) safe_close(seam[1]);
        rig->seam = seam[0];
        fake_pid1_init(&rig->pid1, manager[0]);
        if (version) {
                rig->pid1.version = version;
                rig->pid1.features = features;
        }
        fake_pid1_handshake(&rig->pid1);
}

void launcher_rig_setup(LauncherRig *rig) {
        (void) snprintf(rig->runtime, sizeof(rig->runtime), "/tmp/test-launcher-XXXXXX");
        REQUIRE(mkdtemp(rig->runtime));
        (void) snprintf(rig->cgroup, sizeof(rig->cgroup), "%s/cgroup", rig->runtime);
        REQUIRE(mkdir(rig->cgroup, 0700) >= 0);
        (void) snprintf(rig->sets, sizeof(rig->sets), "%s/sets", rig->runtime);
        REQUIRE(mkdir(rig->sets, 0700) >= 0);
        start(rig);
}

void launcher_rig_restart(LauncherRig *rig) {
        (void) safe_close(rig->seam);
        (void) launcher_rig_wait(rig);
        fake_pid1_done(&rig->pid1);
        start(rig);
}

static void write_file(LauncherRig *rig, const char *name, const char *text) {
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int fd = -EBADF;

        REQUIRE(str_printf(&path, "%s/%s", rig->cgroup, name) >= 0);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        REQUIRE(fd >= 0 && fd_write_all(fd, text, strlen(text)) >= 0);
}

void launcher_rig_selftest(LauncherRig *rig, int status, bool has_limits) {
        _cleanup_free_ char *group = NULL;
        sd_bus_message *m;

        write_file(rig, "memory.max", has_limits ? "536870912\n" : "max\n");
        write_file(rig, "pids.max", "128\n");
        write_file(rig, "cpu.max", has_limits ? "100000 100000\n" : "max 100000\n");

        fake_pid1_start(&rig->pid1);
        m = fake_pid1_call(&rig->pid1, "Get");
        /* Relative to /sys/fs/cgroup, and so this leads out of it. */
        REQUIRE(str_printf(&group, "/../../..%s", rig->cgroup) >= 0);
        fake_pid1_reply(&rig->pid1, m, "v", "s", group);
        sd_bus_message_unref(m);
        fake_pid1_end(&rig->pid1, status == 0 ? "success" : "exit-code", 1, status);
}

void launcher_rig_ready(LauncherRig *rig) {
        launcher_rig_setup(rig);
        launcher_rig_selftest(rig, 0, true);
        REQUIRE(rig_expect(rig, WIRE_HELLO, 0).hello.verdict == WIRE_VERDICT_OK);
}

int launcher_rig_wait(LauncherRig *rig) {
        int status;

        for (unsigned i = 0; i < PATIENCE_MSEC / 10; i++) {
                pid_t pid = waitpid(rig->launcher, &status, WNOHANG);

                if (pid == rig->launcher) {
                        rig->launcher = 0;
                        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
                }
                /* It may be waiting for the manager meanwhile. */
                sd_bus_message_unref(fake_pid1_call_within(&rig->pid1, 10));
                (void) nanosleep(&(struct timespec) { .tv_nsec = 1000000 }, NULL);
        }
        (void) kill(rig->launcher, SIGKILL);
        (void) waitpid(rig->launcher, &status, 0);
        rig->launcher = 0;
        return -1;
}

int launcher_rig_teardown(LauncherRig *rig) {
        static const char *const names[] = { "cgroup/memory.max", "cgroup/pids.max", "cgroup/cpu.max",
                                             "mcp-exec/verdict", "sets/.lock" };
        int status = 0;

        rig->seam = safe_close(rig->seam);
        if (rig->launcher > 0)
                status = launcher_rig_wait(rig);
        fake_pid1_done(&rig->pid1);
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                _cleanup_free_ char *path = NULL;

                if (str_printf(&path, "%s/%s", rig->runtime, names[i]) >= 0)
                        (void) unlink(path);
        }
        (void) rmdir(rig->cgroup);
        (void) rmdir(rig->sets);
        {
                _cleanup_free_ char *path = NULL;

                if (str_printf(&path, "%s/mcp-exec", rig->runtime) >= 0)
                        (void) rmdir(path);
        }
        (void) rmdir(rig->runtime);
        return status;
}

void rig_send_start(LauncherRig *rig, uint64_t job) {
        rig_send_start_of(rig, job, WIRE_PROFILE_RUN, 0, 0);
}

void rig_send_set(LauncherRig *rig, uint64_t job, WireSetAction action, char environment, char to) {
        WireMessage m = {};

        wire_header_init(&m, WIRE_SET, job);
        m.set.action = action;
        memset(m.set.environment, environment, sizeof(m.set.environment));
        memset(m.set.to, to, sizeof(m.set.to));
        REQUIRE(wire_send(rig->seam, &m, NULL, 0) >= 0);
}

void rig_send_start_of(LauncherRig *rig, uint64_t job, WireProfile profile, unsigned interpreter,
                       char environment) {
        int control[2], out[2], err[2];
        WireMessage m = {};

        REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) >= 0 && pipe_new(out) >= 0 &&
                pipe_new(err) >= 0);
        wire_header_init(&m, WIRE_START, job);
        m.start.profile = profile;
        m.start.interpreter = interpreter;
        memset(m.start.environment, environment, sizeof(m.start.environment));
        m.start.limits = (WireLimits) { 10 * USEC_PER_SEC, 64 * MIB, 16, USEC_PER_SEC };
        REQUIRE(wire_send(rig->seam, &m, (int[]) { control[1], out[1], err[1] }, _WIRE_FD_MAX) >= 0);
        for (size_t i = 0; i < 2; i++) {
                (void) safe_close(control[i]);
                (void) safe_close(out[i]);
                (void) safe_close(err[i]);
        }
}

void rig_send_stop(LauncherRig *rig, uint64_t job) {
        WireMessage m = {};

        wire_header_init(&m, WIRE_STOP, job);
        REQUIRE(wire_send(rig->seam, &m, NULL, 0) >= 0);
}

void rig_send_assign(LauncherRig *rig, uint64_t job) {
        WireMessage m = {};

        wire_header_init(&m, WIRE_ASSIGN, job);
        m.assign.limits = (WireLimits) { 0, 33 * MIB, 9, USEC_PER_SEC / 4 };
        REQUIRE(wire_send(rig->seam, &m, NULL, 0) >= 0);
}

static bool is_readable(LauncherRig *rig, int msec) {
        struct pollfd p = { .fd = rig->seam, .events = POLLIN };

        return poll(&p, 1, msec) > 0;
}

WireMessage rig_expect(LauncherRig *rig, WireType type, uint64_t job) {
        int fds[_WIRE_FD_MAX];
        WireMessage m = {};
        int r;

        REQUIRE(is_readable(rig, PATIENCE_MSEC));
        r = wire_receive(rig->seam, WIRE_ROLE_DAEMON, &m, fds);
        if (r <= 0 || m.header.type != type || m.header.job_id != job) {
                printf("Bail out! expected message %d of job %d, got %d: type %d job %d\n", (int) type,
                       (int) job, r, (int) m.header.type, (int) m.header.job_id);
                exit(1);
        }
        return m;
}

bool rig_is_closed(LauncherRig *rig) {
        int fds[_WIRE_FD_MAX];
        WireMessage m;

        return is_readable(rig, PATIENCE_MSEC) && wire_receive(rig->seam, WIRE_ROLE_DAEMON, &m, fds) == 0;
}

bool rig_is_silent(LauncherRig *rig) {
        return !is_readable(rig, SILENCE_MSEC);
}

bool rig_has_property(sd_bus_message *m, const char *wanted) {
        const char *name;
        bool found = false;

        REQUIRE(sd_bus_message_rewind(m, true) >= 0);
        REQUIRE(sd_bus_message_skip(m, "ss") >= 0);
        REQUIRE(sd_bus_message_enter_container(m, 'a', "(sv)") > 0);
        while (sd_bus_message_enter_container(m, 'r', "sv") > 0) {
                REQUIRE(sd_bus_message_read(m, "s", &name) > 0);
                found = found || streq(name, wanted);
                REQUIRE(sd_bus_message_skip(m, "v") >= 0 && sd_bus_message_exit_container(m) >= 0);
        }
        return found;
}
