/* SPDX-License-Identifier: MIT */

/* The life of the service.
 *
 *   starting ──► serving ──► stopping ──► exit
 *                  │  └─ idle for ExitIdleSec=, no result kept (only when systemd listens for us) ─► exit
 *
 * stopping (SIGTERM, SIGINT): nobody new is let in, what runs is answered, then the process ends. A second
 * signal, or the longest time a program may take, ends the wait. */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>

#include "base/log.h"
#include "base/macro.h"
#include "base/strv.h"
#include "base/timeutil.h"
#include "server/command.h"
#include "server/daemon.h"
#include "server/event-loop.h"
#include "server/metrics.h"
#include "server/notify.h"
#include "server/reload.h"
#include "server/resource-metadata.h"
#include "server/service.h"
#include "transport/session-store.h"
#include "transport/transport.h"

/* After the last run, its answer still has to reach the client; a client that does not read must not hold
 * us. */
#define LAST_ANSWERS_USEC (2 * USEC_PER_SEC)
/* Beyond the longest run: time for its unit to be dead. */
#define STOP_GRACE_USEC (10 * USEC_PER_SEC)
/* What systemctl status shows may be this old. */
#define STATUS_DELAY_USEC (500 * USEC_PER_MSEC)

typedef enum ServiceState {
        SERVICE_STARTING,
        SERVICE_SERVING,
        SERVICE_STOPPING,
} ServiceState;

typedef struct Service {
        ServiceParameters parameters;
        ServiceState state;
        sd_event *event;
        sd_event_source *idle_timer, *stop_timer, *status_timer;
        Daemon *daemon;
        Settings *fresh_settings; /* of the last reload, for the listeners; NULL: those of the start */
        Metrics *metrics;
        char *reload_problem;     /* where the last one found a mistake; NULL: nowhere */
        ResourceMetadata metadata;
        HttpSite site;
        SessionStore *sessions;
        Listener *listeners[SERVICE_SOCKETS_MAX];
        size_t n_listeners;
} Service;

static size_t n_connections(const Service *s) {
        size_t n = 0;

        for (size_t i = 0; i < s->n_listeners; i++)
                n += listener_n_connections(s->listeners[i]);
        return n;
}

static size_t n_sessions(const Service *s) {
        size_t n = 0;

        for (size_t i = 0; i < s->n_listeners; i++)
                n += listener_n_sessions(s->listeners[i]);
        return n;
}

/* What is told to whom connects from now on. The rest is that of the start. */
static const Settings* listener_settings(const Service *s) {
        return s->fresh_settings ?: s->parameters.settings;
}

static size_t n_runs(const Service *s) {
        return exec_engine_n_running(daemon_engine(s->daemon)) +
               exec_engine_n_queued(daemon_engine(s->daemon));
}

static int set_timer(Service *s, sd_event_source **source, uint64_t usec, sd_event_time_handler_t handler) {
        int r;

        if (*source) {
                r = sd_event_source_set_time_relative(*source, usec);
                return r < 0 ? r : sd_event_source_set_enabled(*source, SD_EVENT_ONESHOT);
        }
        return sd_event_add_time_relative(s->event, source, CLOCK_MONOTONIC, usec, /* accuracy= */ 0,
                                          handler, s);
}

static void tell_status(const Service *s) {
        const ExecSandboxInfo *info = exec_engine_sandbox(daemon_engine(s->daemon));
        const char *sandbox = !info->is_known                        ? "not asked yet" :
                              info->hello.verdict == WIRE_VERDICT_OK ? "ok" :
                                                                       "REFUSED, see \"mcp-exec check\"";
        char text[1024];

        (void) snprintf(text, sizeof(text),
                        "STATUS=%s: %zu running, %zu waiting, %zu results kept, %zu connections; sandbox: "
                        "%s%s%s",
                        s->state == SERVICE_STOPPING ? "Stopping" : "Serving",
                        exec_engine_n_running(daemon_engine(s->daemon)),
                        exec_engine_n_queued(daemon_engine(s->daemon)),
                        run_table_n_kept(daemon_runs(s->daemon)), n_connections(s), sandbox,
                        s->reload_problem ? "; " RELOAD_FAILED_TEXT : "", s->reload_problem ?: "");
        (void) notify_now(text, -EBADF);
}

static int on_status_due(sd_event_source *source, uint64_t usec, void *userdata) {
        (void) source;
        (void) usec;
        tell_status(userdata);
        return 0;
}

/* Not each time: a client that connects and leaves in a loop would keep the service manager busy. */
static void tell_status_soon(Service *s) {
        int is_enabled = SD_EVENT_OFF;

        if (s->status_timer && sd_event_source_get_enabled(s->status_timer, &is_enabled) >= 0 &&
            is_enabled != SD_EVENT_OFF)
                return;
        (void) set_timer(s, &s->status_timer, STATUS_DELAY_USEC, on_status_due);
}

/* ---- Stopping ---- */

static int on_stop_deadline(sd_event_source *source, uint64_t usec, void *userdata) {
        Service *s = userdata;

        (void) source;
        (void) usec;
        if (n_runs(s) > 0)
                log_warning("%zu programs still run; they are ended now", n_runs(s));
        return sd_event_exit(s->event, COMMAND_OK);
}

static void advance_stop(Service *s) {
        int r;

        if (n_runs(s) > 0)
                return;
        if (n_connections(s) == 0) {
                (void) sd_event_exit(s->event, COMMAND_OK);
                return;
        }
        r = set_timer(s, &s->stop_timer, LAST_ANSWERS_USEC, on_stop_deadline);
        if (r < 0)
                (void) sd_event_exit(s->event, COMMAND_OK);
}

static void stop(Service *s) {
        int r;

        if (s->state != SERVICE_SERVING) { /* told twice, or before there was anything to finish */
                (void) sd_event_exit(s->event, COMMAND_OK);
                return;
        }
        s->state = SERVICE_STOPPING;
        if (s->idle_timer)
                (void) sd_event_source_set_enabled(s->idle_timer, SD_EVENT_OFF);
        (void) sd_notify(false, "STOPPING=1");
        tell_status(s);
        if (n_runs(s) > 0)
                log_info("Stopping once %zu programs are answered", n_runs(s));

        r = set_timer(s, &s->stop_timer, s->parameters.settings->max_timeout_usec + STOP_GRACE_USEC,
                      on_stop_deadline);
        if (r < 0) {
                (void) log_error_errno(r, "Cannot set a deadline for the stop, so it is now");
                (void) sd_event_exit(s->event, COMMAND_OK);
                return;
        }
        for (size_t i = 0; i < s->n_listeners; i++)
                listener_drain(s->listeners[i]);
        python_drain(daemon_python(s->daemon));
        exec_engine_drain(daemon_engine(s->daemon));
        advance_stop(s);
}

/* ---- Idle ---- */

static int on_idle_for_long(sd_event_source *source, uint64_t usec, void *userdata) {
        Service *s = userdata;

        (void) source;
        (void) usec;
        /* A client that connects from here on waits in the socket that systemd holds, and gets a new
         * service. */
        log_debug("Idle, so the service ends until somebody connects");
        s->state = SERVICE_STOPPING;
        (void) sd_notify(false, "STOPPING=1\nSTATUS=Idle, waiting for a connection");
        return sd_event_exit(s->event, COMMAND_OK);
}

static void idle_changed(Service *s) {
        const ServiceParameters *p = &s->parameters;
        int r;

        if (s->state == SERVICE_STARTING)
                return;
        tell_status_soon(s);
        if (s->state == SERVICE_STOPPING) {
                advance_stop(s);
                return;
        }
        if (!p->sockets->is_activated || listener_settings(s)->exit_idle_usec == 0)
                return;
        /* The service manager drops what it stores for us when we are gone and no start is due. */
        if (n_connections(s) > 0 || n_runs(s) > 0 || run_table_n_kept(daemon_runs(s->daemon)) > 0 ||
            !python_is_idle(daemon_python(s->daemon))) {
                if (s->idle_timer)
                        (void) sd_event_source_set_enabled(s->idle_timer, SD_EVENT_OFF);
                return;
        }
        r = set_timer(s, &s->idle_timer, listener_settings(s)->exit_idle_usec, on_idle_for_long);
        if (r < 0)
                (void) log_warning_errno(r, "Cannot set the timer for the exit on idle");
}

static void on_listener_idle_changed(Listener *l, bool is_idle, void *userdata) {
        (void) l;
        (void) is_idle;
        idle_changed(userdata);
}

static void on_engine_idle_changed(bool is_idle, void *userdata) {
        (void) is_idle;
        idle_changed(userdata);
}

/* ---- What HTTP tells beside MCP ---- */

static void on_sandbox_asked(const ExecSandboxInfo *info, void *userdata) {
        (void) info;
        (void) userdata;
}

static bool is_sandbox_ok(const Service *s) {
        const ExecSandboxInfo *info = exec_engine_sandbox(daemon_engine(s->daemon));

        return info->is_known && info->hello.verdict == WIRE_VERDICT_OK;
}

/* Ready is what was verified. Where nobody has asked yet, the next probe gets the answer. */
static bool site_is_ready(void *userdata) {
        Service *s = userdata;

        if (s->state != SERVICE_SERVING)
                return false;
        if (!exec_engine_sandbox(daemon_engine(s->daemon))->is_known)
                (void) exec_engine_query_sandbox(daemon_engine(s->daemon), on_sandbox_asked, s);
        return is_sandbox_ok(s);
}

static int site_write_metrics(void *userdata, Buffer *b) {
        const Service *s = userdata;
        const MetricsGauges gauges = {
                .n_running = exec_engine_n_running(daemon_engine(s->daemon)),
                .n_queued = exec_engine_n_queued(daemon_engine(s->daemon)),
                .n_warm = exec_engine_n_warm(daemon_engine(s->daemon)),
                .n_connections = n_connections(s),
                .n_sessions = n_sessions(s),
                .n_kept = run_table_n_kept(daemon_runs(s->daemon)),
                .kept_bytes = run_table_kept_bytes(daemon_runs(s->daemon)),
                .is_sandbox_ok = is_sandbox_ok(s),
        };

        return metrics_write(s->metrics, &gauges, b);
}

static int load_metadata(Service *s, ResourceMetadata *ret_old, char **reterr_message) {
        ResourceMetadata fresh = {};
        int r;

        r = resource_metadata_load(s->parameters.metadata_file, &fresh, reterr_message);
        if (r < 0)
                return r;
        *ret_old = s->metadata;
        s->metadata = fresh;
        s->site.metadata = fresh.text;
        s->site.metadata_url = fresh.url;
        return 0;
}

/* ---- Reload ---- */

/* Between two turns of the loop: no request sees half of it, and those under way have their principal. */
static void service_reload(Service *s) {
        _cleanup_free_ char *access_message = NULL, *metadata_message = NULL;
        ResourceMetadata old_metadata = {};
        Settings *fresh = NULL;
        Access *old_access = NULL;
        int r;

        (void) str_copy(&s->reload_problem, NULL);
        reload_settings(s->parameters.settings, s->parameters.is_user, &fresh, &s->reload_problem);
        r = principals_reload(s->parameters.principals, &old_access, &access_message);
        if (r < 0)
                reload_complain(&s->reload_problem, r, access_message, "The file of tokens");
        r = load_metadata(s, &old_metadata, &metadata_message);
        if (r < 0)
                reload_complain(&s->reload_problem, r, metadata_message, "The OAuth metadata");

        for (size_t i = 0; i < s->n_listeners; i++)
                listener_reload(s->listeners[i], fresh ?: listener_settings(s),
                                principals_access(s->parameters.principals));
        if (fresh) {
                (void) settings_free(s->fresh_settings);
                s->fresh_settings = fresh;
        }
        resource_metadata_done(&old_metadata);
        (void) access_free(old_access);
}

/* ---- Signals ---- */

static void hang_up(Service *s) {
        /* MONOTONIC_USEC belongs to Type=notify-reload; Type=notify ignores it. */
        (void) sd_notifyf(false, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, now_monotonic_usec());
        service_reload(s);
        (void) sd_notify(false, "READY=1");
        tell_status(s);
}

static int on_signal(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        int number = event_loop_read_signal(fd);

        (void) source;
        (void) revents;
        if (number == SIGHUP)
                hang_up(userdata);
        else if (number > 0)
                stop(userdata);
        return 0;
}

/* ---- Starting ---- */

static int start_listeners(Service *s) {
        ServiceSockets *sockets = s->parameters.sockets;
        int r;

        for (size_t i = 0; i < sockets->n_sockets; i++) {
                ListenerParameters p = {
                        .event = s->event,
                        .server = daemon_server(s->daemon),
                        .settings = listener_settings(s),
                        .fd = sockets->fds[i],
                        .access = principals_access(s->parameters.principals),
                        .sessions = s->sessions,
                        .site = &s->site,
                        .is_open = s->parameters.no_auth,
                        .is_proxy = sockets->is_proxy[i],
                        .on_idle_changed = on_listener_idle_changed,
                        .userdata = s,
                };
                r = (service_sockets_are_http(sockets, i) ? http_listener_new : unix_listener_new)(
                        &p, &s->listeners[s->n_listeners]);
                if (r < 0)
                        return r;
                sockets->fds[i] = -EBADF;
                s->n_listeners++;
        }
        return 0;
}

static void on_ready(void *userdata) {
        Service *s = userdata;
        int r;

        if (s->state != SERVICE_STARTING)
                return;
        r = start_listeners(s);
        if (r < 0) {
                (void) log_error_errno(r, "Cannot serve the sockets");
                (void) sd_event_exit(s->event, COMMAND_FAILED);
                return;
        }
        s->state = SERVICE_SERVING;
        (void) sd_notify(false, "READY=1");
        idle_changed(s);
}

static int set_up(Service *s, char **reterr_message) {
        static const int signals[] = { SIGTERM, SIGINT, SIGHUP };
        DaemonParameters daemon = {
                .settings = s->parameters.settings,
                .launcher_socket_path = s->parameters.launcher_socket_path,
                .programs_directory = s->parameters.programs_directory,
                .has_audit = true,
                .principals = s->parameters.principals,
                .has_fd_store = s->parameters.sockets->is_activated,
                .on_idle_changed = on_engine_idle_changed,
                .userdata = s,
        };
        ResourceMetadata none;
        int r;

        r = sd_event_new(&s->event);
        if (r < 0)
                return r;
        r = sd_event_set_watchdog(s->event, true);
        if (r < 0)
                return r;
        r = event_loop_watch_signals(s->event, signals, ELEMENTSOF(signals), on_signal, s);
        if (r < 0)
                return r;
        /* There may be no memory for one when it is needed. */
        r = sd_event_add_time(s->event, &s->stop_timer, CLOCK_MONOTONIC, UINT64_MAX, 0, on_stop_deadline, s);
        if (r < 0)
                return r;
        r = metrics_new(&s->metrics);
        if (r < 0)
                return r;
        s->site.is_ready = site_is_ready;
        s->site.write_metrics = site_write_metrics;
        s->site.userdata = s;
        r = load_metadata(s, &none, reterr_message);
        if (r < 0)
                return r;
        r = session_store_new(getenv("STATE_DIRECTORY"), s->parameters.settings, &s->sessions);
        if (r < 0)
                return r;
        daemon.metrics = s->metrics;
        daemon.event = s->event;
        r = daemon_new(&daemon, &s->daemon);
        if (r < 0)
                return r;
        stored_results_restore(&s->parameters.sockets->results, daemon_runs(s->daemon));
        return daemon_prepare(s->daemon, on_ready, s);
}

static void on_lost_turn(void *userdata) {
        Service *s = userdata;

        for (size_t i = 0; i < s->n_listeners; i++)
                listener_rearm(s->listeners[i]);
}

static void service_done(Service *s) {
        for (size_t i = 0; i < s->n_listeners; i++)
                (void) listener_free(s->listeners[i]);
        (void) session_store_free(s->sessions);
        (void) daemon_free(s->daemon);
        (void) metrics_free(s->metrics);
        (void) settings_free(s->fresh_settings);
        free(s->reload_problem);
        resource_metadata_done(&s->metadata);
        (void) sd_event_source_unref(s->status_timer);
        (void) sd_event_source_unref(s->idle_timer);
        (void) sd_event_source_unref(s->stop_timer);
        (void) sd_event_unref(s->event);
}

int service_run(const ServiceParameters *p) {
        _cleanup_free_ char *message = NULL;
        Service s = {};
        int r;

        assert(p);
        assert(p->settings);
        assert(p->sockets);

        s.parameters = *p;
        r = set_up(&s, &message);
        if (r >= 0)
                r = event_loop_run(&(EventLoopParameters) {
                                .event = s.event,
                                .on_lost_turn = on_lost_turn,
                                .userdata = &s,
                });
        if (message)
                log_error("%s", message);
        else if (r < 0)
                (void) log_error_errno(r, "Cannot serve");
        if (r < 0)
                r = COMMAND_FAILED;
        service_done(&s);
        return r;
}
