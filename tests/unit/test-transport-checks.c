/* SPDX-License-Identifier: MIT */

/* The parts of the transports that are pure: header checks, ids of skipped messages, addresses to listen
 * on. */

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "test.h"
#include "transport/http-checks.h"
#include "transport/skipped.h"
#include "transport/transport.h"

TEST(accept_header) {
        static const struct {
                const char *text;
                unsigned mask;
        } table[] = {
                { NULL, HTTP_ACCEPT_JSON | HTTP_ACCEPT_SSE },
                { "*/*", HTTP_ACCEPT_JSON | HTTP_ACCEPT_SSE },
                { "application/json, text/event-stream", HTTP_ACCEPT_JSON | HTTP_ACCEPT_SSE },
                { "text/event-stream;q=0.5 , APPLICATION/JSON ; q=1", HTTP_ACCEPT_JSON | HTTP_ACCEPT_SSE },
                { "application/json", HTTP_ACCEPT_JSON },
                { "application/*", HTTP_ACCEPT_JSON },
                { "text/event-stream", HTTP_ACCEPT_SSE },
                { "text/*;level=1", HTTP_ACCEPT_SSE },
                { "application/json, text/event-stream;q=0", HTTP_ACCEPT_JSON },
                { "application/json;q=0.000", 0 },
                { "text/html", 0 },
                { "application/jsonx", 0 },
                { "", 0 },
                { ",,;,;q=", 0 },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (http_accepts(table[i].text) != table[i].mask)
                        FAIL("\"%s\" gives %u, expected %u", table[i].text ?: "(NULL)",
                             http_accepts(table[i].text), table[i].mask);
}

TEST(content_type_header) {
        ASSERT_TRUE(http_is_json("application/json"));
        ASSERT_TRUE(http_is_json(" Application/Json ;charset=utf-8"));
        ASSERT_FALSE(http_is_json(NULL));
        ASSERT_FALSE(http_is_json(""));
        ASSERT_FALSE(http_is_json("application/json-patch"));
        ASSERT_FALSE(http_is_json("text/plain; application/json"));
}

static char *const allowed[] = { (char *) "mcp.example", (char *) "other.example:8443",
                                 (char *) "https://app.example", NULL };

TEST(host_header) {
        static const struct {
                const char *text;
                bool is_allowed;
        } table[] = {
                { "localhost", true },
                { "LOCALHOST:8080", true },
                { "127.0.0.1", true },
                { "127.0.0.1:1", true },
                { "[::1]", true },
                { "[::1]:8080", true },
                { "192.0.2.7:8080", true }, /* the address it came to */
                { "mcp.example", true },
                { "MCP.Example:99", true },
                { "other.example:8443", true },
                { "other.example", false },
                { "other.example:8444", false },
                { "192.0.2.8", false },
                { "localhost.evil.example", false },
                { "evil.example", false },
                { "evil.example:127.0.0.1", false },
                { "localhost@evil.example", false },
                { "localhost:80@evil.example", false },
                { "localhost:", true },
                { "localhost/", false },
                { "[::1].evil.example", false },
                { "[::1", false },
                { "::1", false },
                { ":8080", false },
                { "", false },
                { NULL, false },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (http_host_is_allowed(table[i].text, "192.0.2.7", allowed) != table[i].is_allowed)
                        FAIL("\"%s\" should be %s", table[i].text ?: "(NULL)",
                             table[i].is_allowed ? "allowed" : "refused");
        ASSERT_FALSE(http_host_is_allowed("192.0.2.7", NULL, NULL));
}

TEST(origin_header) {
        static const struct {
                const char *text;
                bool is_allowed;
        } table[] = {
                { "http://localhost", true },
                { "http://localhost:3000", true },
                { "https://127.0.0.1:8443", true },
                { "http://[::1]:5", true },
                { "https://mcp.example", true },
                { "https://app.example", true },
                { "http://app.example", false },
                { "https://app.example:8443", false },
                { "http://192.0.2.7", false },
                { "null", false },
                { "", false },
                { "file://", false },
                { "http://", false },
                { "localhost", false },
                { "http://localhost.evil.example", false },
                { "http://evil.example/http://localhost", false },
                { "chrome-extension://localhost", false },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (http_origin_is_allowed(table[i].text, allowed) != table[i].is_allowed)
                        FAIL("\"%s\" should be %s", table[i].text,
                             table[i].is_allowed ? "allowed" : "refused");
}

/* The error reply for a message of which head and tail are known. */
static void check_skipped(const char *head, const char *tail, const char *id) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), expected = BUFFER_INIT(0);
        _cleanup_(skipped_done) SkippedMessage s = {};

        skipped_head(&s, head, strlen(head));
        for (size_t i = 0; i < strlen(tail); i++)
                skipped_push(&s, tail + i, 1);
        ASSERT_EQ_INT(skipped_error(&s, -1, "m", &b), 0);
        ASSERT_EQ_INT(buffer_printf(&expected,
                                    "{\"jsonrpc\":\"2.0\",%s\"error\":{\"code\":-1,\"message\":\"m\"}}", id),
                      0);
        ASSERT_EQ_STR(b.data, expected.data);
}

TEST(id_of_a_skipped_message) {
        check_skipped("{\"id\":1,\"x\":\"", "", "\"id\":1,");
        check_skipped("{\"id\":1", "2,\"x\":1}", ""); /* cut in the middle: 1 or 12? */
        check_skipped("{\"x\":\"", "\",\"id\":\"a\"}", "\"id\":\"a\",");
        check_skipped("{\"x\":\"", "\" , \"id\" :\t-5 }\r\n", "\"id\":-5,");
        check_skipped("{\"x\":{\"y\":\"", "\",\"id\":5}}", "");
        check_skipped("{\"x\":\"", "\\\",\\\"id\\\":5}", "");
        check_skipped("{\"x\":\"", "\",\"id\":{\"id\":5}", "");
        check_skipped("{\"x\":\"", "\",\"id\":5,\"y\":6}", "");
        check_skipped("{\"x\":\"", "\",\"id\":5}x", "");
        check_skipped("", "", "");
        check_skipped("[", "\"id\"}", "");
}

TEST(tail_of_a_skipped_message_is_bounded) {
        _cleanup_free_ char *text = malloc(5000);

        ASSERT_TRUE(text);
        memset(text, ' ', 5000);
        memcpy(text, "\",\"id\":5}", 10);
        text[9] = ' ';
        text[4999] = 0;
        check_skipped("{\"x\":\"", text, ""); /* too far from the end */
        memset(text, 'a', 4989);
        memcpy(text + 4989, "\",\"id\":5}", 10);
        check_skipped("{\"x\":\"", text, "\"id\":5,");
}

static int port_of(int fd, int *ret_family) {
        struct sockaddr_in6 a = {};
        socklen_t n = sizeof(a);

        ASSERT_EQ_INT(getsockname(fd, (struct sockaddr*) &a, &n), 0);
        *ret_family = a.sin6_family;
        return ntohs(a.sin6_port);
}

TEST(address_to_listen_on) {
        static const char *const good[] = { "127.0.0.1:0", "localhost:0", ":0", "0.0.0.0:0" };
        static const char *const bad[] = {
                "",
                ":",
                "8080",
                "127.0.0.1",
                "127.0.0.1:",
                "127.0.0.1:65536",
                "127.0.0.1:-1",
                "127.0.0.1:1x",
                "::1:80",
                "[::1:80",
                "[]:80",
                "[::1]80",
                "127.0.0.1: 80",
        };

        for (size_t i = 0; i < ELEMENTSOF(good); i++) {
                _cleanup_free_ char *message = NULL;
                int fd = -1, family, r;

                r = listen_tcp(good[i], &fd, &message);
                if (r != 0)
                        FAIL("\"%s\": %d, %s", good[i], r, message ?: "(no message)");
                ASSERT_TRUE(port_of(fd, &family) > 0);
                (void) safe_close(fd);
        }
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                _cleanup_free_ char *message = NULL;
                int fd = -1, r;

                r = listen_tcp(bad[i], &fd, &message);
                if (r != -EINVAL || !message || !strstr(message, "HOST:PORT"))
                        FAIL("\"%s\": %d, %s", bad[i], r, message ?: "(no message)");
        }
}

TEST(address_in_use_is_named_with_its_remedy) {
        _cleanup_free_ char *message = NULL;
        char address[32];
        int fd, other = -1, family;

        ASSERT_EQ_INT(listen_tcp("127.0.0.1:0", &fd, &message), 0);
        (void) snprintf(address, sizeof(address), "127.0.0.1:%d", port_of(fd, &family));
        ASSERT_EQ_INT(listen_tcp(address, &other, &message), -EADDRINUSE);
        ASSERT_CONTAINS(message, address);
        ASSERT_CONTAINS(message, "choose another port");
        (void) safe_close(fd);
}

TEST(name_has_the_address_that_every_client_knows) {
        _cleanup_free_ char *message = NULL;
        int fd, family;

        ASSERT_EQ_INT(listen_tcp("localhost:0", &fd, &message), 0);
        ASSERT_TRUE(port_of(fd, &family) > 0);
        ASSERT_EQ_INT(family, AF_INET);
        (void) safe_close(fd);
}
