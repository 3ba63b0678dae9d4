/* SPDX-License-Identifier: MIT */

#include "tool/result.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/utf8.h"
#include "json/json.h"
#include "tool/clean.h"
#include "tool/result-files.h"
#include "tool/result-text.h"

/* Each character shown takes at least two bytes, for it is in both forms: more than this never fits. */
#define SHOWN_CHARS_MAX (RESULT_BYTES_MAX / 2)

/* The engine's sentences may quote a program's last words. */
#define SENTENCE_BYTES_MAX 2000
#define HINTS_MAX 8

/* How much of each stream is shown. */
typedef struct Shown {
        size_t n_chars, n_bytes;
} Shown;

/* Bytes of one stream in one page. Small enough for two of them, each byte written as 13 in both forms. */
#define PAGE_BYTES_MAX (32 * KIB)

static_assert(PAGE_BYTES_MAX * 2 * 13 + 64 * KIB <= RESULT_BYTES_MAX, "a page must fit as it is");

static void write_sentence(JsonWriter *w, const char *s) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int r;

        r = clean_append(s, strlen(s), SENTENCE_BYTES_MAX, &b);
        if (r < 0 && w->error == 0)
                w->error = r;
        json_string_n(w, b.data ? b.data : "", b.n_bytes);
}

/* The newest bytes after the last look. */
static int append_news(const Capture *c, uint64_t from, size_t page_bytes, Buffer *b, bool *ret_cut) {
        uint64_t end = capture_end(c), n_new = end - MIN_OF(from, end), next;
        int r;

        *ret_cut = n_new > page_bytes;
        if (n_new == 0)
                return 0;
        if (*ret_cut) {
                r = buffer_printf(b, "[… %" PRIu64 " bytes left out …]\n", n_new - page_bytes);
                if (r < 0)
                        return r;
                from = end - page_bytes;
        }
        return capture_slice(c, from, (size_t) (end - from), b, &next);
}

static int write_stream(JsonWriter *w, int stream, const Capture *c, Shown shown, ResultView *view,
                        uint64_t *next_offset) {
        _cleanup_buffer_ Buffer text = BUFFER_INIT(0);
        uint64_t from = view->from[stream - 1], next;
        bool is_cut = false;
        int r;

        json_key(w, stream == 1 ? "stdout" : "stderr");
        if (!c) {
                json_string(w, "");
                return 0;
        }
        if (view->part == RESULT_WHOLE)
                r = capture_text_bounded(c, shown.n_chars, shown.n_bytes, &text, &is_cut);
        else if (view->part == RESULT_NEWS)
                r = append_news(c, from, shown.n_bytes, &text, &is_cut);
        else {
                r = capture_slice(c, from, shown.n_bytes, &text, &next);
                is_cut = r >= 0 && (next < c->n_total || !capture_is_complete(c));
                if (r >= 0 && next < c->n_total)
                        *next_offset = MIN_OF(*next_offset, next);
        }
        if (r < 0)
                return r;
        json_string_n(w, text.data ? text.data : "", text.n_bytes);
        view->is_truncated = view->is_truncated || is_cut;
        return 0;
}

static void write_signal(JsonWriter *w, int number) {
        const char *name = sigabbrev_np(number);
        char text[32];

        if (name)
                (void) snprintf(text, sizeof(text), "SIG%s", name);
        else
                (void) snprintf(text, sizeof(text), "signal %d", number);
        json_key(w, "signal");
        json_string(w, text);
}

static void write_ending(JsonWriter *w, const ExecResult *result) {
        json_key(w, "status");
        json_string(w, exec_status_to_string(result->status));
        if (result->signal > 0)
                write_signal(w, result->signal);
        if (result->message) {
                json_key(w, "message");
                write_sentence(w, result->message);
        }
        if (result->hints && result->hints[0]) {
                json_key(w, "hints");
                json_begin_array(w);
                for (size_t i = 0; i < HINTS_MAX && result->hints[i]; i++)
                        write_sentence(w, result->hints[i]);
                json_end_array(w);
        }
}

static void write_figures(JsonWriter *w, const ExecResult *result) {
        json_key(w, "run_id");
        json_string(w, result->run_id);
        json_key(w, "stdout_bytes");
        json_unsigned(w, result->out ? result->out->n_total : 0);
        json_key(w, "stderr_bytes");
        json_unsigned(w, result->err ? result->err->n_total : 0);
        json_key(w, "usage");
        json_begin_object(w);
        if (result->cpu_usec != WIRE_UNKNOWN) {
                json_key(w, "cpu_ms");
                json_unsigned(w, result->cpu_usec / USEC_PER_MSEC);
        }
        if (result->memory_peak_bytes != WIRE_UNKNOWN) {
                json_key(w, "memory_peak_bytes");
                json_unsigned(w, result->memory_peak_bytes);
        }
        json_end_object(w);
}

static int write_structured(const ExecResult *result, Shown shown, const ShownFiles *files, ResultView *view,
                            Buffer *b) {
        JsonWriter w = JSON_WRITER_INIT(b);
        uint64_t next_offset = UINT64_MAX;
        int r;

        view->is_truncated = false;
        json_begin_object(&w);
        r = write_stream(&w, 1, result->out, shown, view, &next_offset);
        if (r < 0)
                return r;
        r = write_stream(&w, 2, result->err, shown, view, &next_offset);
        if (r < 0)
                return r;
        json_key(&w, "exit_code");
        json_integer(&w, result->exit_code);
        json_key(&w, "duration_ms");
        /* A run always takes time: 0 would read as "did not run". */
        json_unsigned(&w, MAX_OF(result->duration_usec / USEC_PER_MSEC, (uint64_t) 1));
        json_key(&w, "truncated");
        json_boolean(&w, view->is_truncated);
        json_key(&w, "timed_out");
        json_boolean(&w, result->status == EXEC_TIMEOUT);
        write_ending(&w, result);
        write_figures(&w, result);
        shown_files_write(files, &w);
        if (next_offset != UINT64_MAX) {
                json_key(&w, "next_offset");
                json_unsigned(&w, next_offset);
        }
        json_end_object(&w);
        return json_writer_finish(&w);
}

static int write_content(const Buffer *structured, const ShownFiles *files, unsigned layout, Buffer *b) {
        _cleanup_buffer_ Buffer text = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(b);
        int r;

        json_begin_array(&w);
        json_begin_object(&w);
        json_key(&w, "type");
        json_string(&w, "text");
        json_key(&w, "text");
        if (layout == RESULT_SECTIONS) {
                r = result_text_write(structured, &text);
                if (r < 0)
                        return r;
                json_raw(&w, text.data, text.n_bytes);
        } else
                json_string_n(&w, structured->data, structured->n_bytes);
        json_end_object(&w);
        shown_files_write_images(files, &w);
        json_end_array(&w);
        return json_writer_finish(&w);
}

static size_t scale(size_t n, size_t total_bytes) {
        /* A little less than the proportion, so that one or two rounds are enough. */
        return (size_t) ((uint64_t) n * (RESULT_BYTES_MAX - RESULT_BYTES_MAX / 16) / total_bytes);
}

static Shown choose_shown(const Settings *settings, ResultPart part) {
        Shown shown;
        size_t n;

        /* The predecessor's variable is in bytes and bounds both what is captured and what is shown. */
        if (settings->has_output_limit_override)
                shown.n_chars = shown.n_bytes =
                        MIN_OF(settings->max_output_bytes, (uint64_t) SHOWN_CHARS_MAX * 4);
        else
                shown = (Shown) { MIN_OF(settings->max_reply_chars, (uint64_t) SHOWN_CHARS_MAX),
                                 SHOWN_CHARS_MAX * 4 };
        shown.n_chars = MIN_OF(shown.n_chars, (size_t) SHOWN_CHARS_MAX);
        if (part == RESULT_WHOLE)
                return shown;
        n = MIN_OF(shown.n_chars, (size_t) PAGE_BYTES_MAX);
        return (Shown) { n, n };
}

int result_write(const ExecResult *result, const Settings *settings, Buffer *content, Buffer *structured) {
        ResultView view = { .part = RESULT_WHOLE };

        return result_write_view(result, settings, &view, content, structured);
}

static int write_both(const ExecResult *result, Shown shown, const ShownFiles *files, ResultView *view,
                      Buffer *content, Buffer *structured) {
        int r;

        buffer_done(structured);
        buffer_done(content);
        r = write_structured(result, shown, files, view, structured);
        return r < 0 ? r : write_content(structured, files, result->presentation, content);
}

int result_write_view(const ExecResult *result, const Settings *settings, ResultView *view, Buffer *content,
                      Buffer *structured) {
        _cleanup_shown_files_ ShownFiles files = {};
        Shown shown;
        int r;

        assert(result);
        assert(settings);
        assert(view);
        assert(content && content->n_bytes == 0);
        assert(structured && structured->n_bytes == 0);

        shown = choose_shown(settings, view->part);
        r = shown_files_init(&files, view->part == RESULT_WHOLE ? result->files : NULL, settings,
                             shown.n_chars);
        if (r < 0)
                return r;
        for (;;) {
                size_t n_bytes;

                r = write_both(result, shown, &files, view, content, structured);
                if (r < 0)
                        return r;
                n_bytes = structured->n_bytes + content->n_bytes;
                if (n_bytes <= RESULT_BYTES_MAX)
                        break;
                assert(shown.n_chars > 0); /* the rest is bounded far below */
                shown.n_chars = scale(shown.n_chars, n_bytes);
                shown.n_bytes = scale(shown.n_bytes, n_bytes);
        }

        /* What the files hold gets the room that the output leaves, not the other way round. */
        r = shown_files_choose(&files, RESULT_BYTES_MAX - structured->n_bytes - content->n_bytes);
        if (r <= 0)
                return r;
        r = write_both(result, shown, &files, view, content, structured);
        assert(r < 0 || structured->n_bytes + content->n_bytes <= RESULT_BYTES_MAX);
        return r < 0 ? r : 0;
}
