/* SPDX-License-Identifier: MIT */

/* Collects headers and decides in this order: Host and Origin (the attack from a browser), path (clean
 * 404s, for clients that look for OAuth), who it is, method, content type. */

#include "transport/http-headers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <strings.h>
#include <sys/socket.h>

#include "auth/auth.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/timeutil.h"
#include "transport/http-checks.h"
#include "transport/http-head.h"

/* All Accept headers together. */
#define ACCEPT_BYTES_MAX (8 * KIB)
#define DENIAL_LINE_USEC (10 * USEC_PER_SEC)

static enum MHD_Result on_header(void *userdata, enum MHD_ValueKind kind, const char *name,
                                 const char *value) {
        HttpHeaders *h = userdata;
        const struct {
                const char *name;
                const char **value;
                unsigned *n;
        } table[] = {
                { "Host", &h->host, &h->n_host },
                { "Origin", &h->origin, &h->n_origin },
                { "Authorization", &h->authorization, &h->n_authorization },
                { "X-MCP-AUTH", &h->x_mcp_auth, &h->n_x_mcp_auth },
                { "Content-Type", &h->content_type, &h->n_content_type },
                { "Mcp-Session-Id", &h->session_id, &h->n_session_id },
                { "MCP-Protocol-Version", &h->protocol_version, &h->n_protocol_version },
                { "Mcp-Method", &h->method, &h->n_method },
                { "Mcp-Name", &h->name, &h->n_name },
                { "X-MCP-User", &h->user, &h->n_user },
                { "Transfer-Encoding", &h->transfer_encoding, &h->n_transfer_encoding },
                { "Content-Length", &h->content_length_text, &h->n_content_length },
                { "Content-Encoding", &h->content_encoding, &h->n_content_encoding },
        };

        (void) kind;
        if (!value)
                value = "";
        /* The first head of a connection was checked before; the library is more lenient. */
        if (!http_is_header_name(name, strlen(name)) || !http_is_header_value(value, strlen(value)))
                h->is_malformed = true;
        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (strcasecmp(name, table[i].name) == 0) {
                        *table[i].value = value;
                        (*table[i].n)++;
                        return MHD_YES;
                }
        if (strcasecmp(name, "Accept") == 0) {
                int r = buffer_printf(&h->accept, "%s%s", h->accept.n_bytes > 0 ? "," : "", value);

                if (r == -EMSGSIZE)
                        h->is_too_long = true;
                else if (r < 0)
                        h->error = r;
        } else if (strcasecmp(name, "Expect") == 0)
                h->expects_continue = true;
        return MHD_YES; /* the others decide how it will be refused */
}

int http_headers_read(HttpRequest *q, HttpHeaders *h) {
        const union MHD_ConnectionInfo *info;

        assert(q);
        assert(h);

        h->accept = BUFFER_INIT(ACCEPT_BYTES_MAX);
        info = MHD_get_connection_info(q->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
        (void) MHD_get_connection_values(q->mhd, MHD_HEADER_KIND, on_header, h);
        h->is_too_long |= info && info->header_size > HTTP_HEAD_BYTES_MAX;
        if (h->content_length_text && parse_uint64(h->content_length_text, &h->content_length) < 0)
                h->is_ambiguous = true;
        /* A proxy before us that reads them otherwise takes the rest of the body for another's request. */
        if (h->n_content_length > 1 || h->n_transfer_encoding > 1 ||
            (h->n_transfer_encoding > 0 && h->n_content_length > 0) ||
            (h->transfer_encoding && strcasecmp(h->transfer_encoding, "chunked") != 0))
                h->is_ambiguous = true;
        return h->error;
}

void http_headers_done(HttpHeaders *h) {
        buffer_done(&h->accept);
}

/* A copy without white space around it; NULL stays NULL. */
static int copy_trimmed(const char *value, char **ret) {
        size_t n;

        if (!value)
                return 0;
        value += strspn(value, " \t");
        n = strlen(value);
        while (n > 0 && (value[n - 1] == ' ' || value[n - 1] == '\t'))
                n--;
        *ret = strndup(value, n);
        return *ret ? 0 : -ENOMEM;
}

/* The address the client connected to, as it would write it in a URL. */
static const char* local_address(int fd, char buffer[static INET6_ADDRSTRLEN]) {
        union {
                struct sockaddr sa;
                struct sockaddr_in in;
                struct sockaddr_in6 in6;
                struct sockaddr_storage storage;
        } a = {};
        socklen_t n = sizeof(a);

        if (getsockname(fd, &a.sa, &n) < 0)
                return NULL;
        if (a.sa.sa_family == AF_INET)
                return inet_ntop(AF_INET, &a.in.sin_addr, buffer, INET6_ADDRSTRLEN);
        if (a.sa.sa_family != AF_INET6)
                return NULL;
        if (IN6_IS_ADDR_V4MAPPED(&a.in6.sin6_addr))
                return inet_ntop(AF_INET, &a.in6.sin6_addr.s6_addr[12], buffer, INET6_ADDRSTRLEN);
        return inet_ntop(AF_INET6, &a.in6.sin6_addr, buffer, INET6_ADDRSTRLEN);
}

static int refuse(HttpRequest *q, unsigned status, int code, const char *message) {
        q->refusal = (HttpRefusal) { .status = status, .code = code, .message = message };
        return 0;
}

static bool is_from_here(const HttpRequest *q, const HttpHeaders *h) {
        const ListenerParameters *p = &q->server->listener.p;
        char *const *allowed = p->settings->allowed_hosts;
        char buffer[INET6_ADDRSTRLEN];

        if (h->n_host != 1 || h->n_origin > 1)
                return false;
        /* Under which name the proxy is reached is its business; no web page opens a Unix socket. That a
         * page of another site uses its reader's login at the proxy is ours. */
        if (p->is_proxy)
                return h->n_origin == 0 || http_origin_is_host(h->origin, h->host) ||
                       http_origin_is_allowed(h->origin, allowed);
        return http_host_is_allowed(h->host, local_address(q->connection->fd, buffer), allowed) &&
               (h->n_origin == 0 || http_origin_is_allowed(h->origin, allowed));
}

static bool has_any_token(const ListenerParameters *p) {
        return (p->settings->auth_token && p->settings->auth_token[0] != 0) ||
               (p->access && p->access->n_tokens > 0);
}

/* Who tries tokens is to be seen, but must not fill the journal. */
static void log_denial(HttpRequest *q, bool has_token) {
        Listener *l = &q->server->listener;
        const struct in6_addr *a = &q->connection->address;
        uint64_t now = now_monotonic_usec();
        char address[INET6_ADDRSTRLEN];
        bool is_v4 = IN6_IS_ADDR_V4MAPPED(a);

        l->n_denials++;
        if (now < l->next_denial_usec ||
            !inet_ntop(is_v4 ? AF_INET : AF_INET6, is_v4 ? a->s6_addr + 12 : a->s6_addr, address,
                       sizeof(address)))
                return;
        log_notice("HTTP: answered 401 to %s, which sent %s token (%zu such answers since the last line "
                   "like this)", address, has_token ? "a wrong" : "no", l->n_denials);
        l->next_denial_usec = now + DENIAL_LINE_USEC;
        l->n_denials = 0;
}

/* Returns 1 when authenticated, 0 with a refusal, or -errno. */
static int authenticate(HttpRequest *q, const HttpHeaders *h) {
        const ListenerParameters *p = &q->server->listener.p;
        /* Twice the same header: which one did a proxy in front of us check? */
        const AuthHttp facts = {
                .settings = p->settings,
                .access = p->access,
                .is_open = p->is_open,
                .is_proxy = p->is_proxy,
                .authorization = h->n_authorization == 1 ? h->authorization : NULL,
                .x_mcp_auth = h->n_x_mcp_auth == 1 ? h->x_mcp_auth : NULL,
                .user = h->user,
                .n_user = h->n_user,
        };
        int r;

        if (!p->is_open && !p->is_proxy && !has_any_token(p))
                return refuse(q, MHD_HTTP_SERVICE_UNAVAILABLE, MCP_ERROR_UNAVAILABLE,
                              "This server has no token set and so serves nobody over HTTP. The "
                              "administrator makes one with \"mcp-exec token add NAME\" (or sets "
                              "MCP_EXEC_AUTH_TOKEN), or starts it with --no-auth.");
        r = auth_http(&facts, &q->principal);
        if (r == AUTH_E_DENIED)
                log_denial(q, h->n_authorization + h->n_x_mcp_auth > 0);
        if (r == AUTH_E_DENIED)
                return refuse(q, MHD_HTTP_UNAUTHORIZED, MCP_ERROR_REFUSED,
                              "Not authorized: send the server's token as \"Authorization: Bearer TOKEN\".");
        if (r == AUTH_E_USER)
                return refuse(
                        q, MHD_HTTP_FORBIDDEN, MCP_ERROR_REFUSED,
                        p->is_proxy ?
                                "The proxy must name the user in one X-MCP-User header: letters, digits "
                                "and . _ - @ + only." :
                                "X-MCP-User names no user, or comes with a token that may not name one "
                                "(mcp-exec token add --delegate).");
        return r < 0 ? r : 1;
}

static int copy_for_later(HttpRequest *q, const HttpHeaders *h) {
        int r;

        q->has_duplicate = h->n_protocol_version > 1 || h->n_method > 1 || h->n_name > 1;
        q->accepts = http_accepts(h->accept.n_bytes > 0 ? h->accept.data : NULL);
        r = copy_trimmed(h->session_id, &q->session_id);
        if (r >= 0)
                r = copy_trimmed(h->protocol_version, &q->protocol_version);
        if (r >= 0)
                r = copy_trimmed(h->method, &q->method_header);
        if (r >= 0)
                r = copy_trimmed(h->name, &q->name_header);
        return r;
}

static int refuse_method(HttpRequest *q, const char *allow, const char *message) {
        (void) refuse(q, MHD_HTTP_METHOD_NOT_ALLOWED, MCP_ERROR_REFUSED, message);
        q->refusal.allow = allow;
        return 0;
}

static int check_content(HttpRequest *q, const HttpHeaders *h) {
        if (h->n_content_encoding > 1 || !http_is_identity(h->content_encoding)) {
                (void) refuse(q, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, MCP_ERROR_REFUSED,
                              "The body must come as it is, without a Content-Encoding.");
                q->refusal.accept_encoding = "identity"; /* RFC 9110 §12.5.3 */
                return 0;
        }
        if (h->n_content_type != 1 || !http_is_json(h->content_type))
                return refuse(q, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, MCP_ERROR_REFUSED,
                              "The Content-Type must be application/json.");
        if (h->content_length > q->server->body_bytes_max)
                return refuse(
                        q, MHD_HTTP_CONTENT_TOO_LARGE, MCP_ERROR_INVALID_REQUEST,
                        "This message is longer than the server takes (MaxCodeBytes=, "
                        "MaxStdinBytes=; 16 MiB at most).");
        return 0;
}

/* After it is known who asks. */
static int check_method(HttpRequest *q, const HttpHeaders *h, const char *method) {
        if (q->target == HTTP_TARGET_SSE) {
                if (!streq(method, "GET"))
                        return refuse_method(q, "GET",
                                             "Open the event stream with GET; messages go to the "
                                             "address that it tells, or to /mcp.");
                if (!(q->accepts & HTTP_ACCEPT_SSE))
                        return refuse(q, MHD_HTTP_NOT_ACCEPTABLE, MCP_ERROR_REFUSED,
                                      "The Accept header must allow text/event-stream.");
                return 0;
        }
        if (q->target == HTTP_TARGET_MESSAGES)
                return streq(method, "POST") ? check_content(q, h) :
                                               refuse_method(q, "POST", "Send messages with POST.");

        if (streq(method, "DELETE") && h->n_session_id == 1 && !http_request_is_modern(q)) {
                q->is_delete = true;
                return 0;
        }
        if (!streq(method, "POST"))
                return refuse_method(q, "POST",
                                     "Send messages with POST; this server offers no stream to GET.");
        if (h->n_session_id > 1)
                return refuse(q, MHD_HTTP_BAD_REQUEST, MCP_ERROR_REFUSED, "More than one Mcp-Session-Id.");
        if (q->accepts == 0)
                return refuse(q, MHD_HTTP_NOT_ACCEPTABLE, MCP_ERROR_REFUSED,
                              "The Accept header must allow application/json or text/event-stream.");
        return check_content(q, h);
}

/* Of an address like http://localhost/mcp. */
static const char* path_of(const char *address) {
        const char *authority = strstr(address, "://"),
                   *path = authority ? strchr(authority + strlen("://"), '/') : NULL;

        return path ?: "/";
}

/* False: nothing is there, or the administrator switched it off. */
static bool find_target(HttpRequest *q, const char *path) {
        static const struct {
                const char *path;
                HttpTarget target;
                unsigned endpoint; /* 0: always */
        } table[] = {
                { "/mcp", HTTP_TARGET_MCP, 0 },
                { "/sse", HTTP_TARGET_SSE, ENDPOINT_SSE },
                { "/messages", HTTP_TARGET_MESSAGES, ENDPOINT_SSE },
                { "/healthz", HTTP_TARGET_HEALTHZ, ENDPOINT_HEALTHZ },
                { "/readyz", HTTP_TARGET_READYZ, ENDPOINT_READYZ },
                { "/metrics", HTTP_TARGET_METRICS, ENDPOINT_METRICS },
                { "/.well-known/oauth-protected-resource", HTTP_TARGET_METADATA, 0 },
                { "/.well-known/oauth-protected-resource/mcp", HTTP_TARGET_METADATA, 0 },
        };
        const ListenerParameters *p = &q->server->listener.p;

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                if (!streq(path, table[i].path))
                        continue;
                if (table[i].endpoint != 0 && !(table[i].endpoint & p->settings->endpoints))
                        return false;
                if (table[i].target >= HTTP_TARGET_HEALTHZ && !p->site)
                        return false;
                if (table[i].target == HTTP_TARGET_METADATA && !p->site->metadata)
                        return false;
                q->target = table[i].target;
                return true;
        }
        return false;
}

/* Whose clients were told an address of the predecessor's, which opened a stream on any path. Where clients
 * look for a login, a stream would be worse than nothing. */
static bool is_stream_anywhere(const HttpRequest *q, const char *path, const char *method, bool is_found) {
        static const char well_known[] = "/.well-known/";

        return q->server->listener.p.settings->transport == TRANSPORT_SSE && streq(method, "GET") &&
               (!is_found || q->target == HTTP_TARGET_MCP) &&
               strncmp(path, well_known, strlen(well_known)) != 0;
}

static int check_get(HttpRequest *q, const char *method) {
        return streq(method, "GET") || streq(method, "HEAD") ? 0 :
                                                               refuse_method(q, "GET, HEAD", "Use GET.");
}

int http_headers_check(HttpRequest *q, HttpHeaders *h, const char *path, const char *method) {
        bool is_found;
        int r;

        assert(q);
        assert(h);

        r = copy_for_later(q, h);
        if (r < 0)
                return r;
        if (h->is_malformed)
                return refuse(q, MHD_HTTP_BAD_REQUEST, MCP_ERROR_REFUSED,
                              "A header is not a name, a colon and a value on one line.");
        if (h->is_too_long)
                return refuse(q, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE, MCP_ERROR_REFUSED,
                              "The headers are longer than the server takes.");
        if (h->is_ambiguous)
                return refuse(q, MHD_HTTP_BAD_REQUEST, MCP_ERROR_REFUSED,
                              "Where the body ends is ambiguous: send one Content-Length, or "
                              "\"Transfer-Encoding: chunked\".");
        if (q->connection->is_absolute)
                path = path_of(path);
        /* Who only shakes hands is served even then; that is known once the body is here. */
        if (q->connection->limit_status != 0 && (!streq(path, "/mcp") || !streq(method, "POST")))
                return refuse(q, q->connection->limit_status, MCP_ERROR_UNAVAILABLE,
                              http_limits_message(q->connection));
        is_found = find_target(q, path);
        if (is_stream_anywhere(q, path, method, is_found)) {
                q->target = HTTP_TARGET_SSE;
                is_found = true;
        }
        /* These say one word that harms nobody, and are asked for under many names by those who watch. */
        if (is_found && (q->target == HTTP_TARGET_HEALTHZ || q->target == HTTP_TARGET_READYZ))
                return check_get(q, method);
        if (!is_from_here(q, h))
                return refuse(q, MHD_HTTP_FORBIDDEN, MCP_ERROR_REFUSED,
                              "The Host or Origin header names a site this server does not know. The "
                              "administrator can add it to AllowedHosts= in mcp-exec.conf.");
        if (!is_found)
                return refuse(q, MHD_HTTP_NOT_FOUND, 0,
                              "Nothing here. The MCP endpoint is /mcp; it takes a static token and offers "
                              "no OAuth.");
        if (q->target == HTTP_TARGET_METADATA)
                return check_get(q, method);
        r = authenticate(q, h);
        if (r <= 0)
                return r;
        http_limits_own(q->connection, q->principal);
        if (q->connection->is_over_share && (q->target != HTTP_TARGET_MCP || !streq(method, "POST")))
                return refuse(q, q->connection->limit_status, MCP_ERROR_UNAVAILABLE,
                              http_limits_message(q->connection));
        if (q->target == HTTP_TARGET_METRICS)
                return check_get(q, method);
        if (q->server->listener.is_draining)
                return refuse(q, MHD_HTTP_SERVICE_UNAVAILABLE, MCP_ERROR_UNAVAILABLE,
                              "The server is shutting down; try again in a moment.");
        return check_method(q, h, method);
}
