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
        int r;

        assert(h);
        assert(line);

        if (json_raw_member(line, n_bytes, "id", &id, &n_id) <= 0)
                return has_method(line, n_bytes, "\"notifications/initialized\"") ?
                               keep(&h->initialized, line, n_bytes) : 0;
        if (!has_method(line, n_bytes, "\"initialize\"") || !mcp_raw_is_id(id, n_id))
                return 0;
        h->is_done = false;
        r = keep(&h->initialize, line, n_bytes);
        return r < 0 ? r : keep(&h->id, id, n_id);
}

void handshake_lost(Handshake *h) {
        assert(h);

        if (!h->is_done)
                handshake_done(h); /* the client will try again */
        buffer_done(&h->replay);
        h->is_replaying = false;
}

int handshake_replay(Handshake *h) {
        int r;

        assert(h);

        if (h->initialize.n_bytes == 0)
                return 0;
        h->is_replaying = true;
        r = keep(&h->replay, h->initialize.data, h->initialize.n_bytes);
        if (r >= 0 && h->initialized.n_bytes > 0)
                r = buffer_append(&h->replay, h->initialized.data, h->initialized.n_bytes);
        return r;
}

bool handshake_answered(Handshake *h, const char *line, size_t n_bytes) {
        const char *id, *result;
        bool is_success;
        size_t n;

        assert(h);
        assert(line);

        if ((h->is_done && !h->is_replaying) || h->id.n_bytes == 0 ||
            json_raw_member(line, n_bytes, "id", &id, &n) <= 0 || n != h->id.n_bytes ||
            memcmp(id, h->id.data, n) != 0)
                return false;
        is_success = json_raw_member(line, n_bytes, "result", &result, &n) > 0;
        if (!h->is_replaying) {
                h->is_done = is_success;
                return false;
        }
        h->is_replaying = false;
        if (!is_success)
                log_warning("The system service did not take the handshake that its predecessor took");
        return true;
}
