/* SPDX-License-Identifier: MIT */
#pragma once

/* An HTTP listener on a port of the kernel's choice, and requests to it by raw bytes. */

#include <arpa/inet.h>
#include <netinet/in.h>

#include "transport-fixture.h"
#include "transport/listener.h"
#include "transport/session-store.h"

#define TOKEN "correct horse"
#define PING "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"
#define PONG "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"
#define CALL(tool)                                                                                          \
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"" tool "\"}}"
#define CALL_MODERN(tool, more)                                                                            \
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"" tool "\","      \
        "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                          \
        "\"io.modelcontextprotocol/clientCapabilities\":{}" more "}}}"
#define MODERN "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: wait\r\n"
#define INITIALIZE                                                                                         \
        "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"        \
        "\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}"
#define H "Host: 127.0.0.1:8080\r\n"
#define J "Content-Type: application/json\r\n"
#define BODY "Content-Length: 40\r\n\r\n" PING
#define RESULT "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}"

typedef struct Http {
        Fixture f;
        Settings *settings;
        SessionStore *sessions;
        Listener *listener;
        Access *access;
        bool is_open;
        struct sockaddr_in address;
} Http;

/* What connects goes to the listener in place. */
static void http_locate(Http *h) {
        const Listener *l = h->listener;
        socklen_t n = sizeof(h->address);

        ASSERT_EQ_INT(getsockname(l->p.fd, (struct sockaddr*) &h->address, &n), 0);
}

__attribute__((__unused__)) static Access* access_from(const char *text) {
        char *error = NULL;
        Access *a = NULL;

        if (access_parse("tokens", text, &a, &error) < 0)
                FAIL("%s", error ? error : "no memory");
        return a;
}

/* Another one; the caller frees the one that was there. */
static void http_listen(Http *h) {
        char *error = NULL;
        int fd;

        ASSERT_EQ_INT(listen_tcp("127.0.0.1:0", &fd, &error), 0);
        ASSERT_EQ_INT(http_listener_new(&(ListenerParameters) {
                                .event = h->f.event,
                                .server = h->f.server,
                                .settings = h->settings,
                                .fd = fd,
                                .sessions = h->sessions,
                                .is_open = h->is_open,
                        }, &h->listener), 0);
        http_locate(h);
}

static inline void http_init(Http *h, bool is_open, const char *token) {
        char *error = NULL;

        *h = (Http) { .is_open = is_open };
        fixture_init(&h->f);
        ASSERT_EQ_INT(settings_new_default(&h->settings), 0);
        h->settings->auth_token = token ? strdup(token) : NULL;
        ASSERT_EQ_INT(settings_set(h->settings, "Server", "AllowedHosts", "mcp.example", &error), 0);
        ASSERT_EQ_INT(session_store_new(getenv("STATE_DIRECTORY"), h->settings, &h->sessions), 0);
        http_listen(h);
}

static inline void http_done(Http *h) {
        h->listener = listener_free(h->listener);
        h->sessions = session_store_free(h->sessions);
        h->settings = settings_free(h->settings);
        h->access = access_free(h->access);
        fixture_done(&h->f);
}

static int http_connect(const Http *h) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        ASSERT_TRUE(fd >= 0);
        ASSERT_EQ_INT(connect(fd, (const struct sockaddr*) &h->address, sizeof(h->address)), 0);
        ASSERT_EQ_INT(fd_set_nonblock(fd, true), 0);
        return fd;
}

/* The loopback device delivers at once, but the loop may need a moment. */
static bool settle(Http *h, int fd, Buffer *b) {
        bool is_open = true;

        for (unsigned i = 0; i < 20 && is_open; i++) {
                size_t n = b->n_bytes;

                is_open = fixture_receive(&h->f, fd, b);
                if (n > 0 && n == b->n_bytes)
                        break;
                (void) sd_event_run(h->f.event, 5 * USEC_PER_MSEC);
        }
        return is_open;
}

static void post_on(Http *h, int fd, const char *headers, const char *body) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

        ASSERT_EQ_INT(
                buffer_printf(&b,
                              "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                              "Content-Length: %zu\r\n%s\r\n%s",
                              strlen(body), headers, body),
                0);
        fixture_send(&h->f, fd, b.data, b.n_bytes);
}

/* One request on its own connection, its whole reply in b. */
__attribute__((__unused__)) static void exchange(Http *h, const char *request, Buffer *b) {
        int fd = http_connect(h);

        buffer_consume(b, b->n_bytes);
        fixture_send_str(&h->f, fd, request);
        (void) settle(h, fd, b);
        (void) safe_close(fd);
        (void) fixture_run(&h->f);
}

__attribute__((__unused__)) static void post(Http *h, const char *headers, const char *body,
                                             Buffer *b) {
        int fd = http_connect(h);

        buffer_consume(b, b->n_bytes);
        post_on(h, fd, headers, body);
        (void) settle(h, fd, b);
        (void) safe_close(fd);
        (void) fixture_run(&h->f);
}

__attribute__((__unused__)) static const char* reply_body(const Buffer *b) {
        const char *p = strstr(b->data, "\r\n\r\n");

        return p ? p + 4 : "(no body)";
}
