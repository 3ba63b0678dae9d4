/* SPDX-License-Identifier: MIT */

#include "server/pending-calls.h"

#include <errno.h>
#include <stdlib.h>

#include "json/json.h"
#include "mcp/call.h"
#include "mcp/mcp.h"
#include "mcp/message.h"

/* Of one line, and of all together, to be sent again. */
#define LINE_BYTES_KEPT_MAX MIB
#define LINES_BYTES_KEPT_MAX (8 * MIB)

static void call_done(PendingCalls *p, PendingCall *c) {
        p->n_line_bytes -= c->line.n_bytes;
        buffer_done(&c->id);
        buffer_done(&c->line);
}

void pending_calls_done(PendingCalls *p) {
        assert(p);

        for (size_t i = 0; i < p->n; i++)
                call_done(p, &p->calls[i]);
        free(p->calls);
        *p = (PendingCalls) {};
}

static PendingCall* find_call(const PendingCalls *p, const char *id, size_t n_bytes) {
        for (size_t i = 0; i < p->n; i++)
                if (p->calls[i].id.n_bytes == n_bytes &&
                    (n_bytes == 0 || memcmp(p->calls[i].id.data, id, n_bytes) == 0))
                        return &p->calls[i];
        return NULL;
}

static void remove_call(PendingCalls *p, PendingCall *c) {
        if (!c)
                return;
        call_done(p, c);
        p->n--;
        memmove(c, c + 1, (size_t) (p->calls + p->n - c) * sizeof(*c));
}

bool pending_calls_have_room(const PendingCalls *p, size_t n_bytes) {
        assert(p);

        return n_bytes <= LINE_BYTES_KEPT_MAX && p->n_line_bytes + n_bytes <= LINES_BYTES_KEPT_MAX;
}

static int add_call(PendingCalls *p, const char *id, size_t n_id, const char *line, size_t n_line) {
        PendingCall c = { .batch = line ? 0 : p->n_batches };
        int r;

        if (p->n == p->n_allocated) {
                size_t n = p->n_allocated * 2 + 8;
                PendingCall *calls = reallocarray(p->calls, n, sizeof(*calls));

                if (!calls)
                        return -ENOMEM;
                p->calls = calls;
                p->n_allocated = n;
        }
        r = buffer_append(&c.id, id, n_id);
        if (r >= 0 && pending_calls_have_room(p, n_line))
                r = buffer_append(&c.line, line, n_line);
        p->n_line_bytes += c.line.n_bytes;
        p->calls[p->n++] = c;
        return r;
}

static bool is_question(const char *method, size_t n_bytes) {
        static const char *const questions[] = {
                "\"initialize\"", "\"ping\"", "\"tools/list\"", "\"server/discover\"",
        };

        for (size_t i = 0; i < ELEMENTSOF(questions); i++)
                if (n_bytes == strlen(questions[i]) && memcmp(method, questions[i], n_bytes) == 0)
                        return true;
        return false;
}

/* line: NULL for a message of the last batch. */
static int message_sent(PendingCalls *p, const char *text, size_t n_bytes, const char *line, size_t n_line) {
        static const char cancelled[] = "\"notifications/cancelled\"";
        const char *method, *id, *params;
        size_t n_method, n_id, n_params;
        int r;

        if (json_raw_member(text, n_bytes, "method", &method, &n_method) <= 0)
                return 0;
        if (mcp_message_raw_id(text, n_bytes, &id, &n_id)) {
                r = add_call(p, id, n_id, line, n_line);
                if (r >= 0)
                        p->calls[p->n - 1].is_question = is_question(method, n_method);
                return r;
        }
        if (json_raw_member(text, n_bytes, "id", &id, &n_id) > 0) /* refused, by an answer without one */
                return add_call(p, "", 0, line, 0);
        if (n_method == sizeof(cancelled) - 1 && memcmp(method, cancelled, n_method) == 0 &&
            json_raw_member(text, n_bytes, "params", &params, &n_params) > 0 &&
            json_raw_member(params, n_params, "requestId", &id, &n_id) > 0)
                remove_call(p, find_call(p, id, n_id));
        return 0;
}

/* A batch is a line of several messages. */
int pending_calls_sent(PendingCalls *p, const char *line, size_t n_bytes) {
        size_t position = 0, n;
        const char *message;
        int r, k;

        assert(p);
        assert(line);

        k = json_raw_next_element(line, n_bytes, &position, &message, &n);
        if (k == -EBADMSG)
                return message_sent(p, line, n_bytes, line, n_bytes);
        p->n_batches++;
        for (; k > 0; k = json_raw_next_element(line, n_bytes, &position, &message, &n)) {
                r = message_sent(p, message, n, NULL, 0);
                if (r < 0)
                        return r;
        }
        return 0;
}

static bool is_refusal(const char *text, size_t n_bytes) {
        static const char stopping[] = MCP_META_STOPPING;
        const char *result, *content, *block, *meta;
        size_t n_result, n_content, n_block, n_meta, position = 0;

        return json_raw_member(text, n_bytes, "result", &result, &n_result) > 0 &&
               json_raw_member(result, n_result, "content", &content, &n_content) > 0 &&
               json_raw_next_element(content, n_content, &position, &block, &n_block) > 0 &&
               json_raw_member(block, n_block, "_meta", &meta, &n_meta) > 0 &&
               n_meta == sizeof(stopping) - 1 && memcmp(meta, stopping, n_meta) == 0;
}

static void message_answered(PendingCalls *p, const char *text, size_t n_bytes) {
        const char *id, *error;
        size_t n_id, n_error;

        if (mcp_message_raw_id(text, n_bytes, &id, &n_id))
                remove_call(p, find_call(p, id, n_id));
        else if (json_raw_member(text, n_bytes, "error", &error, &n_error) > 0)
                remove_call(p, find_call(p, "", 0));
}

const Buffer* pending_calls_find(const PendingCalls *p, const char *line, size_t n_bytes) {
        const PendingCall *c;
        const char *id;
        size_t n_id;

        assert(p);
        assert(line);

        c = mcp_message_raw_id(line, n_bytes, &id, &n_id) ? find_call(p, id, n_id) : NULL;
        return c ? &c->line : NULL;
}

bool pending_calls_answered(PendingCalls *p, const char *line, size_t n_bytes) {
        size_t position = 0, n;
        const char *message;
        PendingCall *c;
        int k;

        assert(p);
        assert(line);

        k = json_raw_next_element(line, n_bytes, &position, &message, &n);
        for (; k > 0; k = json_raw_next_element(line, n_bytes, &position, &message, &n))
                message_answered(p, message, n);
        if (k != -EBADMSG)
                return false;
        if (is_refusal(line, n_bytes) && json_raw_member(line, n_bytes, "id", &message, &n) > 0) {
                c = find_call(p, message, n);
                if (c && c->line.n_bytes > 0) {
                        c->is_refused = true;
                        return true;
                }
        }
        message_answered(p, line, n_bytes);
        return false;
}

static int append_error(const PendingCall *c, const char *message, Buffer *errors) {
        _cleanup_buffer_ Buffer request = BUFFER_INIT(0);
        int r;

        r = buffer_printf(&request, "{\"id\":%s}", c->id.data ?: "null");
        if (r < 0)
                return r;
        return mcp_error_reply(request.data, request.n_bytes, MCP_ERROR_UNAVAILABLE, message, errors);
}

/* An error and what stands around it; those of a batch follow each other. */
static int append_line(const PendingCalls *p, size_t i, const char *message, Buffer *errors) {
        size_t batch = p->calls[i].batch;
        bool is_first = i == 0 || p->calls[i - 1].batch != batch,
             is_last = i + 1 == p->n || p->calls[i + 1].batch != batch;
        int r = 0;

        if (batch > 0)
                r = buffer_append_str(errors, is_first ? "[" : ",");
        if (r >= 0)
                r = append_error(&p->calls[i], message, errors);
        if (r >= 0 && (batch == 0 || is_last))
                r = buffer_append_str(errors, batch > 0 ? "]\n" : "\n");
        return r;
}

void pending_calls_retry(PendingCalls *p, bool all) {
        assert(p);

        for (size_t i = 0; i < p->n; i++)
                p->calls[i].is_refused |= p->calls[i].line.n_bytes > 0 && (all || p->calls[i].is_question);
}

int pending_calls_end(PendingCalls *p, const char *message, Buffer *again, Buffer *errors) {
        int r = 0;

        assert(p);
        assert(message);
        assert(again);
        assert(errors);

        for (size_t i = 0; i < p->n && r >= 0; i++)
                if (p->calls[i].is_refused)
                        r = buffer_append(again, p->calls[i].line.data, p->calls[i].line.n_bytes);
                else
                        r = append_line(p, i, message, errors);
        pending_calls_done(p);
        return r;
}
