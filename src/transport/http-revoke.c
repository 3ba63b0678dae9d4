/* SPDX-License-Identifier: MIT */

/* What stays of a token after a reload without it: nothing that has no end of its own. What runs is
 * answered, for it was admitted; event streams and subscriptions would live while their client likes. */

#include "auth/auth.h"
#include "transport/http-request.h"

static AuthHttp facts_of(const ListenerParameters *p) {
        return (AuthHttp) { .settings = p->settings, .access = p->access };
}

static void let_go(HttpRequest *q) {
        if (q->state == HTTP_READING)
                http_request_refuse(q, MHD_HTTP_UNAUTHORIZED, MCP_ERROR_REFUSED,
                                    "Not authorized: this token was removed while the request came in.");
        else if (q->events)
                http_events_leave(q->events);
        else if (q->session && q->session->peer)
                mcp_peer_drain(q->session->peer);
}

void http_reloaded(Listener *l, const ListenerParameters *before) {
        HttpServer *s = (HttpServer*) l;
        AuthHttp old = facts_of(before), new = facts_of(&l->p);

        for (HttpRequest *q = s->requests; q; q = q->next)
                if (q->principal && auth_http_is_revoked(&old, &new, q->principal))
                        let_go(q);
}
