/* SPDX-License-Identifier: MIT */

/* Random identifiers. */

#include "base/random.h"

#include <sys/random.h>

#include "base/macro.h"

static int random_bytes(void *ret, size_t n_bytes) {
        assert(n_bytes <= 256); /* up to here getrandom(2) is never interrupted halfway */

        for (;;) {
                ssize_t n = getrandom(ret, n_bytes, 0);

                if (n == (ssize_t) n_bytes)
                        return 0;
                if (n >= 0)
                        return -EIO;
                if (errno != EINTR)
                        return -errno;
        }
}

int random_hex_id(char ret[static RANDOM_HEX_ID_CHARS + 1]) {
        static const char digits[] = "0123456789abcdef";
        uint8_t bytes[RANDOM_HEX_ID_CHARS / 2];
        int r;

        r = random_bytes(bytes, sizeof(bytes));
        if (r < 0)
                return r;
        for (size_t i = 0; i < sizeof(bytes); i++) {
                ret[2 * i] = digits[bytes[i] >> 4];
                ret[2 * i + 1] = digits[bytes[i] & 15];
        }
        ret[RANDOM_HEX_ID_CHARS] = 0;
        return 0;
}

int random_uint64(uint64_t *ret) {
        uint64_t value;
        int r;

        assert(ret);

        r = random_bytes(&value, sizeof(value));
        if (r < 0)
                return r;
        *ret = value;
        return 0;
}
