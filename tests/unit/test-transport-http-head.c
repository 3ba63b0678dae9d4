/* SPDX-License-Identifier: MIT */

/* What is let through to the library: the grammar of heads and of chunked bodies. */

#include "base/buffer.h"
#include "test.h"
#include "transport/http-body.h"

#define LINE "POST /mcp HTTP/1.1\r\n"
#define H "Host: 127.0.0.1:8080\r\n"
#define J "Content-Type: application/json\r\n"

typedef struct HeadCase {
        const char *text;
        unsigned status; /* 0: good, 1: incomplete so far */
} HeadCase;

static void check_heads(const HeadCase *table, size_t n) {
        for (size_t i = 0; i < n; i++) {
                HttpFault fault = {};
                HttpHead head;
                int r = http_head_check(table[i].text, strlen(table[i].text), &head, &fault);
                unsigned status = r == HTTP_HEAD_E_BAD ? fault.status : r == HTTP_HEAD_E_INCOMPLETE ? 1 : 0;

                if (status != table[i].status)
                        FAIL("%s: %u, expected %u", table[i].text, status, table[i].status);
        }
}

TEST(heads_are_judged_by_the_grammar) {
        static const HeadCase table[] = {
                { "", 1 },
                { "\r\n", 1 },
                { "POST", 1 },
                { "POST /mcp HTTP/1.1", 1 },
                { LINE, 1 },
                { LINE H, 1 },
                { LINE H "\r", 1 },
                { LINE H "\r\n", 0 },
                { "\r\n\r\n" LINE H "\r\n", 0 },
                { LINE H "\r\n\1\2 a body", 0 },
                { "GET /a?b=%20#c HTTP/1.0\r\n\r\n", 0 },
                { "x-y /\xc3\xbc HTTP/1.7\r\n" H "\r\n", 0 },
                { LINE H "A:\r\nB: \t \r\nC: a\tb\xff \r\n\r\n", 0 },
                { LINE H "content-length: \t40\r\n\r\n", 0 },
                { "\r", 1 },
                { "\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n" LINE H "\r\n", 0 },
                { LINE H "Transfer-Encoding:\tChunked\r\n\r\n", 0 },

                { "\x16\x03\x01", 400 },
                { "\1", 400 },
                { " /mcp HTTP/1.1\r\n", 400 },
                { "POST\t/mcp\tHTTP/1.1\r\n", 400 },
                { "POST /mcp\r\n", 400 },
                { "POST  /mcp HTTP/1.1\r\n", 400 },
                { "POST /mcp  HTTP/1.1\r\n", 400 },
                { "POST /mcp HTTP/1.1 \r\n", 400 },
                { "POST /m cp HTTP/1.1\r\n", 400 },
                { "POST /m\tcp HTTP/1.1\r\n", 400 },
                { "POST /mcp%00 HTTP/1.1\r\n", 400 },
                { "POST /mcp http/1.1\r\n", 400 },
                { "POST /mcp HTTP/1.10\r\n", 400 },
                { "POST /mcp HTTP/a.1\r\n", 400 },
                { "POST /mcp HTTP/2.0\r\n", 505 },
                { "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505 },
                { "POST /mcp HTTP/1.1\n", 400 },
                { LINE "Host: a\n", 400 },
                { LINE "Host: a\r\n\n", 400 },
                { LINE "\r\n", 400 },
                { LINE H H, 400 },
                { LINE H "no colon\r\n", 400 },
                { LINE H ": a\r\n", 400 },
                { LINE H "A : a\r\n", 400 },
                { LINE H " A: a\r\n", 400 },
                { LINE H "A: a\r\n b\r\n", 400 },
                { LINE H "A: a\rb\r\n", 400 },
                { LINE H "A: \x7f\r\n", 400 },
                { LINE H "A\1: a\r\n", 400 },
                { LINE H "Content-Length:\r\n", 400 },
                { LINE H "Content-Length: -1\r\n", 400 },
                { LINE H "Content-Length: +1\r\n", 400 },
                { LINE H "Content-Length: 0x1\r\n", 400 },
                { LINE H "Content-Length: 1, 1\r\n", 400 },
                { LINE H "Content-Length: 1\r\nContent-Length: 1\r\n", 400 },
                { LINE H "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", 400 },
                { LINE H "Transfer-Encoding: chunked\r\ncontent-length: 1\r\n", 400 },
                { LINE H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400 },
                { LINE H "Content-Length: 1000000000000000000\r\n", 413 },
                { LINE H "Transfer-Encoding: gzip, chunked\r\n", 501 },
                { LINE H "Transfer-Encoding:\r\n", 501 },
                { "POST /mcp HTTP/1.0\r\nTransfer-Encoding: chunked\r\n", 400 },
        };

        check_heads(table, ELEMENTSOF(table));
}

TEST(address_in_its_absolute_form_names_the_host_that_the_host_header_names) {
        static const HeadCase table[] = {
                { "POST http://127.0.0.1:8080/mcp HTTP/1.1\r\n" H "\r\n", 0 },
                { "POST http://127.0.0.1:8080 HTTP/1.1\r\n" H "\r\n", 0 },
                { "POST http://127.0.0.1:8080?a HTTP/1.1\r\n" H "\r\n", 0 },
                { "POST HTTPS://A.Example/mcp HTTP/1.1\r\nHost:\t a.example \t\r\n\r\n", 0 },
                { "POST http://a/mcp HTTP/1.0\r\n\r\n", 0 },
                { "POST http://127.0.0.1/mcp HTTP/1.1\r\n" H "\r\n", 400 },
                { "POST http://127.0.0.1:80800/mcp HTTP/1.1\r\n" H "\r\n", 400 },
                { "POST http://u@127.0.0.1:8080/mcp HTTP/1.1\r\n" H "\r\n", 400 },
                { "POST http://127.0.0.1:8080%2Fmcp HTTP/1.1\r\n" H "\r\n", 400 },
                { "POST http:///mcp HTTP/1.1\r\nHost:\r\n\r\n", 400 },
                { "POST http://a/mcp HTTP/1.1\r\nHost:\r\n\r\n", 400 },
        };

        check_heads(table, ELEMENTSOF(table));
}

/* Which no two readers take for the same. */
TEST(white_space_behind_a_length_and_odd_blank_lines_are_refused) {
        static const char *const table[] = {
                LINE H "content-length: 40 \r\n\r\n",
                LINE H "Transfer-Encoding: chunked\t\r\n\r\n",
                "\r" LINE H "\r\n",
                "\r\r\n" LINE H "\r\n",
                "\n" LINE H "\r\n",
                "\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n" LINE H "\r\n",
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                HttpFault fault = {};
                HttpHead head;

                ASSERT_EQ_INT(http_head_check(table[i], strlen(table[i]), &head, &fault), HTTP_HEAD_E_BAD);
                ASSERT_EQ_UINT(fault.status, 400);
        }
}

TEST(nul_in_a_head_is_no_end_of_it) {
        static const char name[] = LINE H "A\0: b\r\n", value[] = LINE H "A: a\0b\r\n",
                          method[] = "POST\0 /mcp HTTP/1.1\r\n", target[] = "POST /\0 HTTP/1.1\r\n";
        static const struct {
                const char *data;
                size_t n_bytes;
        } table[] = {
                { name, sizeof(name) - 1 },
                { value, sizeof(value) - 1 },
                { method, sizeof(method) - 1 },
                { target, sizeof(target) - 1 },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                HttpFault fault = {};
                HttpHead head;

                ASSERT_EQ_INT(http_head_check(table[i].data, table[i].n_bytes, &head, &fault),
                              HTTP_HEAD_E_BAD);
                ASSERT_EQ_UINT(fault.status, 400);
        }
}

/* Of each, the library remembers more than its bytes. */
TEST(many_parts_of_a_head_are_refused_at_the_limit) {
        static const struct {
                const char *before, *part, *after;
                unsigned n_others;
        } table[] = {
                { LINE H, "a:\r\n", "\r\n", 1 },
                { "GET /?", "a&", " HTTP/1.0\r\n\r\n", 1 },
                { "GET /?a=", "&b=", " HTTP/1.1\r\n" H "\r\n", 2 },
                { LINE H "Cookie: a=b", "; c=d", "\r\n\r\n", 2 },
                { LINE H "cookie: a=b", ", c=d", "\r\n\r\n", 2 },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                for (unsigned n = HTTP_PARTS_MAX - 1; n <= HTTP_PARTS_MAX + 1; n++) {
                        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
                        HttpFault fault = {};
                        HttpHead head;
                        int r;

                        ASSERT_EQ_INT(buffer_append_str(&b, table[i].before), 0);
                        for (unsigned k = table[i].n_others; k < n; k++)
                                ASSERT_EQ_INT(buffer_append_str(&b, table[i].part), 0);
                        ASSERT_EQ_INT(buffer_append_str(&b, table[i].after), 0);
                        r = http_head_check(b.data, b.n_bytes, &head, &fault);
                        ASSERT_TRUE((r == HTTP_HEAD_E_BAD) == (n > HTTP_PARTS_MAX));
                        ASSERT_EQ_UINT(fault.status, n > HTTP_PARTS_MAX ? 431U : 0U);
                }
}

TEST(long_heads_are_refused_at_the_limit) {
        static char text[HTTP_HEAD_BYTES_MAX];
        HttpFault fault;
        HttpHead head;

        memset(text, 'a', sizeof(text));
        memcpy(text, "POST /", 6);
        ASSERT_EQ_INT(http_head_check(text, sizeof(text) - 1, &head, &fault), HTTP_HEAD_E_INCOMPLETE);
        ASSERT_EQ_INT(http_head_check(text, sizeof(text), &head, &fault), HTTP_HEAD_E_BAD);
        ASSERT_EQ_UINT(fault.status, 414);
        memcpy(text, LINE H "A: ", strlen(LINE H "A: "));
        ASSERT_EQ_INT(http_head_check(text, sizeof(text) - 1, &head, &fault), HTTP_HEAD_E_INCOMPLETE);
        ASSERT_EQ_INT(http_head_check(text, sizeof(text), &head, &fault), HTTP_HEAD_E_BAD);
        ASSERT_EQ_UINT(fault.status, 431);
        memcpy(text + sizeof(text) - 4, "\r\n\r\n", 4);
        ASSERT_EQ_INT(http_head_check(text, sizeof(text), &head, &fault), 0);
}

/* Every byte is a reason to look again; the last one decides. */
TEST(head_in_pieces_is_judged_like_one_in_one_piece) {
        static const char good[] = LINE H J "Content-Length: 40\r\n\r\n";
        HttpFault fault;
        HttpHead head;

        for (size_t n = 0; n < sizeof(good) - 1; n++)
                ASSERT_EQ_INT(http_head_check(good, n, &head, &fault), HTTP_HEAD_E_INCOMPLETE);
        ASSERT_EQ_INT(http_head_check(good, sizeof(good) - 1, &head, &fault), 0);
        ASSERT_EQ_UINT(head.n_bytes, sizeof(good) - 1);
        ASSERT_EQ_UINT(head.n_content_bytes, 40);
        ASSERT_FALSE(head.is_chunked);
}

/* What a request of that head and this body is found to be: its status (0: whole, 1: goes on) and how much
 * of the body is good; byte by byte, and in all cuts in two. */
static unsigned judge_body(const HttpHead *head, const char *text, size_t *ret_n_good) {
        static const char zeros[64];
        size_t n = strlen(text), n_first = 0;
        unsigned first = 0;

        for (size_t cut = 0; cut <= n; cut++) {
                size_t n_good = 0, n_all = 0, n_step = cut == 0 ? 1 : n;
                HttpFault fault = {};
                unsigned status;
                HttpBody b;
                int r;

                http_body_init(&b, head);
                r = http_body_push(&b, zeros, head->n_bytes, &n_good, &fault);
                ASSERT_EQ_UINT(n_good, head->n_bytes);
                for (size_t at = 0; r == HTTP_HEAD_E_INCOMPLETE && at < n; at += n_good) {
                        size_t n_piece = at < cut ? cut - at : n - at;

                        n_piece = n_piece < n_step ? n_piece : n_step;
                        r = http_body_push(&b, text + at, n_piece, &n_good, &fault);
                        n_all += n_good;
                        if (r == HTTP_HEAD_E_INCOMPLETE)
                                ASSERT_EQ_UINT(n_good, n_piece);
                }
                status = r == HTTP_HEAD_E_BAD ? fault.status : r == HTTP_HEAD_E_INCOMPLETE ? 1 : 0;
                if (cut > 0 && (status != first || n_all != n_first))
                        FAIL("%s: cut at %zu: %u after %zu, not %u after %zu", text, cut, status, n_all,
                             first, n_first);
                first = status;
                n_first = n_all;
        }
        *ret_n_good = n_first;
        return first;
}

TEST(chunked_bodies_are_judged_by_the_grammar) {
        static const struct {
                const char *text;
                unsigned status; /* 0: whole, 1: incomplete so far */
                size_t n_good;
        } table[] = {
                { "", 1, 0 },
                { "5\r\nhello\r\n", 1, 10 },
                { "5\r\nhello\r\n0\r\n\r\nPOST", 0, 15 },
                { "005\r\nhello\r\n000\r\n\r\n", 0, 19 },
                { "0A\r\n\r\n\r\n\r\n0123\r\n0\r\n\r\n", 0, 21 },
                { "1\r\nx\r\n000\r\n\r\n", 0, 13 },
                { "0\r\nA: b\r\nB:\r\n\r\n", 0, 15 },
                { "zz\r\n", 400, 0 },
                { "\r\n", 400, 0 },
                { ";a\r\n", 400, 0 },
                { "-1\r\n", 400, 0 },
                { "0x5\r\n", 400, 1 },
                { "5 \r\nhello", 400, 1 },
                { "5\nhello", 400, 1 },
                { "5\rhello", 400, 2 },
                { "5\r\nhellox", 400, 8 },
                { "5\r\nhello\n", 400, 8 },
                { "5\r\nhello\rx", 400, 9 },
                { "5;\r\n", 400, 1 },
                { "5;a=\"b\"\r\n", 400, 1 },
                { "0;a\r\n\r\n", 400, 1 },
                { "8000000\r\n", 1, 9 },
                { "8000001\r\n", 413, 6 },
                { "fffffffffffffffffffff\r\n", 413, 6 },
                { "0\r\nno trailer\r\n", 400, 5 },
                { "0\r\n: a\r\n", 400, 3 },
                { "0\r\n a: b\r\n", 400, 3 },
                { "0\r\nA: b\r\n c\r\n", 400, 9 },
                { "0\r\nA: b\n", 400, 7 },
                { "0\r\nA: b\r\r", 400, 8 },
                { "0\r\n\rx", 400, 4 },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                size_t n_good;
                unsigned status = judge_body(&(HttpHead) { .n_bytes = 7, .is_chunked = true },
                                             table[i].text, &n_good);

                if (status != table[i].status || n_good != table[i].n_good)
                        FAIL("%s: %u after %zu, expected %u after %zu", table[i].text, status, n_good,
                             table[i].status, table[i].n_good);
        }
}

TEST(body_of_a_length_ends_there) {
        size_t n_good;

        ASSERT_EQ_UINT(judge_body(&(HttpHead) { .n_bytes = 9, .n_content_bytes = 4 }, "0\r\n\r\nx", &n_good),
                       0);
        ASSERT_EQ_UINT(n_good, 4);
        ASSERT_EQ_UINT(judge_body(&(HttpHead) { .n_bytes = 9, .n_content_bytes = 4 }, "0\r\n", &n_good), 1);
        ASSERT_EQ_UINT(judge_body(&(HttpHead) { .n_bytes = 9 }, "POST", &n_good), 0);
        ASSERT_EQ_UINT(n_good, 0);
}

TEST(chunk_lines_and_trailers_are_refused_at_their_limits) {
        static char text[HTTP_TRAILERS_BYTES_MAX + 64];
        const HttpHead head = { .n_bytes = 1, .is_chunked = true };
        size_t n_good;

        memset(text, '0', sizeof(text) - 1);
        ASSERT_EQ_UINT(judge_body(&head, text, &n_good), 400);
        ASSERT_EQ_UINT(n_good, HTTP_CHUNK_LINE_BYTES_MAX);
        memcpy(text, "0\r\nA:", 5);
        ASSERT_EQ_UINT(judge_body(&head, text, &n_good), 431);
        ASSERT_EQ_UINT(n_good, 3 + HTTP_TRAILERS_BYTES_MAX);
        for (size_t i = 0; i <= HTTP_TRAILERS_MAX; i++)
                memcpy(text + 3 + 4 * i, "A:\r\n", 4);
        ASSERT_EQ_UINT(judge_body(&head, text, &n_good), 431);
        ASSERT_EQ_UINT(n_good, 3 + 4 * HTTP_TRAILERS_MAX);
}
