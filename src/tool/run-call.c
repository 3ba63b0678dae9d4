/* SPDX-License-Identifier: MIT */

#include "tool/run-call.h"

#include <errno.h>
#include <inttypes.h>

#include "base/strv.h"
#include "exec/preparation.h"
#include "exec/size-text.h"
#include "tool/progress.h"
#include "tool/task.h"

/* In base64 well below what a transport holds for a slow client (LINE_OUTPUT_BYTES_MAX). */
#define FILES_SENT_BYTES_MAX (16 * MIB)

typedef struct RunCall {
        ToolCall head;
        RunCallParameters p;
        RunWatch watch;
        Progress progress;
        sd_event_source *timer;
} RunCall;

static RunCall* run_call_free(RunCall *c) {
        if (!c)
                return NULL;
        run_unwatch(&c->watch);
        progress_done(&c->progress);
        c->timer = sd_event_source_disable_unref(c->timer);
        free(c);
        return NULL;
}
DEFINE_CLEANUP(RunCall*, run_call_free);

static RunCall* run_call_of_watch(RunWatch *w) {
        return (RunCall*) ((char*) w - offsetof(RunCall, watch));
}

static void on_output(RunWatch *w, int stream, const void *data, size_t n_bytes) {
        RunCall *c = run_call_of_watch(w);

        progress_note_output(&c->progress, stream);
        /* A client that is gone is the transport's business. */
        (void) mcp_call_output(c->p.call, stream, data, n_bytes);
}

void run_call_answer_end(ToolRegistry *registry, McpCall *call, const ExecResult *result, ResultView *view) {
        _cleanup_buffer_ Buffer content = BUFFER_INIT(0), structured = BUFFER_INIT(0);
        ResultView whole = { .part = RESULT_WHOLE };

        /* Whoever cancels a waiting run asked for exactly this end. */
        if (!result->did_run && result->status != EXEC_CANCELLED)
                mcp_call_fail(call, result->message ?: "The sandbox could not be started.");
        else if (result_write_view(result, registry->settings, view ?: &whole, &content, &structured) >= 0)
                mcp_call_finish(call, content.data, structured.data, /* is_error= */ false);
        else
                mcp_call_fail(call, "The server is out of memory: the program ran, but its result is lost.");
}

static void answer_running(ToolRegistry *registry, McpCall *call, const Run *run, ResultView *view) {
        static const char running[] =
                "The program is still running. get_run with this run_id waits for its end (wait_s, at most "
                "45) and shows what it printed since; cancel_run ends it.",
                waiting[] = "The program waits for its turn to start. get_run with this run_id waits for "
                            "its end (wait_s, at most 45); cancel_run ends it.";
        _cleanup_buffer_ Buffer content = BUFFER_INIT(0), structured = BUFFER_INIT(0);
        _cleanup_free_ char *preparing = NULL, *limited = NULL;
        const char *phase = exec_job_phase(run_job(run));
        ExecResult result;

        run_result(run, &result);
        result.message = (char*) (result.duration_usec > 0 ? running : waiting);
        /* Without memory for it, the sentence that it waits is true as well. */
        if (*phase && str_printf(&preparing, "The program's packages are being made ready (%s); it starts "
                                             "when they are. get_run with this run_id waits for its end "
                                             "(wait_s, at most 45); cancel_run ends it.", phase) >= 0)
                result.message = preparing;
        if (run_asked_timeout_sec(run) > run_timeout_usec(run) / USEC_PER_SEC &&
            str_printf(&limited, "%s Its time limit is %s, the longest there is, and not the %" PRIu64
                                 " s that were asked for.",
                       result.message, size_text_usec(run_timeout_usec(run)).text,
                       run_asked_timeout_sec(run)) >= 0)
                result.message = limited;
        if (result_write_view(&result, registry->settings, view, &content, &structured) >= 0)
                mcp_call_finish(call, content.data, structured.data, /* is_error= */ false);
        else
                mcp_call_fail(call, "The server is out of memory. The program runs on; ask again later.");
}

void run_call_answer(ToolRegistry *registry, McpCall *call, Run *run, const ResultView *view) {
        ResultView v = *view;
        ExecResult result;

        if (!run_is_over(run)) {
                answer_running(registry, call, run, &v);
                run_note_look(run);
                return;
        }
        run_result(run, &result);
        run_call_answer_end(registry, call, &result, v.part == RESULT_PAGE ? &v : NULL);
}

/* For people: all that was collected, also what no model could use, as far as the connection takes it. */
static void send_files(McpCall *call, const ExecFiles *files) {
        uint64_t left_bytes = FILES_SENT_BYTES_MAX;

        for (size_t i = 0; files && i < files->n_items; i++) {
                const ExecFile *f = files->items + i;

                if (f->reason != EXEC_FILE_COMPLETE || f->n_bytes > left_bytes)
                        continue;
                left_bytes -= f->n_bytes;
                if (mcp_call_file(call, f->path, f->data, (size_t) f->n_bytes) < 0)
                        return; /* a client that is gone is the transport's business */
        }
}

static void on_end(RunWatch *w, const ExecResult *result) {
        _cleanup_(run_call_freep) RunCall *c = run_call_of_watch(w);
        ResultView view = c->p.view;

        if (c->p.is_beginner || view.part != RESULT_PAGE)
                view = (ResultView) { .part = RESULT_WHOLE };
        if (mcp_call_wants_files(c->p.call))
                send_files(c->p.call, result->files);
        run_call_answer_end(c->p.registry, c->p.call, result, &view);
        /* There is more than the answer shows, so there is something to ask for. */
        if (c->p.is_beginner && result->did_run && view.is_truncated)
                run_keep(c->p.run);
}

/* Enough was waited: the answer is that it goes on. */
static void answer_now(const RunCallParameters *p) {
        ResultView view = p->view;

        if (p->is_beginner)
                run_detach(p->run);
        if (p->is_beginner && mcp_call_takes_task(p->call)) {
                task_answer(p->registry, p->call, p->run);
                return;
        }
        if (p->view.part == RESULT_NEWS)
                for (int stream = 1; stream <= 2; stream++)
                        view.from[stream - 1] = run_looked(p->run, stream);
        run_call_answer(p->registry, p->call, p->run, &view);
}

static int on_waited(sd_event_source *source, uint64_t usec, void *userdata) {
        _cleanup_(run_call_freep) RunCall *c = userdata;

        (void) source;
        (void) usec;
        run_unwatch(&c->watch);
        answer_now(&c->p);
        return 0;
}

static void cancel(ToolCall *head) {
        _cleanup_(run_call_freep) RunCall *c = (RunCall*) head;

        run_unwatch(&c->watch);
        if (c->p.is_beginner)
                run_abandon(c->p.run);
}

int run_call_new(const RunCallParameters *p) {
        _cleanup_(run_call_freep) RunCall *c = NULL;
        int r;

        assert(p && p->registry && p->call && p->run);
        assert(!run_is_over(p->run));

        if (p->wait_usec == 0 || !run_has_room(p->run)) {
                answer_now(p);
                return 0;
        }
        c = malloc(sizeof(*c));
        if (!c)
                return -ENOMEM;
        *c = (RunCall) {
                .head.cancel = cancel,
                .p = *p,
                .watch = { .on_output = on_output, .on_end = on_end },
        };
        if (p->wait_usec != RUN_CALL_FOR_EVER) {
                r = sd_event_add_time_relative(p->registry->event, &c->timer, CLOCK_MONOTONIC, p->wait_usec,
                                               /* accuracy= */ 0, on_waited, c);
                if (r < 0)
                        return r;
        }
        /* Without progress the run is still worth having. */
        (void) progress_init(&c->progress, p->registry->event, p->call, run_job(p->run));
        run_watch(p->run, &c->watch);
        mcp_call_set_data(p->call, &TAKE_PTR(c)->head);
        return 0;
}
