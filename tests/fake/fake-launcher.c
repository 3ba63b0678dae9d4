/* SPDX-License-Identifier: MIT */

#include "fake-launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <systemd/sd-event.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"
#include "base/timeutil.h"
#include "fake-runner.h"
#include "fake-sets.h"

#define UNITS_MAX 256
#define CONNECTIONS_MAX 64

typedef struct Server Server;

typedef struct FakeUnit {
        Server *server;
        uint64_t job_id; /* 0: free */
        FakeBehaviour behaviour;
        pid_t pid;
        int fds[_WIRE_FD_MAX]; /* our copies, kept as 257 keeps them */
        WireMessage finished;
        WireStart start;
        sd_event_source *child_source, *timer_source;
} FakeUnit;

struct Server {
        sd_event *event;
        int fd;
        const FakeScript *script;
        FakeReport *report;
        FakeUnit units[UNITS_MAX];
};

struct FakeLauncher {
        FakeScript script;
        FakeReport *report; /* shared with the processes */
        pid_t pids[CONNECTIONS_MAX];
        unsigned n_pids;
};

static void server_send(Server *s, const WireMessage *m) {
        /* The packet socket's buffer holds hundreds of these; a test that fills it should fail loudly. */
        if (wire_send(s->fd, m, NULL, 0) == -EAGAIN)
                abort();
}

static void unit_report_end(FakeUnit *u) {
        Server *s = u->server;

        server_send(s, &u->finished);
        if (u->behaviour == FAKE_TWICE_FINISHED)
                server_send(s, &u->finished);
        u->job_id = 0;
}

static int unit_on_late(sd_event_source *source, uint64_t usec, void *userdata) {
        (void) source;
        (void) usec;
        unit_report_end(userdata);
        return 0;
}

static int unit_on_drop(sd_event_source *source, uint64_t usec, void *userdata) {
        FakeUnit *u = userdata;

        (void) source;
        (void) usec;
        return sd_event_exit(u->server->event, 0);
}

static int after(FakeUnit *u, uint64_t usec, sd_event_time_handler_t handler) {
        return sd_event_add_time_relative(u->server->event, &u->timer_source, CLOCK_MONOTONIC, usec, 1,
                                          handler, u);
}

/* The process ended: what systemd would make of it. */
static int unit_on_child(sd_event_source *source, const siginfo_t *si, void *userdata) {
        FakeUnit *u = userdata;
        Server *s = u->server;
        WireFinished *m = &u->finished.finished;

        (void) source;
        (void) kill(-u->pid, SIGKILL);
        s->report->n_alive--;

        wire_header_init(&u->finished, WIRE_FINISHED, u->job_id);
        m->start_monotonic_usec = m->exit_monotonic_usec = now_monotonic_usec();
        m->main_code = si->si_code;
        m->main_status = si->si_status;
        m->cpu_nsec = 12345678;
        m->memory_peak_bytes = 4 << 20;
        if (si->si_code == CLD_EXITED)
                m->result = si->si_status == 0 ? WIRE_RESULT_SUCCESS : WIRE_RESULT_EXIT_CODE;
        else if (si->si_status == SIGTERM || si->si_status == SIGHUP || si->si_status == SIGINT ||
                 si->si_status == SIGPIPE)
                m->result = WIRE_RESULT_SUCCESS; /* systemd's clean signals */
        else
                m->result = si->si_code == CLD_DUMPED ? WIRE_RESULT_CORE_DUMP : WIRE_RESULT_SIGNAL;

        if (u->behaviour == FAKE_OOM)
                m->result = WIRE_RESULT_OOM_KILL;
        if (u->behaviour == FAKE_RUNTIME_MAX)
                m->result = WIRE_RESULT_TIMEOUT;
        if (u->behaviour == FAKE_ACCOUNTS_NOTHING)
                m->cpu_nsec = m->memory_peak_bytes = WIRE_UNKNOWN;
        if (u->behaviour == FAKE_GONE) {
                m->result = WIRE_RESULT_GONE;
                m->main_code = m->main_status = 0;
                m->exit_monotonic_usec = 0;
        }

        if (u->behaviour == FAKE_NEVER_FINISHED) {
                /* Of a dead unit 257 lets them go. */
                for (size_t i = 0; i < _WIRE_FD_MAX; i++)
                        u->fds[i] = safe_close(u->fds[i]);
                return 0;
        }
        if (u->behaviour == FAKE_LATE_FINISHED)
                return after(u, 700 * USEC_PER_MSEC, unit_on_late);
        unit_report_end(u);
        return 0;
}

static FakeUnit* server_find(Server *s, uint64_t job_id) {
        for (size_t i = 0; i < UNITS_MAX; i++)
                if (s->units[i].job_id == job_id)
                        return s->units + i;
        return NULL;
}

static void unit_recycle(FakeUnit *u) {
        sd_event_source_unref(u->child_source);
        sd_event_source_unref(u->timer_source);
        if (u->pid > 0) /* ever used */
                for (size_t i = 0; i < _WIRE_FD_MAX; i++)
                        safe_close(u->fds[i]);
        *u = (FakeUnit) {};
}

static void send_started(Server *s, const FakeUnit *u) {
        WireMessage m = {};

        wire_header_init(&m, WIRE_STARTED, u->job_id);
        m.started.monotonic_usec = now_monotonic_usec();
        (void) snprintf(m.started.unit, sizeof(m.started.unit), "mcp-exec-run-fake%d.service", (int) u->pid);
        server_send(s, &m);
}

/* Whether a unit beside this one has the same leaf. */
static bool server_uses_leaf(const Server *s, const FakeUnit *u) {
        for (size_t i = 0; i < UNITS_MAX; i++)
                if (s->units + i != u && s->units[i].job_id != 0 &&
                    fake_sets_is_leaf_of(&s->units[i].start, u->start.environment))
                        return true;
        return false;
}

static void server_change_set(Server *s, const WireSet *set) {
        WireMessage m = {};
        int r = 0;

        for (size_t i = 0; i < UNITS_MAX && r == 0; i++)
                if (s->units[i].job_id != 0 && fake_sets_is_used_by(&s->units[i].start, set))
                        r = -EBUSY;
        if (r == 0)
                r = fake_sets_change(s->script, set);
        if (s->script->drops_after_retire && set->action == WIRE_SET_RETIRE) {
                (void) sd_event_exit(s->event, 0);
                return;
        }
        wire_header_init(&m, WIRE_SET_DONE, set->header.job_id);
        m.set_done.error = (uint32_t) -r;
        wire_set_text(m.set_done.text, sizeof(m.set_done.text), r < 0 ? strerror(-r) : "");
        server_send(s, &m);
}

/* Behaviours without a process. Returns false when there must be one. */
static bool unit_is_stillborn(Server *s, FakeUnit *u) {
        WireMessage m = {};

        if (!fake_sets_may_start(s->script, &u->start, server_uses_leaf(s, u))) {
                wire_header_init(&m, WIRE_REFUSED, u->job_id);
                wire_set_text(m.refused.reason, sizeof(m.refused.reason), "The set is not there or in use.");
        } else if (u->behaviour == FAKE_REFUSE) {
                wire_header_init(&m, WIRE_REFUSED, u->job_id);
                wire_set_text(m.refused.reason, sizeof(m.refused.reason), "The script says so.");
                wire_set_text(m.refused.remedy, sizeof(m.refused.remedy), "Change the script.");
        } else if (u->behaviour == FAKE_START_FAILS) {
                wire_header_init(&m, WIRE_FINISHED, u->job_id);
                m.finished.result = WIRE_RESULT_EXIT_CODE;
                m.finished.start_failed = 1;
                m.finished.main_code = CLD_EXITED;
                m.finished.main_status = 226;
                m.finished.cpu_nsec = m.finished.memory_peak_bytes = WIRE_UNKNOWN;
        } else
                return false;

        u->job_id = 0;
        server_send(s, &m);
        return true;
}

static int server_start(Server *s, const WireStart *m, int fds[static _WIRE_FD_MAX]) {
        static const char garbage[] = "this is no packet";
        unsigned n = s->report->n_starts++;
        FakeUnit *u;
        int r;

        u = server_find(s, 0);
        if (!u)
                abort();
        unit_recycle(u);
        u->server = s;
        u->job_id = m->header.job_id;
        u->start = *m;
        u->behaviour = n < s->script->n_behaviours ? s->script->behaviours[n] : FAKE_RUN;
        for (size_t i = 0; i < _WIRE_FD_MAX; i++)
                u->fds[i] = fds[i];
        s->report->limits = m->limits;
        s->report->n_prepared += m->profile == WIRE_PROFILE_FETCH || m->profile == WIRE_PROFILE_INSTALL;

        if (u->behaviour == FAKE_DROPS_AT_START)
                return sd_event_exit(s->event, 0);
        if (u->behaviour == FAKE_GARBAGE_PACKET) {
                (void) send(s->fd, garbage, sizeof(garbage), MSG_NOSIGNAL);
                return 0;
        }
        if (unit_is_stillborn(s, u))
                return 0;

        u->pid = fork();
        if (u->pid < 0)
                return -errno;
        if (u->pid == 0) {
                /* No run outlives a real launcher either, however that one ends. */
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                fake_runner_main(u->behaviour, s->script, &u->start, u->fds);
        }
        /* As the child does: a STOP that comes before it ran must find the group. */
        (void) setpgid(u->pid, u->pid);
        s->report->n_alive++;
        r = sd_event_add_child(s->event, &u->child_source, u->pid, WEXITED, unit_on_child, u);
        if (r < 0)
                return r;
        if (u->behaviour != FAKE_STARTED_NEVER && u->behaviour != FAKE_NEVER_STARTS)
                send_started(s, u);
        if (u->behaviour == FAKE_DROPS_RUNNING)
                return after(u, 200 * USEC_PER_MSEC, unit_on_drop);
        return 0;
}

static int server_say_hello(sd_event_source *source, uint64_t usec, void *userdata);

static int server_on_packet(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        Server *s = userdata;
        int fds[_WIRE_FD_MAX], r;
        WireMessage m;
        FakeUnit *u;

        (void) source;
        (void) revents;

        r = wire_receive(fd, WIRE_ROLE_LAUNCHER, &m, fds);
        if (r == -EAGAIN)
                return 0;
        if (r == -EBADMSG)
                s->report->n_violations++;
        if (r <= 0)
                return sd_event_exit(s->event, r);

        switch (m.header.type) {
        case WIRE_START:
                if (wire_check_start_fds(fds) < 0)
                        s->report->n_violations++;
                return server_start(s, &m.start, fds);
        case WIRE_ASSIGN:
                s->report->n_assigns++;
                s->report->assigned = m.assign.limits;
                return 0;
        case WIRE_SET:
                server_change_set(s, &m.set);
                return 0;
        case WIRE_LOOK:
                s->report->n_looks++;
                return server_say_hello(NULL, 0, s);
        case WIRE_STOP:
                s->report->n_stops++;
                u = server_find(s, m.header.job_id);
                if (u && u->behaviour == FAKE_READS_LATE) {
                        char bytes[4096];

                        while (recv(u->fds[WIRE_FD_CONTROL], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
                                ;
                }
                if (u && u->pid > 0)
                        (void) kill(-u->pid, SIGKILL);
                return 0;
        }
        return 0;
}

static int server_say_hello(sd_event_source *source, uint64_t usec, void *userdata) {
        Server *s = userdata;
        WireMessage m = {};

        (void) source;
        (void) usec;

        wire_header_init(&m, WIRE_HELLO, 0);
        m.hello.is_user = s->script->is_user;
        m.hello.has_memory_peak = 1;
        m.hello.controllers = 7;
        m.hello.manager_version = 257;
        fake_sets_say_hello(s->script, s->report->n_looks > 0, &m.hello);
        m.hello.memory_max_bytes = 256 << 20;
        m.hello.tasks_max = 64;
        m.hello.cpu_quota_per_sec_usec = USEC_PER_SEC;
        m.hello.runtime_max_usec = WIRE_RUNTIME_USEC_MAX;
        m.hello.tmpfs_bytes = 32 << 20;
        wire_set_text(m.hello.manager_version_text, sizeof(m.hello.manager_version_text), "257.fake");
        wire_set_text(m.hello.interpreters[0], sizeof(m.hello.interpreters[0]),
                      s->script->interpreter ?: "/bin/sh");
        if (s->script->refuses) {
                m.hello.verdict = WIRE_VERDICT_REFUSED;
                wire_set_text(m.hello.reason, sizeof(m.hello.reason), "PrivateNetwork= is missing.");
                wire_set_text(m.hello.remedy, sizeof(m.hello.remedy), "Install a better systemd.");
        }
        server_send(s, &m);
        return 0;
}

int fake_launcher_serve(int fd, const FakeScript *script, FakeReport *report) {
        Server *s;
        sigset_t mask;
        int r;

        s = calloc(1, sizeof(Server));
        if (!s)
                return -ENOMEM;
        s->fd = fd;
        s->script = script;
        s->report = report;

        (void) signal(SIGPIPE, SIG_IGN);
        (void) sigemptyset(&mask);
        (void) sigaddset(&mask, SIGCHLD);
        (void) sigprocmask(SIG_BLOCK, &mask, NULL);

        r = fd_set_nonblock(fd, true);
        if (r >= 0)
                r = sd_event_new(&s->event);
        if (r >= 0)
                r = sd_event_add_io(s->event, NULL, fd, EPOLLIN, server_on_packet, s);
        if (r >= 0 && !script->is_silent && !script->closes_at_once)
                r = sd_event_add_time_relative(s->event, NULL, CLOCK_MONOTONIC, script->hello_delay_usec, 1,
                                               server_say_hello, s);
        if (r >= 0 && !script->closes_at_once)
                r = sd_event_loop(s->event);

        /* The connection's end stops all of its jobs. */
        for (size_t i = 0; i < UNITS_MAX; i++)
                if (s->units[i].pid > 0 && s->units[i].job_id != 0) {
                        (void) kill(-s->units[i].pid, SIGKILL);
                        (void) waitpid(s->units[i].pid, NULL, 0);
                        report->n_alive--;
                }
        return r;
}

FakeLauncher* fake_launcher_new(const FakeScript *script) {
        FakeLauncher *f;

        f = calloc(1, sizeof(FakeLauncher));
        if (!f)
                abort();
        f->script = *script;
        f->report = mmap(NULL, sizeof(FakeReport), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                         /* fd= */ -1, 0);
        if (f->report == MAP_FAILED)
                abort();
        (void) snprintf(f->script.directory, sizeof(f->script.directory), "/tmp/mcp-exec-fake-XXXXXX");
        if (!mkdtemp(f->script.directory))
                abort();
        return f;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
        (void) st;
        (void) type;
        (void) ftw;
        return remove(path);
}

FakeLauncher* fake_launcher_free(FakeLauncher *f) {
        if (!f)
                return NULL;

        for (unsigned i = 0; i < f->n_pids; i++) {
                (void) kill(f->pids[i], SIGTERM);
                (void) waitpid(f->pids[i], NULL, 0);
        }
        (void) nftw(f->script.directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        (void) munmap(f->report, sizeof(FakeReport));
        free(f);
        return NULL;
}

const FakeReport* fake_launcher_report(const FakeLauncher *f) {
        return f->report;
}

bool fake_launcher_is_gone(FakeLauncher *f) {
        for (unsigned i = 0; i < f->n_pids; i++) {
                siginfo_t si = {};

                if (waitid(P_PID, (id_t) f->pids[i], &si, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                    si.si_pid == 0)
                        return false;
        }
        return true;
}

int fake_launcher_connect(void *fake_launcher, char **reterr_message) {
        FakeLauncher *f = fake_launcher;
        pid_t parent = getpid();
        int fds[2];

        (void) reterr_message;

        if (f->n_pids >= CONNECTIONS_MAX)
                abort();
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
                return -errno;

        f->report->n_connections++;
        f->pids[f->n_pids] = fork();
        if (f->pids[f->n_pids] < 0)
                abort();
        if (f->pids[f->n_pids] == 0) {
                /* Nothing of the test's may stay open here: its ends of sockets and pipes must be able to
                 * end. */
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (getppid() != parent)
                        _exit(1);
                (void) dup2(fds[1], 3);
                (void) close_range(4, ~0U, 0);
                (void) fcntl(3, F_SETFD, FD_CLOEXEC);
                (void) fake_launcher_serve(3, &f->script, f->report);
                _exit(0);
        }
        f->n_pids++;
        (void) close(fds[1]);
        return fds[0];
}
