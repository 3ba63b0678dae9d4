/* SPDX-License-Identifier: MIT */

/* What HTTP listeners offer beside MCP: is the server alive, is it ready, how much did it do, and where an
 * OAuth proxy in front of it gets its tokens from. All of it short, and from memory. */

#include "transport/http-request.h"

static enum MHD_Result fail(HttpRequest *q, int error) {
        http_request_fail(q, error);
        return http_reply_refusal(q, /* is_early= */ false);
}

static enum MHD_Result reply(HttpRequest *q, unsigned status, const char *type, const char *text) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int r;

        r = buffer_append_str(&b, text);
        return r < 0 ? fail(q, r) : http_reply_text(q, status, type, &b);
}

static enum MHD_Result reply_word(HttpRequest *q, unsigned status, const char *text) {
        return reply(q, status, "text/plain; charset=utf-8", text);
}

enum MHD_Result http_site_reply(HttpRequest *q) {
        const ListenerParameters *p = &q->server->listener.p;
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int r;

        assert(q);
        assert(p->site);

        switch (q->target) {
        case HTTP_TARGET_HEALTHZ:
                return reply_word(q, MHD_HTTP_OK, "ok\n");
        case HTTP_TARGET_READYZ:
                if (q->server->listener.is_draining)
                        return reply_word(q, MHD_HTTP_SERVICE_UNAVAILABLE, "stopping\n");
                if (!p->site->is_ready(p->site->userdata))
                        return reply_word(q, MHD_HTTP_SERVICE_UNAVAILABLE, "the sandbox is not verified\n");
                return reply_word(q, MHD_HTTP_OK, "ready\n");
        case HTTP_TARGET_METRICS:
                r = p->site->write_metrics(p->site->userdata, &b);
                if (r < 0)
                        return fail(q, r);
                return http_reply_text(q, MHD_HTTP_OK,
                                       "application/openmetrics-text; version=1.0.0; charset=utf-8", &b);
        case HTTP_TARGET_METADATA:
                return reply(q, MHD_HTTP_OK, "application/json", p->site->metadata);
        case HTTP_TARGET_MCP:
        case HTTP_TARGET_SSE:
        case HTTP_TARGET_MESSAGES:
        default:
                return MHD_NO;
        }
}
