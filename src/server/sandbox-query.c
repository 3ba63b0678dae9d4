/* SPDX-License-Identifier: MIT */

#include "server/sandbox-query.h"

#include <systemd/sd-event.h>

#include "base/macro.h"
#include "base/strv.h"
#include "base/timeutil.h"
#include "server/event-loop.h"

#define USER_TIMEOUT_USEC (10 * USEC_PER_SEC)

typedef struct Query {
        sd_event *event;
        void (*handler)(const ExecSandboxInfo *info, void *userdata);
        void *userdata;
} Query;

static void on_info(const ExecSandboxInfo *info, void *userdata) {
        Query *q = userdata;

        q->handler(info, q->userdata);
        (void) sd_event_exit(q->event, 0);
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata) {
        Query *q = userdata;

        (void) source;
        (void) usec;
        q->handler(NULL, q->userdata);
        return sd_event_exit(q->event, 0);
}

int sandbox_query(const Settings *settings, LauncherConnect *connect, uint64_t timeout_usec,
                  void (*handler)(const ExecSandboxInfo *info, void *userdata), void *userdata) {
        _cleanup_(sd_event_unrefp) sd_event *event = NULL;
        _cleanup_(exec_engine_freep) ExecEngine *engine = NULL;
        Query query = { .handler = handler, .userdata = userdata };
        ExecEngineParameters parameters = {
                .settings = settings,
                .connect = launcher_connect,
                .userdata = connect,
        };
        int r;

        assert(settings);
        assert(connect);
        assert(handler);

        r = sd_event_new(&event);
        if (r < 0)
                return r;
        query.event = parameters.event = event;
        r = exec_engine_new(&parameters, &engine);
        if (r < 0)
                return r;
        r = sd_event_add_time_relative(event, NULL, CLOCK_MONOTONIC, timeout_usec, 0, on_timeout, &query);
        if (r < 0)
                return r;
        r = exec_engine_query_sandbox(engine, on_info, &query);
        if (r < 0)
                return r;
        return event_loop_run(&(EventLoopParameters) { .event = event });
}

typedef struct Fault {
        char *text;
        int error;
} Fault;

static void take_verdict(const ExecSandboxInfo *info, void *userdata) {
        Fault *f = userdata;

        if (info && info->is_known && info->hello.verdict == WIRE_VERDICT_OK)
                return;
        f->error = str_copy(&f->text, !info          ? "it does not answer" :
                                      info->is_known ? info->hello.reason :
                                      info->error    ? info->error : "its launcher cannot be started");
}

int sandbox_of_user_find_fault(char **ret) {
        _cleanup_(settings_freep) Settings *settings = NULL;
        _cleanup_free_ char *message = NULL;
        LauncherConnect connect = { .is_quiet = true };
        Fault fault = {};
        int r;

        assert(ret);

        *ret = NULL;
        r = settings_load(/* is_user= */ true, &settings, &message);
        if (r < 0)
                return r == -ENOMEM ? r : 0;
        settings->pool_size = 0; /* this engine only asks */
        (void) sandbox_query(settings, &connect, USER_TIMEOUT_USEC, take_verdict, &fault);
        *ret = fault.text;
        return fault.error;
}
