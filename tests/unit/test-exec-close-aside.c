/* SPDX-License-Identifier: MIT */

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/macro.h"
#include "exec/close-aside.h"
#include "test.h"

static bool is_closed_soon(int fd) {
        for (int i = 0; i < 1000; i++) {
                if (fcntl(fd, F_GETFD) < 0)
                        return true;
                (void) usleep(10000);
        }
        return false;
}

TEST(nothing_to_close) {
        ASSERT_EQ_INT(close_aside(-EBADF), -EBADF);
}

TEST(what_is_no_tmpfs_is_closed_at_once) {
        int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        ASSERT_TRUE(fd >= 0);
        ASSERT_EQ_INT(close_aside(fd), -EBADF);
        ASSERT_TRUE(fcntl(fd, F_GETFD) < 0);
}

/* Whichever way it goes: what is in /dev/shm is the machine's affair. */
TEST(tmpfs_is_closed_in_the_end) {
        int fd = open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        ASSERT_TRUE(fd >= 0);
        ASSERT_EQ_INT(close_aside(fd), -EBADF);
        ASSERT_TRUE(is_closed_soon(fd));
}

TEST(tmpfs_with_much_in_it_is_closed_by_another_thread) {
        char path[] = "/dev/shm/test-close-aside-XXXXXX";
        int file = mkstemp(path), fd;

        ASSERT_TRUE(file >= 0);
        ASSERT_EQ_INT(unlink(path), 0);
        if (fallocate(file, 0, 0, 17 << 20) < 0) {
                (void) close(file);
                return; /* it is no tmpfs, or smaller: the case above is all there is to see */
        }
        fd = open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ASSERT_TRUE(fd >= 0);
        ASSERT_EQ_INT(close_aside(fd), -EBADF);
        ASSERT_TRUE(is_closed_soon(fd));
        (void) close(file);
}
