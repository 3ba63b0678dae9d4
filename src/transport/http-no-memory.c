/* SPDX-License-Identifier: MIT */

/* What a server without memory can say, made while it has some. The library reads and answers requests in
 * memory that their connection got when it began, and so do we (HttpConnection.room): whatever fails after
 * that, there is an answer. */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/timeutil.h"
#include "transport/http-request.h"

/* Read of a connection that is closed at once. */
#define READ_BYTES_MAX (256 * KIB)
/* Or of one whose client is still sending: so long, and no longer than it goes on without a pause. */
#define LINGER_USEC_MAX (100 * USEC_PER_MSEC)
#define PAUSE_MSEC_MAX 10

static int make_response(const char *text, const char *type, struct MHD_Response **ret) {
        /* The library's signature, not its intention. */
        struct MHD_Response *response =
                MHD_create_response_from_buffer(strlen(text), (char*) text, MHD_RESPMEM_PERSISTENT);

        if (!response)
                return -ENOMEM;
        *ret = response;
        if (MHD_add_response_header(response, "Content-Type", type) != MHD_YES ||
            MHD_add_response_header(response, "X-Content-Type-Options", "nosniff") != MHD_YES)
                return -ENOMEM;
        return 0;
}

int http_no_memory_prepare(HttpServer *s) {
        int r;

        assert(s);

        r = make_response("Accepted", "text/plain", &s->accepted);
        if (r >= 0)
                r = make_response(MCP_NO_MEMORY_REPLY, "application/json", &s->no_memory);
        /* What the connection holds is needed. */
        if (r >= 0 && MHD_add_response_header(s->no_memory, "Connection", "close") != MHD_YES)
                r = -ENOMEM;
        return r;
}

void http_no_memory_done(HttpServer *s) {
        assert(s);

        if (s->accepted)
                MHD_destroy_response(s->accepted);
        if (s->no_memory)
                MHD_destroy_response(s->no_memory);
}

void http_no_memory_send(HttpServer *s, int fd) {
        char answer[512], ignored[4096];
        size_t n_read = 0;
        ssize_t k;
        int n;

        listener_no_memory(&s->listener);
        /* Closing with unread input makes a reset of it, which can overtake the answer. */
        while (n_read < READ_BYTES_MAX && (k = recv(fd, ignored, sizeof(ignored), MSG_DONTWAIT)) > 0)
                n_read += (size_t) k;
        n = snprintf(answer, sizeof(answer),
                     "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n"
                     "Content-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n"
                     "Content-Length: %zu\r\n\r\n%s",
                     sizeof(MCP_NO_MEMORY_REPLY) - 1, MCP_NO_MEMORY_REPLY);
        assert(n > 0 && (size_t) n < sizeof(answer));
        (void) send(fd, answer, (size_t) n, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void) shutdown(fd, SHUT_WR);
}

void http_no_memory_refuse(HttpServer *s, int fd) {
        uint64_t end = now_monotonic_usec() + LINGER_USEC_MAX;
        struct pollfd p = { .fd = fd, .events = POLLIN };
        char ignored[16 * KIB];

        http_no_memory_send(s, fd);
        while (now_monotonic_usec() < end && poll(&p, 1, PAUSE_MSEC_MAX) > 0)
                if (recv(fd, ignored, sizeof(ignored), MSG_DONTWAIT) <= 0)
                        return;
}
