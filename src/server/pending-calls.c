/* SPDX-License-Identifier: MIT */

#include "server/pending-calls.h"

#include <errno.h>

#include "json/json.h"
#include "mcp/mcp.h"

typedef int (*MessageHandler)(PendingCalls *p, const char *text, size_t n_bytes);

void pending_calls_done(PendingCalls *p) {
        assert(p);

        buffer_done(&p->ids);
        *p = (PendingCalls) {};
}

static void remove_id(PendingCalls *p, const char *id, size_t n_bytes) {
        char *s = p->ids.data, *end = s + p->ids.n_bytes;

        for (size_t n; s < end; s += n) {
                n = strlen(s) + 1;
                if (n != n_bytes + 1 || memcmp(s, id, n_bytes) != 0)
                        continue;
                memmove(s, s + n, (size_t) (end - s) - n);
                p->ids.n_bytes -= n;
                p->n--;
                return;
        }
}

/* A batch is a line of several messages. */
static int for_each_message(PendingCalls *p, const char *line, size_t n_bytes, MessageHandler handle) {
        size_t position = 0, n;
        const char *message;
        int r, k;

        k = json_raw_next_element(line, n_bytes, &position, &message, &n);
        if (k == -EBADMSG)
                return handle(p, line, n_bytes);
        for (; k > 0; k = json_raw_next_element(line, n_bytes, &position, &message, &n)) {
                r = handle(p, message, n);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int handle_sent(PendingCalls *p, const char *text, size_t n_bytes) {
        static const char cancelled[] = "\"notifications/cancelled\"";
        const char *method, *id, *params;
        size_t n_method, n_id, n_params;
        int r;

        if (json_raw_member(text, n_bytes, "method", &method, &n_method) <= 0)
                return 0;
        if (json_raw_member(text, n_bytes, "id", &id, &n_id) > 0) {
                if (memchr(id, 0, n_id))
                        return 0;
                r = buffer_append(&p->ids, id, n_id);
                if (r >= 0)
                        r = buffer_append(&p->ids, "", 1);
                if (r >= 0)
                        p->n++;
                return r;
        }
        if (n_method == sizeof(cancelled) - 1 && memcmp(method, cancelled, n_method) == 0 &&
            json_raw_member(text, n_bytes, "params", &params, &n_params) > 0 &&
            json_raw_member(params, n_params, "requestId", &id, &n_id) > 0)
                remove_id(p, id, n_id);
        return 0;
}

static int handle_answered(PendingCalls *p, const char *text, size_t n_bytes) {
        const char *id;
        size_t n_id;

        if (json_raw_member(text, n_bytes, "id", &id, &n_id) > 0)
                remove_id(p, id, n_id);
        return 0;
}

int pending_calls_sent(PendingCalls *p, const char *line, size_t n_bytes) {
        assert(p);
        assert(line);

        return for_each_message(p, line, n_bytes, handle_sent);
}

void pending_calls_answered(PendingCalls *p, const char *line, size_t n_bytes) {
        assert(p);
        assert(line);

        if (p->n > 0)
                (void) for_each_message(p, line, n_bytes, handle_answered);
}

int pending_calls_fail(PendingCalls *p, const char *message, Buffer *b) {
        const char *s, *end;
        int r = 0;

        assert(p);
        assert(message);
        assert(b);

        s = p->ids.data ?: "";
        end = s + p->ids.n_bytes;
        for (; s < end && r >= 0; s += strlen(s) + 1) {
                _cleanup_buffer_ Buffer request = BUFFER_INIT(0);

                r = buffer_printf(&request, "{\"id\":%s}", s);
                if (r >= 0)
                        r = mcp_error_reply(request.data, request.n_bytes, MCP_ERROR_UNAVAILABLE, message,
                                            b);
                if (r >= 0)
                        r = buffer_append_str(b, "\n");
        }
        pending_calls_done(p);
        return r;
}
