/* SPDX-License-Identifier: MIT */

/* Looking at our own walls from inside.
 *
 * A service manager can answer "success" and have left a wall out: without the permission to make a
 * namespace it logs a line and goes on without it (network, IPC, and in user managers nearly everything).
 * Only a look from inside tells. Every check fails closed: what cannot be read is not there. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/macro.h"
#include "runner/probes.h"
#include "runner/runner.h"

#define TMPFS_SUPER_MAGIC 0x01021994
#define DYNAMIC_UID_MIN 61184
#define DYNAMIC_UID_MAX 65519
#define PROC_TEXT_BYTES 32768

/* Reads a whole file of /proc. Returns false for a failure and for a file that does not fit. */
static bool read_text(const char *path, char *text, size_t n_max) {
        size_t n = 0;
        ssize_t k;
        int fd;

        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return false;

        do {
                k = read(fd, text + n, n_max - 1 - n);
                if (k > 0)
                        n += (size_t) k;
        } while (k > 0 && n < n_max - 1);

        (void) close(fd);
        text[n] = '\0';
        return k == 0 && strlen(text) == n;
}

static int check_namespaces(const RunnerFacts *facts) {
        static const struct {
                const char *path;
                int check;
        } namespaces[_RUNNER_NS_MAX] = {
                [RUNNER_NS_NET] = { "/proc/self/ns/net", RUNNER_CHECK_NS_NET },
                [RUNNER_NS_MNT] = { "/proc/self/ns/mnt", RUNNER_CHECK_NS_MNT },
                [RUNNER_NS_IPC] = { "/proc/self/ns/ipc", RUNNER_CHECK_NS_IPC },
                [RUNNER_NS_USER] = { "/proc/self/ns/user", RUNNER_CHECK_NS_USER },
                [RUNNER_NS_PID] = { "/proc/self/ns/pid", RUNNER_CHECK_NS_PID },
        };
        size_t n = facts_n_namespaces(facts);

        for (size_t i = 0; i < n; i++) {
                struct stat st;

                if (i == RUNNER_NS_NET && facts->profile == RUNNER_PROFILE_FETCH)
                        continue;
                if (stat(namespaces[i].path, &st) < 0 || st.st_ino == facts->namespaces[i])
                        return namespaces[i].check;
        }

        return RUNNER_CHECK_OK;
}

/* The line after this one; an empty string at the end. */
static const char* next_line(const char *line) {
        line += strcspn(line, "\n");
        return *line == '\n' ? line + 1 : line;
}

bool is_loopback_only(const char *proc_net_dev) {
        size_t n_interfaces = 0;

        assert(proc_net_dev);

        /* Two lines of heading without a colon, then "  name: numbers" for each interface. */
        for (const char *line = proc_net_dev; *line; line = next_line(line)) {
                const char *name = line + strspn(line, " ");

                if (!memchr(name, ':', strcspn(name, "\n")))
                        continue;
                if (strncmp(name, "lo:", 3) != 0)
                        return false;
                n_interfaces++;
        }

        return n_interfaces == 1;
}

/* Finds "Name:\tvalue" and compares the rest of the line. */
static bool status_has(const char *status, const char *name, const char *value) {
        size_t n = strlen(name), m = strlen(value);

        for (const char *line = status; *line; line = next_line(line))
                if (strncmp(line, name, n) == 0 && strncmp(line + n, ":\t", 2) == 0)
                        return strncmp(line + n + 2, value, m) == 0 && line[n + 2 + m] == '\n';

        return false;
}

int check_status_text(const char *proc_status) {
        static const char *const capabilities[] = { "CapPrm", "CapEff", "CapBnd", "CapAmb" };

        assert(proc_status);

        for (size_t i = 0; i < ELEMENTSOF(capabilities); i++)
                if (!status_has(proc_status, capabilities[i], "0000000000000000"))
                        return RUNNER_CHECK_CAPABILITIES;
        if (!status_has(proc_status, "Seccomp", "2"))
                return RUNNER_CHECK_SECCOMP;
        if (!status_has(proc_status, "NoNewPrivs", "1"))
                return RUNNER_CHECK_NO_NEW_PRIVS;

        return RUNNER_CHECK_OK;
}

bool is_uid_of_profile(const RunnerFacts *facts, uid_t uid) {
        bool is_dynamic = uid >= DYNAMIC_UID_MIN && uid <= DYNAMIC_UID_MAX;

        assert(facts);

        if (uid == 0)
                return false;
        return facts->is_user || is_dynamic == (facts->profile == RUNNER_PROFILE_RUN);
}

static bool is_user_of_its_own(const RunnerFacts *facts) {
        uid_t real, effective, saved;

        return getresuid(&real, &effective, &saved) >= 0 && real == effective && real == saved &&
               is_uid_of_profile(facts, real);
}

static bool is_read_only(const char *path) {
        struct statvfs v;

        return statvfs(path, &v) == 0 && (v.f_flag & ST_RDONLY);
}

/* A user's credentials are mounted below /run/user/UID, where nothing else of it may be. */
static bool is_user_run_hidden(void) {
        static const char *const names[] = { "bus", "systemd", "gnupg" };
        char path[RUNNER_PATH_MAX];

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                (void) snprintf(path, sizeof(path), "/run/user/%u/%s", (unsigned) getuid(), names[i]);
                if (access(path, F_OK) == 0 || errno != ENOENT)
                        return false;
        }
        return true;
}

/* /run is where the sockets of the host are. */
static bool is_run_hidden(const RunnerFacts *facts) {
        static const char *const host_paths[] = {
                "/run/dbus",
                "/run/systemd/journal",
                "/run/systemd/notify",
                "/run/systemd/private",
        };

        for (size_t i = 0; i < ELEMENTSOF(host_paths); i++)
                if (access(host_paths[i], F_OK) == 0 || errno != ENOENT)
                        return false;

        if (facts->is_user && facts->profile == RUNNER_PROFILE_FETCH) {
                if (!is_user_run_hidden())
                        return false;
        } else if (access("/run/user", F_OK) == 0 || errno != ENOENT)
                return false;

        return is_read_only("/run");
}

static bool can_open(const char *path) {
        int fd;

        fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0)
                return false;
        (void) close(fd);
        return true;
}

int check_quick(const RunnerFacts *facts) {
        char text[PROC_TEXT_BYTES];
        int check;

        assert(facts);

        check = check_namespaces(facts);
        if (check != RUNNER_CHECK_OK)
                return check;
        if (facts->profile != RUNNER_PROFILE_FETCH &&
            (!read_text("/proc/self/net/dev", text, sizeof(text)) || !is_loopback_only(text)))
                return RUNNER_CHECK_LOOPBACK;
        if (!is_user_of_its_own(facts))
                return RUNNER_CHECK_UID;
        if (access("/etc/mcp-exec-root", F_OK) < 0)
                return RUNNER_CHECK_ROOT;
        if (!read_text("/proc/self/status", text, sizeof(text)))
                return RUNNER_CHECK_CAPABILITIES;
        check = check_status_text(text);
        if (check != RUNNER_CHECK_OK)
                return check;
        if (!is_run_hidden(facts))
                return RUNNER_CHECK_RUN_DIRECTORY;
        if (!is_read_only("/") || !is_read_only("/usr"))
                return RUNNER_CHECK_READ_ONLY;
        if (access("/sys/kernel", F_OK) == 0 || access("/sys/fs", F_OK) == 0)
                return RUNNER_CHECK_SYSFS;
        if (can_open("/dev/ptmx") || can_open("/dev/pts/ptmx"))
                return RUNNER_CHECK_TERMINALS;

        return probe_harmless(/* may_use_ip= */ facts->profile == RUNNER_PROFILE_FETCH);
}

bool is_limited_tmpfs(const char *proc_mountinfo, const char *mount_point) {
        bool is_limited = false;

        assert(proc_mountinfo);
        assert(mount_point);

        /* "36 35 98:0 /root /mount/point options optional... - type source super-options". Of several
         * mounts on one point the last is the one that is seen. A name with a space is written \040, so
         * splitting is safe. */
        for (const char *line = proc_mountinfo; *line; line = next_line(line)) {
                char point[RUNNER_PATH_MAX], rest[1024] = "";
                const char *options;

                if (sscanf(line, "%*s %*s %*s %*s %511s %1023[^\n]", point, rest) != 2)
                        continue;
                if (!streq(point, mount_point))
                        continue;
                options = strstr(rest, " - tmpfs ");
                is_limited = options && strstr(options, "size=") && strstr(options, "nr_inodes=");
        }

        return is_limited;
}

static bool is_small_tmpfs(const RunnerFacts *facts, const char *mountinfo, const char *path) {
        struct statfs s;

        if (statfs(path, &s) < 0 || s.f_type != TMPFS_SUPER_MAGIC || s.f_blocks == 0 || s.f_files == 0)
                return false;
        if (facts->tmpfs_bytes > 0) {
                /* Rounded up to whole pages by the kernel. */
                if ((uint64_t) s.f_blocks * (uint64_t) s.f_bsize > facts->tmpfs_bytes + (uint64_t) s.f_bsize)
                        return false;
                if ((uint64_t) s.f_files > facts->tmpfs_inodes)
                        return false;
        }

        return is_limited_tmpfs(mountinfo, path);
}

/* In system mode other users' processes are hidden, and of ours there is only this one; in user mode the
 * namespace holds nothing else. */
static bool sees_only_itself(void) {
        size_t n_others = 0, n_self = 0;
        const struct dirent *e;
        char self[32];
        DIR *d;

        (void) snprintf(self, sizeof(self), "%d", (int) getpid());

        d = opendir("/proc");
        if (!d)
                return false;
        while ((e = readdir(d)))
                if (streq(e->d_name, self))
                        n_self++;
                else if (e->d_name[0] >= '0' && e->d_name[0] <= '9')
                        n_others++;
        (void) closedir(d);

        return n_self == 1 && n_others == 0;
}

int check_all(const RunnerFacts *facts) {
        char mountinfo[PROC_TEXT_BYTES];
        int check;

        assert(facts);

        check = check_quick(facts);
        if (check != RUNNER_CHECK_OK)
                return check;
        if (!read_text("/proc/self/mountinfo", mountinfo, sizeof(mountinfo)))
                return RUNNER_CHECK_TMP;
        if (!is_small_tmpfs(facts, mountinfo, "/tmp"))
                return RUNNER_CHECK_TMP;
        if (!is_small_tmpfs(facts, mountinfo, "/dev/shm"))
                return RUNNER_CHECK_SHM;
        if (!sees_only_itself())
                return RUNNER_CHECK_PROCESSES;

        return probe_all("/tmp");
}
