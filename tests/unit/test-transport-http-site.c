/* SPDX-License-Identifier: MIT */

/* Health, metrics, OAuth metadata. */

#include "http-fixture.h"
#include "transport/listener.h"

static bool is_ready(void *userdata) {
        return *(const bool*) userdata;
}

static int write_metrics(void *userdata, Buffer *b) {
        (void) userdata;
        return buffer_append_str(b, "# EOF\n");
}

static void get(Http *h, const char *path, const char *headers, Buffer *b) {
        char request[512];

        (void) snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\n%s\r\n", path, headers);
        exchange(h, request, b);
}

TEST(health_needs_no_token_and_no_name) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        bool ready = false;
        HttpSite site = { .is_ready = is_ready, .write_metrics = write_metrics, .userdata = &ready };
        Http h;

        http_init(&h, false, TOKEN);
        h.listener->p.site = &site;
        get(&h, "/healthz", "Host: probe.example\r\n", &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 200 ");
        ASSERT_EQ_STR(reply_body(&b), "ok\n");
        get(&h, "/readyz", "Host: probe.example\r\n", &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 503 ");
        ready = true;
        get(&h, "/readyz", "Host: probe.example\r\n", &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 200 ");
        exchange(&h, "HEAD /healthz HTTP/1.1\r\n" H "\r\n", &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 200 ");
        ASSERT_EQ_STR(reply_body(&b), "");
        exchange(&h, "POST /healthz HTTP/1.1\r\n" H J BODY, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 405 ");
        http_done(&h);
}

TEST(metrics_need_the_token) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        HttpSite site = { .is_ready = is_ready, .write_metrics = write_metrics };
        Http h;

        http_init(&h, false, TOKEN);
        h.listener->p.site = &site;
        get(&h, "/metrics", H, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 401 ");
        get(&h, "/metrics", H "Authorization: Bearer " TOKEN "\r\n", &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 200 ");
        ASSERT_CONTAINS(b.data,
                        "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n");
        ASSERT_EQ_STR(reply_body(&b), "# EOF\n");
        http_done(&h);
}

TEST(each_can_be_switched_off) {
        static const char *const paths[] = { "/healthz", "/readyz", "/metrics", "/sse" };
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        bool ready = true;
        HttpSite site = { .is_ready = is_ready, .write_metrics = write_metrics, .userdata = &ready };
        Http h;

        http_init(&h, true, NULL);
        h.listener->p.site = &site;
        h.settings->endpoints = 0;
        for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
                get(&h, paths[i], H, &b);
                ASSERT_CONTAINS(b.data, "HTTP/1.1 404 ");
        }
        http_done(&h);
}

TEST(metadata_is_shown_and_named_only_where_there_is_some) {
        static const char url[] = "https://mcp.example/.well-known/oauth-protected-resource/mcp";
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        HttpSite site = { .is_ready = is_ready, .write_metrics = write_metrics };
        Http h;

        http_init(&h, false, TOKEN);
        h.listener->p.site = &site;
        get(&h, "/.well-known/oauth-protected-resource", H, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 404 ");
        post(&h, "", PING, &b);
        ASSERT_CONTAINS(b.data, "WWW-Authenticate: Bearer\r\n");

        site.metadata = "{\"resource\":\"https://mcp.example/mcp\"}";
        site.metadata_url = url;
        get(&h, "/.well-known/oauth-protected-resource/mcp", H, &b);
        ASSERT_CONTAINS(b.data, "Content-Type: application/json\r\n");
        ASSERT_EQ_STR(reply_body(&b), site.metadata);
        post(&h, "", PING, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 401 ");
        ASSERT_CONTAINS(b.data,
                        "WWW-Authenticate: Bearer resource_metadata=\"https://mcp.example/.well-known/"
                        "oauth-protected-resource/mcp\"\r\n");
        get(&h, "/.well-known/oauth-authorization-server", H, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 404 ");
        http_done(&h);
}
