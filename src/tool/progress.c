/* SPDX-License-Identifier: MIT */

#include "tool/progress.h"

#include <errno.h>

#include "base/strv.h"
#include "base/timeutil.h"
#include "exec/preparation.h"
#include "exec/size-text.h"
#include "tool/clean.h"

#define TICK_USEC USEC_PER_SEC
/* Clients count the silence of a call and give up at 60 s at the earliest; proxies at 15 to 30 s. */
#define SILENCE_MAX_USEC (10 * USEC_PER_SEC)
/* Programs write a line in several pieces, and what a tick meets is often its begin. */
#define PIECES_USEC (50 * USEC_PER_MSEC)
#define LINE_BYTES_SHOWN 150 /* clients cut the message at 200 characters */

static const Capture* newest_stream(const Progress *p) {
        return p->newest_stream == 0 ? NULL : exec_job_stream(p->job, p->newest_stream);
}

static int newest_line(const Progress *p, bool wants_end, Buffer *b) {
        _cleanup_buffer_ Buffer raw = BUFFER_INIT(0);
        const Capture *c;
        int r;

        if (*exec_job_phase(p->job))
                return clean_append(exec_job_phase(p->job), strlen(exec_job_phase(p->job)), LINE_BYTES_SHOWN,
                                    b);
        c = newest_stream(p);
        if (!c)
                return 0;
        r = capture_last_line(c, wants_end, 4 * LINE_BYTES_SHOWN, &raw);
        if (r < 0 || raw.n_bytes == 0)
                return r;
        return clean_append(raw.data, raw.n_bytes, LINE_BYTES_SHOWN, b);
}

static int send_progress(Progress *p, uint64_t now_usec, const char *line) {
        uint64_t elapsed_usec = now_usec - p->started_usec, running_usec = exec_job_elapsed_usec(p->job),
                 told_usec = MAX_OF(elapsed_usec, running_usec); /* it may have begun before this call */
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int r;

        r = buffer_printf(&b, "%s for %s%s%s",
                          running_usec > 0 ? "running" : *exec_job_phase(p->job) ? "preparing" : "waiting",
                          size_text_usec(told_usec / USEC_PER_SEC * USEC_PER_SEC).text, *line ? ": " : "",
                          line);
        if (r < 0)
                return r;
        r = str_copy(&p->sent_line, line);
        if (r < 0)
                return r;
        p->sent_usec = now_usec;
        return mcp_call_progress(p->call, elapsed_usec, b.data);
}

/* Returns whether to look again in a moment. *ret_wants_end: a line is being written, and is shown when it
 * has ended; one that nothing is added to is shown as it is. */
static bool waits_for_line(Progress *p, bool *ret_wants_end) {
        const Capture *c = *exec_job_phase(p->job) ? NULL : newest_stream(p);
        bool is_within = c && capture_ends_within_line(c);
        uint64_t seen_bytes = p->seen_bytes;

        p->seen_bytes = is_within ? c->n_total : 0;
        *ret_wants_end = is_within && seen_bytes != c->n_total;
        p->has_waited = !p->has_waited && *ret_wants_end;
        return p->has_waited;
}

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata) {
        Progress *p = userdata;
        _cleanup_buffer_ Buffer line = BUFFER_INIT(0);
        uint64_t now_usec = now_monotonic_usec();
        bool wants_end;

        (void) usec;
        if (waits_for_line(p, &wants_end) && sd_event_source_set_time_relative(source, PIECES_USEC) >= 0 &&
            sd_event_source_set_enabled(source, SD_EVENT_ONESHOT) >= 0)
                return 0;
        /* Nothing depends on progress: when it fails the next tick tries again, and a client that is gone is
         * the transport's business. */
        if (newest_line(p, wants_end, &line) >= 0) {
                const char *text = line.data ? line.data : "";

                if (!p->sent_line || !streq(text, p->sent_line) ||
                    now_usec - p->sent_usec >= SILENCE_MAX_USEC)
                        (void) send_progress(p, now_usec, text);
        }
        if (sd_event_source_set_time_relative(source, TICK_USEC) < 0 ||
            sd_event_source_set_enabled(source, SD_EVENT_ONESHOT) < 0)
                p->timer = sd_event_source_unref(p->timer);
        return 0;
}

int progress_init(Progress *p, sd_event *event, McpCall *call, const ExecJob *job) {
        assert(p);
        assert(event);
        assert(call);
        assert(job);

        *p = (Progress) { .call = call, .job = job, .started_usec = now_monotonic_usec() };
        p->sent_usec = p->started_usec;
        if (!mcp_call_wants_progress(call))
                return 0;
        return sd_event_add_time_relative(event, &p->timer, CLOCK_MONOTONIC, TICK_USEC, 0, on_tick, p);
}

void progress_done(Progress *p) {
        assert(p);

        p->timer = sd_event_source_disable_unref(p->timer);
        free(p->sent_line);
        p->sent_line = NULL;
}
