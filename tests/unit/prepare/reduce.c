/* SPDX-License-Identifier: MIT */

/* What the daemon sends to PARSE of a script that is run: reads the script on stdin, writes "yes" or "no",
 * whether it may have a block, and behind a newline what is left of it. */

#include <unistd.h>

#include "base/fd.h"
#include "python/block.h"
#include "python/python.h"

int main(void) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        _cleanup_free_ char *script = NULL;
        size_t n_bytes;

        if (fd_read_bytes(STDIN_FILENO, 1 << 20, &script, &n_bytes) < 0 ||
            buffer_append_str(&b, python_has_block(script, n_bytes) ? "yes\n" : "no\n") < 0 ||
            block_reduce(script, n_bytes, &b) < 0 || fd_write_all(STDOUT_FILENO, b.data, b.n_bytes) < 0)
                return 1;
        return 0;
}
