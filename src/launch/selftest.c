/* SPDX-License-Identifier: MIT */

/* Self-test.
 *
 * The unit's program checks everything that can be seen from inside, then waits on its control socket.
 * Meanwhile we read its cgroup, then close the socket; its exit status names the first check that failed
 * (runner/checks.h). Its output goes nowhere: this process reads no byte that a sandbox wrote, not even
 * its own. */

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/strv.h"
#include "config.h"
#include "launch/bus.h"
#include "launch/controllers.h"
#include "launch/job.h"
#include "launch/selftest.h"
#include "launch/verdict-cache.h"
#include "runner/checks.h"

#define SELFTEST_RUNTIME_USEC (60 * USEC_PER_SEC)
#define STATUS_OF_SYSTEMD 200 /* and above */
#define STATUS_NAMESPACE 226

struct SelfTest {
        Sandbox *sandbox;
        Job *job;
        int control; /* our end */
        WireLimits limits;
        bool has_read_limits;
        sd_bus_slot *question;
        sd_event_source *defer;
        void (*on_done)(void *userdata);
        void *userdata;
};

static const struct {
        int status;
        const char *reason, *remedy;
} checks[] = {
#define CHECK_ROW(number, name, sentence, fix) { RUNNER_EXIT_CHECK + (number), sentence, fix },
        RUNNER_CHECKS(CHECK_ROW)
#undef CHECK_ROW
        /* systemd's own exit statuses, when it could not set the unit up. */
        { 203, "the first program of a run, " MCP_EXEC_LIBDIR "/init, cannot be executed",
          "Reinstall mcp-exec" },
        { 217, "the service manager cannot make a user for a run",
          "Allow user namespaces (sysctl user.max_user_namespaces) and dynamic users here" },
        { 218, "the service manager cannot drop the capabilities of a run", REMEDY_JOURNAL },
        { 219, "the service manager cannot make the cgroup of a run", REMEDY_JOURNAL },
        { 225, "the service manager cannot make a network namespace", REMEDY_JOURNAL },
        { STATUS_NAMESPACE, "the service manager cannot make the namespaces and mounts of a run",
          "Make room below /tmp and /var/tmp, or allow namespaces here; in a container, let it nest (for "
          "nspawn and LXC: security.nesting)" },
        { 228, "the service manager cannot install the system call filter", REMEDY_JOURNAL },
};

static int selftest_begin(SelfTest *t);

static bool userns_is_restricted(void) {
        _cleanup_free_ char *text = NULL;

        /* Ubuntu's switch: an unprivileged user namespace gets no capabilities. */
        return file_read(AT_FDCWD, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 16, &text,
                         NULL) >= 0 &&
               text[0] == '1';
}

static void selftest_end(SelfTest *t, bool is_good) {
        Sandbox *s = t->sandbox;
        int r;

        t->control = safe_close(t->control);
        t->job = NULL;
        s->has_problem = !is_good;
        if (is_good) {
                r = verdict_cache_write(s);
                if (r < 0)
                        (void) log_debug_errno(r, "The verdict of the self-test cannot be kept");
                log_info("Self-test passed on systemd %s", s->manager->version_text);
        } else
                log_error("Runs are refused: %s. %s.", s->problem.reason, s->problem.remedy);
        t->on_done(t->userdata);
}

static void selftest_fail(SelfTest *t, const char *remedy, const char *reason) {
        (void) problem_set(&t->sandbox->problem, EOPNOTSUPP, remedy, "%s", reason);
        selftest_end(t, /* is_good= */ false);
}

/* A path of the administrator's that is missing, or is mounted over what a run has of its own, fails like a
 * machine that cannot do it. */
static void fail_check(SelfTest *t, int status, const char *remedy, const char *reason) {
        char **paths = t->sandbox->settings->bind_read_only_paths;
        char text[sizeof(t->sandbox->problem.remedy)];

        if (!paths || !*paths || (status >= STATUS_OF_SYSTEMD && status != STATUS_NAMESPACE)) {
                selftest_fail(t, remedy, reason);
                return;
        }
        (void) snprintf(text, sizeof(text),
                        "Look first at BindReadOnlyPaths= in mcp-exec.conf: each path has to be there, and "
                        "none may be a place that a run has of its own, such as /etc. Otherwise: %s",
                        remedy);
        selftest_fail(t, text, reason);
}

static void judge_status(SelfTest *t, const WireFinished *f) {
        bool is_user = t->sandbox->is_user;
        char text[sizeof(t->sandbox->problem.reason)];

        for (size_t i = 0; i < ELEMENTSOF(checks); i++) {
                if (f->main_code != 1 || f->main_status != checks[i].status)
                        continue;
                if (is_user && userns_is_restricted()) {
                        selftest_fail(t, remedy_system_service(),
                                      "AppArmor on this machine restricts user namespaces, so that a user's "
                                      "own service manager cannot isolate a run");
                        return;
                }
                (void) snprintf(text, sizeof(text), "The sandbox does not hold on this machine: %s",
                                checks[i].reason);
                fail_check(t, checks[i].status,
                           is_user && checks[i].status >= STATUS_OF_SYSTEMD ? remedy_system_service() :
                                                                               checks[i].remedy,
                           text);
                return;
        }

        (void) snprintf(text, sizeof(text),
                        "The sandbox's self-test ended unexpectedly (%s, code %" PRId32 ", %" PRId32 ")",
                        wire_result_to_string((WireResult) f->result), f->main_code, f->main_status);
        selftest_fail(t, is_user ? remedy_system_service() : REMEDY_JOURNAL, text);
}

static void judge_limits(SelfTest *t) {
        unsigned missing = t->sandbox->settings->require_controllers & ~t->sandbox->controllers;
        char names[32], text[256];

        if (missing == 0) {
                selftest_end(t, /* is_good= */ true);
                return;
        }

        controllers_to_string(missing, names);
        (void) snprintf(text, sizeof(text), "Limits of a run do not hold here: no cgroup controller for %s",
                        names);
        selftest_fail(t,
                      "Give the service manager cgroup v2 with the controllers memory, pids and cpu; or, to "
                      "accept runs without these limits, leave them out of RequireControllers= in [Sandbox] "
                      "of /etc/mcp-exec/mcp-exec.conf (all of them: nothing after the =)",
                      text);
}

static void on_finished(Job *j _unused_, const WireFinished *f, void *userdata) {
        SelfTest *t = userdata;

        t->question = sd_bus_slot_unref(t->question);
        if (f->result == WIRE_RESULT_SUCCESS && f->main_code == 1 && f->main_status == 0 &&
            t->has_read_limits)
                judge_limits(t);
        else
                judge_status(t, f);
}

static void on_refused(Job *j _unused_, const Problem *problem, const char *unknown_property,
                       void *userdata) {
        SelfTest *t = userdata;
        const ProfileRow *row = unknown_property ? profile_find(unknown_property) : NULL;

        if (row && row->is_optional && !strv_contains(t->sandbox->without, unknown_property)) {
                log_notice("This systemd does not know %s=, going on without it", unknown_property);
                if (strv_extend(&t->sandbox->without, unknown_property) >= 0 && selftest_begin(t) >= 0)
                        return;
        }

        t->sandbox->problem = *problem;
        selftest_end(t, /* is_good= */ false);
}

static int on_cgroup(sd_bus_message *m, void *userdata, sd_bus_error *error _unused_) {
        SelfTest *t = userdata;
        _cleanup_free_ char *directory = NULL;
        const char *cgroup;

        /* When it cannot be read, has_read_limits stays false and there is no good verdict. */
        if (!sd_bus_message_is_method_error(m, NULL) && sd_bus_message_read(m, "v", "s", &cgroup) >= 0 &&
            cgroup[0] == '/' && str_printf(&directory, "/sys/fs/cgroup%s", cgroup) >= 0) {
                t->sandbox->controllers = controllers_enforced(directory, &t->limits);
                t->has_read_limits = true;
        }

        t->control = safe_close(t->control); /* the unit may end now */
        return 0;
}

static void on_started(Job *j, void *userdata) {
        SelfTest *t = userdata;

        if (sd_bus_call_method_async(t->sandbox->manager->bus, &t->question, MANAGER_NAME, job_path(j),
                                     PROPERTIES_INTERFACE, "Get", on_cgroup, t, "ss", SERVICE_INTERFACE,
                                     "ControlGroup") < 0)
                t->control = safe_close(t->control);
}

static const JobHandlers selftest_handlers = {
        .on_started = on_started,
        .on_finished = on_finished,
        .on_refused = on_refused,
};

/* Two writing ends that nobody reads: what the unit writes is refused to it. */
static int make_descriptors(int fds[static _WIRE_FD_MAX], int *ret_control) {
        int pair[2], ends[2], r;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        *ret_control = pair[0];
        fds[WIRE_FD_CONTROL] = pair[1];

        for (int i = WIRE_FD_STDOUT; i <= WIRE_FD_STDERR; i++) {
                r = pipe_new(ends);
                if (r < 0)
                        return r;
                safe_close(ends[0]);
                fds[i] = ends[1];
        }
        return 0;
}

static int selftest_begin(SelfTest *t) {
        _cleanup_(unit_spec_freep) UnitSpec *spec = NULL;
        UnitChoice choice = { .is_selftest = true };
        int fds[_WIRE_FD_MAX] = { -EBADF, -EBADF, -EBADF };
        int r;

        t->has_read_limits = false;
        t->limits = t->sandbox->ceilings[WIRE_PROFILE_RUN];
        t->limits.runtime_max_usec = SELFTEST_RUNTIME_USEC;
        choice.limits = t->limits;

        t->control = safe_close(t->control);
        r = make_descriptors(fds, &t->control);
        if (r >= 0)
                r = sandbox_unit_spec(t->sandbox, &choice, &spec);
        if (r >= 0)
                r = job_start(t->sandbox->manager, spec, fds, &selftest_handlers, t, &t->job);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                safe_close(fds[i]);
        return r;
}

static int on_defer(sd_event_source *source _unused_, void *userdata) {
        SelfTest *t = userdata;

        t->defer = sd_event_source_disable_unref(t->defer);

        if (t->sandbox->has_problem || verdict_cache_read(t->sandbox))
                t->on_done(t->userdata);
        else if (selftest_begin(t) < 0)
                selftest_fail(t, REMEDY_JOURNAL, "The sandbox's self-test cannot be started");
        return 0;
}

int selftest_start(sd_event *event, Sandbox *s, void (*on_done)(void *userdata), void *userdata,
                   SelfTest **ret) {
        _cleanup_(selftest_freep) SelfTest *t = NULL;
        int r;

        assert(event && s && on_done && ret);

        t = calloc(1, sizeof(*t));
        if (!t)
                return -ENOMEM;
        t->control = -EBADF;
        t->sandbox = s;
        t->on_done = on_done;
        t->userdata = userdata;
        r = sd_event_add_defer(event, &t->defer, on_defer, t);
        if (r < 0)
                return r;

        *ret = TAKE_PTR(t);
        return 0;
}

SelfTest* selftest_free(SelfTest *t) {
        if (!t)
                return NULL;

        if (t->job)
                job_abandon(t->job);
        safe_close(t->control);
        sd_bus_slot_unref(t->question);
        sd_event_source_disable_unref(t->defer);
        free(t);
        return NULL;
}
