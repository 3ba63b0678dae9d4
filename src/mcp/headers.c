/* SPDX-License-Identifier: MIT */

#include "mcp/headers.h"

#include "base/base64.h"

static const char prefix[] = "=?base64?", suffix[] = "?=";

int mcp_header_equal(const char *header, const char *body) {
        const size_t n_prefix = sizeof(prefix) - 1, n_suffix = sizeof(suffix) - 1;
        _cleanup_buffer_ Buffer decoded = BUFFER_INIT(0);
        size_t n, n_body;
        int r;

        assert(header);
        assert(body);

        header += strspn(header, " \t");
        n = strlen(header);
        while (n > 0 && (header[n - 1] == ' ' || header[n - 1] == '\t'))
                n--;
        n_body = strlen(body);

        /* One marker alone is a literal value, whatever it looks like. */
        if (n >= n_prefix + n_suffix && memcmp(header, prefix, n_prefix) == 0 &&
            memcmp(header + n - n_suffix, suffix, n_suffix) == 0) {
                r = base64_decode(header + n_prefix, n - n_prefix - n_suffix, &decoded);
                if (r < 0)
                        return r;
                header = decoded.n_bytes > 0 ? decoded.data : "";
                n = decoded.n_bytes;
        }
        return n == n_body && memcmp(header, body, n) == 0;
}
