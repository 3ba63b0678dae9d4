/* SPDX-License-Identifier: MIT */

/* SHA-256, by nettle. */

#include "base/digest.h"

#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <nettle/version.h>
#include <stdint.h>

#include "base/macro.h"

struct Sha256 {
        struct sha256_ctx context;
};

static void end(struct sha256_ctx *context, uint8_t ret[static SHA256_DIGEST_SIZE]) {
#if NETTLE_VERSION_MAJOR >= 4 /* lost its length argument there */
        sha256_digest(context, ret);
#else
        sha256_digest(context, SHA256_DIGEST_SIZE, ret);
#endif
}

static void sha256_raw(const void *data, size_t n_bytes, uint8_t ret[static SHA256_DIGEST_SIZE]) {
        struct sha256_ctx context;

        assert(data || n_bytes == 0);

        sha256_init(&context);
        if (n_bytes > 0)
                sha256_update(&context, n_bytes, data);
        end(&context, ret);
        explicit_bzero(&context, sizeof(context));
}

static void to_hex(const uint8_t digest[static SHA256_DIGEST_SIZE], char ret[static SHA256_HEX_CHARS + 1]) {
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < SHA256_DIGEST_SIZE; i++) {
                ret[2 * i] = digits[digest[i] >> 4];
                ret[2 * i + 1] = digits[digest[i] & 15];
        }
        ret[SHA256_HEX_CHARS] = 0;
}

void sha256_hex(const void *data, size_t n_bytes, char ret[static SHA256_HEX_CHARS + 1]) {
        uint8_t digest[SHA256_DIGEST_SIZE];

        sha256_raw(data, n_bytes, digest);
        to_hex(digest, ret);
}

Sha256* sha256_new(void) {
        Sha256 *s = malloc(sizeof(*s));

        if (s)
                sha256_init(&s->context);
        return s;
}

Sha256* sha256_free(Sha256 *s) {
        free(s);
        return NULL;
}

void sha256_add(Sha256 *s, const void *data, size_t n_bytes) {
        assert(s);
        assert(data || n_bytes == 0);

        if (n_bytes > 0)
                sha256_update(&s->context, n_bytes, data);
}

void sha256_hex_end(Sha256 *s, char ret[static SHA256_HEX_CHARS + 1]) {
        uint8_t digest[SHA256_DIGEST_SIZE];

        assert(s);

        end(&s->context, digest);
        to_hex(digest, ret);
}

bool secret_equal(const char *a, const char *b) {
        uint8_t digest_a[SHA256_DIGEST_SIZE], digest_b[SHA256_DIGEST_SIZE];
        int is_equal;

        assert(a);
        assert(b);

        /* The digests hide how many leading bytes agree, and that the lengths differ. */
        sha256_raw(a, strlen(a), digest_a);
        sha256_raw(b, strlen(b), digest_b);
        is_equal = memeql_sec(digest_a, digest_b, sizeof(digest_a));
        explicit_bzero(digest_a, sizeof(digest_a));
        explicit_bzero(digest_b, sizeof(digest_b));
        return is_equal != 0;
}

bool digest_equal(const char a[static SHA256_HEX_CHARS], const char b[static SHA256_HEX_CHARS]) {
        return memeql_sec(a, b, SHA256_HEX_CHARS) != 0;
}
