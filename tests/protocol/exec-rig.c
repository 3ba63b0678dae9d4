/* SPDX-License-Identifier: MIT */

#include "exec-rig.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strv.h"
#include "base/timeutil.h"

#define WAIT_USEC (20 * USEC_PER_SEC)

const EngineTimes rig_times = {
        .hello_usec = 500 * USEC_PER_MSEC,
        .ready_usec = 300 * USEC_PER_MSEC,
        .answer_usec = 400 * USEC_PER_MSEC,
        .files_usec = 2 * USEC_PER_SEC,
        .dead_usec = 1 * USEC_PER_SEC,
        .pause_usec = 20 * USEC_PER_MSEC,
};

static Rig the_rig;

static void need(bool is_fine) {
        if (!is_fine)
                abort();
}

static int rig_connect(void *userdata, char **reterr_message) {
        Rig *rig = userdata;

        if (rig->connect_error != 0) {
                (void) str_printf(reterr_message, "There is no launcher. Install one.");
                return rig->connect_error;
        }
        return fake_launcher_connect(rig->launcher, reterr_message);
}

static void rig_on_finished(const ExecRequest *request, const ExecResult *result, void *userdata) {
        Rig *rig = userdata;
        size_t n;

        need(request && request->code);
        rig->n_finished++;
        n = strlen(rig->finished_words);
        (void) snprintf(rig->finished_words + n, sizeof(rig->finished_words) - n, "%s ",
                        exec_status_to_string(result->status));
}

static void rig_on_idle_changed(bool is_idle, void *userdata) {
        Rig *rig = userdata;

        if (is_idle)
                rig->n_idle++;
        else
                rig->n_busy++;
}

void rig_teardown(Rig *rig) {
        rig->engine = exec_engine_free(rig->engine);
        rig->launcher = fake_launcher_free(rig->launcher);
        rig->settings = settings_free(rig->settings);
        rig->event = sd_event_unref(rig->event);
        *rig = (Rig) {};
}

Rig* rig_setup(const FakeScript *script) {
        static const FakeScript nothing = {};
        Rig *rig = &the_rig;

        rig_teardown(rig);
        need(sd_event_new(&rig->event) >= 0);
        need(settings_new_default(&rig->settings) >= 0);
        rig->settings->max_parallel = 2;
        rig->settings->pool_size = 0;
        rig->launcher = fake_launcher_new(script ?: &nothing);
        return rig;
}

static int rig_admit(const char *principal, PrincipalLimits *ret, char **reterr_message, void *userdata) {
        const Rig *rig = userdata;

        (void) reterr_message;
        *ret = principal_is_of(principal, "limited") ? rig->limits : (PrincipalLimits) {};
        return 0;
}

ExecEngine* rig_engine(Rig *rig) {
        if (!rig->engine)
                need(engine_new_with_times(&(const ExecEngineParameters) {
                                                   .event = rig->event,
                                                   .settings = rig->settings,
                                                   .connect = rig_connect,
                                                   .admit = rig_admit,
                                                   .on_finished = rig_on_finished,
                                                   .on_idle_changed = rig_on_idle_changed,
                                                   .userdata = rig,
                                           }, &rig_times, &rig->engine) >= 0);
        return rig->engine;
}

static void copy_text(const Capture *c, char *text, size_t n) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        bool is_truncated;

        need(capture_text(c, n / 4, &b, &is_truncated) >= 0);
        (void) snprintf(text, n, "%s", b.data ?: "");
}

static void copy_files(const ExecFiles *files, Run *run) {
        for (size_t i = 0; i < files->n_items; i++) {
                const ExecFile *f = files->items + i;
                size_t n = strlen(run->files), left = sizeof(run->files) - n;

                if (f->reason == EXEC_FILE_COMPLETE)
                        (void) snprintf(run->files + n, left, "%s=%.*s ", f->path, (int) f->n_bytes,
                                        f->data);
                else
                        (void) snprintf(run->files + n, left, "%s!%d ", f->path, (int) f->reason);
        }
        run->has_files = true;
        run->n_more_files = files->n_more;
        run->file_gaps = files->gaps;
}

static void run_on_started(ExecJob *j, void *userdata) {
        Run *run = userdata;

        need(j == run->job);
        run->n_started++;
        run->started_usec = now_monotonic_usec();
}

static void run_on_output(ExecJob *j, int stream, const void *data, size_t n_bytes, void *userdata) {
        Run *run = userdata;

        need(j == run->job && data && n_bytes > 0 && (stream == 1 || stream == 2));
        run->seen_bytes[stream] += n_bytes;
}

static void run_on_done(ExecJob *j, const ExecResult *r, void *userdata) {
        Run *run = userdata;

        need(j == run->job);
        run->n_done++;
        run->done_usec = now_monotonic_usec();
        run->status = r->status;
        run->exit_code = r->exit_code;
        run->signal = r->signal;
        run->duration_usec = r->duration_usec;
        run->queued_usec = r->queued_usec;
        run->preparation_usec = r->preparation_usec;
        run->cpu_usec = r->cpu_usec;
        run->memory_peak_bytes = r->memory_peak_bytes;
        run->out_bytes = r->out->n_total;
        run->err_bytes = r->err->n_total;
        run->did_run = r->did_run;
        if (r->files)
                copy_files(r->files, run);
        copy_text(r->out, run->out, sizeof(run->out));
        copy_text(r->err, run->err, sizeof(run->err));
        (void) snprintf(run->message, sizeof(run->message), "%s", r->message ?: "");
        (void) snprintf(run->run_id, sizeof(run->run_id), "%s", r->run_id);
        (void) snprintf(run->unit, sizeof(run->unit), "%s", r->unit);
        run->hints[0] = '\0';
        STRV_FOREACH(h, r->hints)
                (void) strncat(run->hints, *h, sizeof(run->hints) - strlen(run->hints) - 1);
}

ExecRequest* rig_request(const char *principal, const char *code, const char *input, uint64_t timeout_usec) {
        ExecRequest *q;

        need(exec_request_new(&q) >= 0);
        need(str_copy(&q->tool, "exec") >= 0);
        need(str_copy(&q->principal, principal) >= 0);
        need(str_copy(&q->code, code) >= 0);
        q->code_bytes = strlen(code);
        need(str_copy(&q->stdin_data, input) >= 0);
        q->stdin_bytes = input ? strlen(input) : 0;
        q->timeout_usec = timeout_usec;
        return q;
}

int rig_submit_request(Rig *rig, Run *run, ExecRequest *take_request, char message[static 512]) {
        static const ExecJobHandlers handlers = {
                .on_started = run_on_started, .on_output = run_on_output, .on_done = run_on_done,
        };
        _cleanup_(exec_request_freep) ExecRequest *q = take_request;
        _cleanup_free_ char *why = NULL;
        int r;

        *run = (Run) {};
        if (rig->input_name)
                need(exec_request_add_file(q, rig->input_name, rig->input_text,
                                           strlen(rig->input_text)) >= 0);
        run->submitted_usec = now_monotonic_usec();
        r = exec_engine_submit(rig_engine(rig), q, &handlers, run, &run->job, &why);
        if (r == 0)
                TAKE_PTR(q);
        (void) snprintf(message, 512, "%s", why ?: "");
        return r;
}

int rig_submit_as(Rig *rig, Run *run, const char *principal, const char *code, const char *input,
                  uint64_t timeout_usec, char message[static 512]) {
        return rig_submit_request(rig, run, rig_request(principal, code, input, timeout_usec), message);
}

void rig_submit(Rig *rig, Run *run, const char *code) {
        char message[512];

        need(rig_submit_as(rig, run, "local", code, NULL, 10 * USEC_PER_SEC, message) == 0);
}

bool rig_wait(Rig *rig, bool (*condition)(const void *data), const void *data) {
        uint64_t end = now_monotonic_usec() + WAIT_USEC;

        while (!condition(data)) {
                uint64_t now = now_monotonic_usec();

                if (now >= end)
                        return false;
                need(sd_event_run(rig->event, MIN_OF(end - now, 10 * USEC_PER_MSEC)) >= 0);
        }
        return true;
}

static bool is_done(const void *data) {
        return ((const Run*) data)->n_done > 0;
}

bool rig_wait_done(Rig *rig, const Run *run) {
        return rig_wait(rig, is_done, run);
}

static bool is_idle(const void *data) {
        const Rig *rig = data;

        return exec_engine_n_running(rig->engine) == 0 && exec_engine_n_queued(rig->engine) == 0 &&
               rig->engine->n_steps == 0;
}

bool rig_wait_idle(Rig *rig) {
        bool r = rig_wait(rig, is_idle, rig);

        rig_turn(rig, 1);
        return r;
}

void rig_turn(Rig *rig, uint64_t usec) {
        uint64_t now, end = now_monotonic_usec() + usec;

        while ((now = now_monotonic_usec()) < end)
                need(sd_event_run(rig->event, end - now) >= 0);
        while (sd_event_run(rig->event, 0) > 0)
                ;
}

void rig_run(Rig *rig, Run *run, const char *code) {
        rig_submit(rig, run, code);
        need(rig_wait_done(rig, run));
}

unsigned rig_n_fds(void) {
        unsigned n = 0;
        DIR *d;

        d = opendir("/proc/self/fd");
        need(d);
        while (readdir(d))
                n++;
        (void) closedir(d);
        return n;
}
