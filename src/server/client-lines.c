/* SPDX-License-Identifier: MIT */

#include "server/client-lines.h"

#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "json/json.h"
#include "transport/transport.h"

void client_lines_done(ClientLines *l) {
        assert(l);

        buffer_done(&l->bytes);
        *l = (ClientLines) {};
}

static void find(ClientLines *l) {
        const char *newline;

        if (l->n_first > 0)
                return;
        newline = l->n_scanned < l->bytes.n_bytes ?
                          memchr(l->bytes.data + l->n_scanned, '\n', l->bytes.n_bytes - l->n_scanned) : NULL;
        if (newline)
                l->n_first = (size_t) (newline + 1 - l->bytes.data);
        else if (l->has_ended)
                l->n_first = l->bytes.n_bytes;
        l->n_scanned = l->bytes.n_bytes;
        if (!newline && l->bytes.n_bytes > LINE_BYTES_MAX)
                l->is_overlong = true;
}

/* Only what is new belongs to the line that is dropped: lines that were put back stand before it. */
static void drop_to_newline(ClientLines *l, size_t n_before) {
        char *added = l->bytes.data + n_before;
        size_t n = l->bytes.n_bytes - n_before;
        const char *newline = memchr(added, '\n', n);

        if (newline) {
                n -= (size_t) (newline + 1 - added);
                memmove(added, newline + 1, n);
                l->is_skipped = false;
        } else
                n = 0;
        l->bytes.n_bytes = n_before + n;
        l->bytes.data[l->bytes.n_bytes] = 0;
}

void client_lines_added(ClientLines *l, size_t n_before) {
        assert(l);
        assert(n_before <= l->bytes.n_bytes);

        if (l->is_skipped && l->bytes.n_bytes > n_before)
                drop_to_newline(l, n_before);
        find(l);
}

void client_lines_end(ClientLines *l) {
        assert(l);

        l->has_ended = true;
        find(l);
}

void client_lines_consume(ClientLines *l, size_t n_bytes) {
        assert(l);

        buffer_consume(&l->bytes, n_bytes);
        l->n_first = l->n_scanned = 0;
        find(l);
}

void client_lines_skip(ClientLines *l) {
        assert(l);

        l->is_overlong = false;
        if (l->n_first > 0) {
                client_lines_consume(l, l->n_first);
                return;
        }
        buffer_done(&l->bytes);
        l->n_scanned = 0;
        l->is_skipped = !l->has_ended;
}

int client_lines_put_back(ClientLines *l, Buffer *lines) {
        Buffer bytes;
        int r;

        assert(l);
        assert(lines);

        r = buffer_append(lines, l->bytes.data ?: "", l->bytes.n_bytes);
        if (r < 0)
                return r;
        bytes = l->bytes;
        l->bytes = *lines;
        *lines = bytes;
        l->n_first = l->n_scanned = 0;
        find(l);
        return 0;
}

bool client_lines_has_method(const ClientLines *l, const char *quoted) {
        const char *method;
        size_t n;

        assert(l);
        assert(quoted);

        return l->n_first > 0 && json_raw_member(l->bytes.data, l->n_first, "method", &method, &n) > 0 &&
               n == strlen(quoted) && memcmp(method, quoted, n) == 0;
}

bool client_lines_is_call(const ClientLines *l) {
        return client_lines_has_method(l, "\"tools/call\"") ||
               client_lines_has_method(l, "\"tools\\/call\"");
}

bool client_lines_is_batch(const ClientLines *l) {
        size_t position = 0, n;
        const char *message;

        assert(l);

        return l->n_first > 0 &&
               json_raw_next_element(l->bytes.data, l->n_first, &position, &message, &n) != -EBADMSG;
}
