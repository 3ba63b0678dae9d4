/* SPDX-License-Identifier: MIT */

#include "server/bridge-handshake.h"

#include "base/log.h"
#include "json/json.h"
#include "mcp/message.h"

void handshake_done(Handshake *h) {
        assert(h);

        buffer_done(&h->initialize);
        buffer_done(&h->initialized);
        buffer_done(&h->id);
        buffer_done(&h->replay);
        *h = (Handshake) {};
}

static bool has_method(const char *line, size_t n_bytes, const char *quoted) {
        const char *method;
        size_t n;

        return json_raw_member(line, n_bytes, "method", &method, &n) > 0 && n == strlen(quoted) &&
               memcmp(method, quoted, n) == 0;
}

static int keep(Buffer *b, const char *data, size_t n_bytes) {
        buffer_done(b);
        return buffer_append(b, data, n_bytes);
}

int handshake_sent(Handshake *h, const char *line, size_t n_bytes) {
        const char *id;
        size_t n_id;

        assert(h);
        assert(line);

        return json_raw_member(line, n_bytes, "id", &id, &n_id) <= 0 &&
                               has_method(line, n_bytes, "\"notifications/initialized\"") ?
                       keep(&h->initialized, line, n_bytes) : 0;
}

void handshake_lost(Handshake *h) {
        assert(h);

        if (!handshake_is_done(h))
                handshake_done(h); /* the client will try again */
        buffer_done(&h->replay);
        h->is_replaying = false;
}

bool handshake_is_done(const Handshake *h) {
        assert(h);

        return h->initialize.n_bytes > 0;
}

int handshake_replay(Handshake *h) {
        int r;

        assert(h);

        if (!handshake_is_done(h))
                return 0;
        h->is_replaying = true;
        r = keep(&h->replay, h->initialize.data, h->initialize.n_bytes);
        if (r >= 0 && h->initialized.n_bytes > 0)
                r = buffer_append(&h->replay, h->initialized.data, h->initialized.n_bytes);
        return r;
}

static bool has_result(const char *line, size_t n_bytes) {
        const char *result;
        size_t n;

        return json_raw_member(line, n_bytes, "result", &result, &n) > 0;
}

bool handshake_is_ours(Handshake *h, const char *line, size_t n_bytes) {
        const char *id;
        size_t n;

        assert(h);
        assert(line);

        if (!h->is_replaying || json_raw_member(line, n_bytes, "id", &id, &n) <= 0 || n != h->id.n_bytes ||
            memcmp(id, h->id.data, n) != 0)
                return false;
        h->is_replaying = false;
        if (!has_result(line, n_bytes))
                log_warning("The system service did not take the handshake that its predecessor took");
        return true;
}

/* One that is refused leaves what was agreed before it. */
int handshake_answered(Handshake *h, const Buffer *request, const char *line, size_t n_bytes) {
        const char *id;
        size_t n;
        int r;

        assert(h);
        assert(request);
        assert(line);

        if (request->n_bytes == 0 || !has_method(request->data, request->n_bytes, "\"initialize\"") ||
            !has_result(line, n_bytes) || !mcp_message_raw_id(line, n_bytes, &id, &n))
                return 0;
        r = keep(&h->initialize, request->data, request->n_bytes);
        return r < 0 ? r : keep(&h->id, id, n);
}
