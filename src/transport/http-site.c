/* SPDX-License-Identifier: MIT */

/* What HTTP listeners offer beside MCP: is the server alive, is it ready, how much did it do, and where an
 * OAuth proxy in front of it gets its tokens from. All of it short, and from memory. */

#include "transport/http-request.h"

static enum MHD_Result reply(HttpRequest *q, unsigned status, const char *text) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

        return buffer_append_str(&b, text) < 0 ? MHD_NO :
                                                 http_reply_text(q, status, "text/plain; charset=utf-8", &b);
}

enum MHD_Result http_site_reply(HttpRequest *q) {
        const ListenerParameters *p = &q->server->listener.p;
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

        assert(q);
        assert(p->site);

        switch (q->target) {
        case HTTP_TARGET_HEALTHZ:
                return reply(q, MHD_HTTP_OK, "ok\n");
        case HTTP_TARGET_READYZ:
                if (q->server->listener.is_draining)
                        return reply(q, MHD_HTTP_SERVICE_UNAVAILABLE, "stopping\n");
                if (!p->site->is_ready(p->site->userdata))
                        return reply(q, MHD_HTTP_SERVICE_UNAVAILABLE, "the sandbox is not verified\n");
                return reply(q, MHD_HTTP_OK, "ready\n");
        case HTTP_TARGET_METRICS:
                if (p->site->write_metrics(p->site->userdata, &b) < 0)
                        return MHD_NO;
                return http_reply_text(q, MHD_HTTP_OK,
                                       "application/openmetrics-text; version=1.0.0; charset=utf-8", &b);
        case HTTP_TARGET_METADATA:
                if (buffer_append_str(&b, p->site->metadata) < 0)
                        return MHD_NO;
                return http_reply_text(q, MHD_HTTP_OK, "application/json", &b);
        case HTTP_TARGET_MCP:
        case HTTP_TARGET_SSE:
        case HTTP_TARGET_MESSAGES:
        default:
                return MHD_NO;
        }
}
