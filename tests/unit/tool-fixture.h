/* SPDX-License-Identifier: MIT */
#pragma once

/* The tools between a real protocol engine and a fake execution engine; time and timers are fake. */

#include "base/strv.h"
#include "base/timeutil.h"
#include "mcp-fake.h"
#include "exec/preparation.h"
#include "tool-fake-python.h"
#include "tool/packages.h"
#include "tool/tool.h"

#define RUN_ID "0123456789abcdef0123456789abcdef"

/* ---- Doubles: the execution engine, the clock, one timer ---- */

struct ExecJob {
        ExecRequest *request;
        ExecJobHandlers handlers;
        void *userdata;
        Capture out, err;
        uint64_t elapsed_usec;
        const char *phase;
        bool is_cancelled, is_stopped;
};

struct ExecEngine {
        int submit_result;
        ExecJob job;
        unsigned n_submitted;
        ExecSandboxInfo sandbox;
        void (*on_info)(const ExecSandboxInfo *info, void *userdata);
        const ExecSandboxInfo *info;
        void *info_userdata;
};

static uint64_t clock_usec = 1000000;

typedef struct Timer {
        uint64_t usec;
        sd_event_time_handler_t handler; /* NULL: off */
        void *userdata;
} Timer;

static Timer timers[64];
static size_t n_timers;

int exec_engine_submit(ExecEngine *e, ExecRequest *take_request, const ExecJobHandlers *handlers,
                       void *userdata, ExecJob **ret, char **reterr_message) {
        if (e->submit_result == EXEC_E_BUSY)
                ASSERT_EQ_INT(str_copy(reterr_message, "busy: 64 wait"), 0);
        if (e->submit_result != 0)
                return e->submit_result;
        e->n_submitted++;
        e->job = (ExecJob){ .request = take_request, .handlers = *handlers, .userdata = userdata };
        capture_init(&e->job.out, 1 * MIB);
        capture_init(&e->job.err, 1 * MIB);
        *ret = &e->job;
        return 0;
}

int exec_engine_query_sandbox(ExecEngine *e, void (*on_info)(const ExecSandboxInfo *info, void *userdata),
                              void *userdata) {
        e->on_info = on_info;
        e->info_userdata = userdata;
        return 0;
}

const ExecSandboxInfo* exec_engine_sandbox(const ExecEngine *e) {
        return e->info;
}

void exec_job_cancel(ExecJob *j) {
        j->is_cancelled = true;
}

void exec_job_stop(ExecJob *j) {
        j->is_stopped = true;
}

const char* exec_job_run_id(const ExecJob *j) {
        (void) j;
        return RUN_ID;
}

uint64_t exec_job_elapsed_usec(const ExecJob *j) {
        return j->elapsed_usec;
}

const char* exec_job_phase(const ExecJob *j) {
        return j->phase ?: "";
}

const Capture* exec_job_stream(const ExecJob *j, int stream) {
        return stream == 1 ? &j->out : &j->err;
}

uint64_t now_monotonic_usec(void) {
        return clock_usec;
}

uint64_t now_realtime_usec(void) {
        return 1764444000 * USEC_PER_SEC + clock_usec;
}

int sd_event_add_time_relative(sd_event *e, sd_event_source **s, clockid_t clock, uint64_t usec,
                               uint64_t accuracy, sd_event_time_handler_t callback, void *userdata) {
        (void) e, (void) clock, (void) accuracy;
        ASSERT_TRUE(n_timers < ELEMENTSOF(timers));
        timers[n_timers] = (Timer){ usec, callback, userdata };
        *s = (sd_event_source*) &timers[n_timers++];
        return 0;
}

int sd_event_add_time(sd_event *e, sd_event_source **s, clockid_t clock, uint64_t usec, uint64_t accuracy,
                      sd_event_time_handler_t callback, void *userdata) {
        return sd_event_add_time_relative(e, s, clock, usec - clock_usec, accuracy, callback, userdata);
}

int sd_event_source_set_time(sd_event_source *s, uint64_t usec) {
        ((Timer*) s)->usec = usec - clock_usec;
        return 0;
}

int sd_event_source_set_priority(sd_event_source *s, int64_t priority) {
        (void) s, (void) priority;
        return 0;
}

int sd_event_source_set_time_relative(sd_event_source *s, uint64_t usec) {
        ((Timer*) s)->usec = usec;
        return 0;
}

int sd_event_source_set_enabled(sd_event_source *s, int enabled) {
        (void) s, (void) enabled;
        return 0;
}

sd_event_source* sd_event_source_disable_unref(sd_event_source *s) {
        if (s)
                ((Timer*) s)->handler = NULL;
        return NULL;
}

/* The youngest timer of this length that runs. */
__attribute__((__unused__)) static Timer* timer_of_usec(uint64_t usec) {
        for (size_t i = n_timers; i > 0; i--)
                if (timers[i - 1].handler && timers[i - 1].usec == usec)
                        return &timers[i - 1];
        return NULL;
}

__attribute__((__unused__)) static Timer* timer_of(uint64_t seconds) {
        return timer_of_usec(seconds * USEC_PER_SEC);
}

__attribute__((__unused__)) static void expire_usec(uint64_t usec) {
        Timer *t = timer_of_usec(usec);

        ASSERT_TRUE(t != NULL);
        ASSERT_EQ_INT(t->handler((sd_event_source*) t, 0, t->userdata), 0);
}

__attribute__((__unused__)) static void expire(uint64_t seconds) {
        expire_usec(seconds * USEC_PER_SEC);
}

sd_event* sd_event_ref(sd_event *e) {
        return e;
}

sd_event* sd_event_unref(sd_event *e) {
        (void) e;
        return NULL;
}

/* ---- One tool behind one pipe ---- */

typedef struct Setup {
        Settings *settings;
        ExecEngine engine;
        Python python;
        RunTable *runs;
        ToolRegistry *registry;
        Fake *f;
} Setup;

static Setup* setup_new(char *const *packages) {
        static Setup kept;
        McpServerParameters p = { "s", "S", "1", NULL, &tool_registry_ops, NULL, &tool_task_ops };

        static const char *const interpreters[] = { "3.13 (/usr/bin/python3)", "3.12 (/opt/py/python3.12)",
                                                    NULL };

        kept = (Setup){ .python.facts = { .uv_path = "/usr/bin/uv", .uv_version = "" } };
        n_timers = 0;
        ASSERT_EQ_INT(settings_new_default(&kept.settings), 0);
        ASSERT_EQ_INT(run_table_new(&(const RunTableParameters){ .event = (sd_event*) &kept,
                                                                 .settings = kept.settings,
                                                                 .engine = &kept.engine },
                                    &kept.runs),
                      0);
        ASSERT_EQ_INT(
                tool_registry_new(
                        &(const ToolRegistryParameters){ .event = (sd_event *) &kept,
                                                         .settings = kept.settings,
                                                         .engine = &kept.engine,
                                                         .runs = kept.runs,
                                                         .python = &kept.python,
                                                         .packages = packages,
                                                         .interpreters = (char *const *) interpreters },
                        &kept.registry),
                0);
        kept.f = calloc(1, sizeof(Fake));
        ASSERT_TRUE(kept.f != NULL);
        p.tools_userdata = kept.registry;
        ASSERT_EQ_INT(mcp_server_new(&p, &kept.f->server), 0);
        ASSERT_EQ_INT(mcp_peer_new(kept.f->server, MCP_PEER_PIPE, "uid:1", &kept.f->peer), 0);
        return &kept;
}

static void setup_free(Setup *s) {
        ExecEngine *e = &s->engine;

        fake_free(s->f);
        tool_registry_free(s->registry);
        run_table_free(s->runs);
        settings_free(s->settings);
        exec_request_free(e->job.request);
        capture_done(&e->job.out);
        capture_done(&e->job.err);
        free(s->python.text);
        free(s->python.dependencies);
}

__attribute__((__unused__)) static const char* call_tool(Setup *s, const char *tool, const char *arguments,
                                                         const char *meta) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

        ASSERT_EQ_INT(buffer_printf(&b,
                                    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{"
                                    "\"name\":\"%s\",\"arguments\":%s%s}}",
                                    tool, arguments, meta),
                      0);
        return say_bytes(s->f, b.data, b.n_bytes, NULL);
}

__attribute__((__unused__)) static ExecResult result_of(ExecJob *j) {
        return (ExecResult){
                .run_id = RUN_ID,
                .status = EXEC_OK,
                .duration_usec = 35400,
                .cpu_usec = WIRE_UNKNOWN,
                .memory_peak_bytes = WIRE_UNKNOWN,
                .out = &j->out,
                .err = &j->err,
                .did_run = true,
                .presentation = j->request ? j->request->presentation : 0, /* may not be called yet */
        };
}

/* The job is over: whoever asked is told, and the engine forgets it. */
__attribute__((__unused__)) static const char* finish(Setup *s, const ExecResult *r) {
        ExecJob *j = &s->engine.job;

        j->handlers.on_done(j, r, j->userdata);
        exec_request_free(TAKE_PTR(j->request));
        capture_done(&j->out);
        capture_done(&j->err);
        return heard(s->f);
}
