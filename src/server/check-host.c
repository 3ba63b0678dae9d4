/* SPDX-License-Identifier: MIT */

/* Checks of the machine: the init system, cgroups, namespaces, seccomp, the user's service manager.
 *
 * These explain; they do not decide. Whether sandboxes hold is decided by the launcher's self-test, from
 * inside one. */

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/fd.h"
#include "base/macro.h"
#include "base/parse.h"
#include "base/strv.h"
#include "server/check.h"
#include "server/read-command.h"

#define MANAGER_VERSION_MIN 252
#define FILE_BYTES_MAX (64 * KIB)

/* A small file of the kernel without its last newline, or NULL. */
static char* read_text(const char *path) {
        _cleanup_free_ char *text = NULL;
        size_t n_bytes;

        if (file_read(AT_FDCWD, path, FILE_BYTES_MAX, &text, &n_bytes) < 0)
                return NULL;
        if (n_bytes > 0 && text[n_bytes - 1] == '\n')
                text[n_bytes - 1] = 0;
        return TAKE_PTR(text);
}

static bool text_has_word(const char *text, const char *word) {
        _cleanup_strv_ char **words = NULL;

        return text && strv_split(text, &words) >= 0 && strv_contains(words, word);
}

/* ---- Init ---- */

static bool is_wsl(void) {
        _cleanup_free_ char *release = read_text("/proc/sys/kernel/osrelease");
        return release && (strcasestr(release, "microsoft") || strcasestr(release, "wsl"));
}

static bool is_container(void) {
        return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0 ||
               access("/run/systemd/container", F_OK) == 0 || getenv("container") ||
               getenv("KUBERNETES_SERVICE_HOST");
}

void check_init(CheckContext *c) {
        _cleanup_free_ char *name = read_text("/proc/1/comm");
        const char *remedy;

        assert(c);

        c->is_booted = sd_booted() > 0;
        c->is_in_container = is_container();
        if (c->is_booted) {
                check_add(&c->report, CHECK_OK, "systemd", NULL, "is process 1%s",
                          c->is_in_container ? " of this container" : "");
                return;
        }

        if (is_wsl())
                remedy = "Write \"[boot]\" and \"systemd=true\" into /etc/wsl.conf, run \"wsl --shutdown\" "
                         "in Windows and start WSL again.";
        else if (c->is_in_container)
                remedy = "Run mcp-exec on the host, or start a container whose process 1 is systemd "
                         "(\"podman run --systemd=always\", systemd-nspawn --boot).";
        else
                remedy = "mcp-exec needs a machine that was booted with systemd; use one, or change its "
                         "init system.";
        check_add(&c->report, CHECK_FAIL, "systemd", remedy, "process 1 is %s, not systemd%s",
                  name ?: "unknown",
                  is_wsl()           ? " (WSL)" :
                  c->is_in_container ? " (a container)" :
                                       "");
}

/* ---- Version of the manager ---- */

/* "systemd 257 (257.13-1)" -> 257 and the text in parentheses. */
static bool parse_version(char *text, uint64_t *ret_number, const char **ret_text) {
        static const char prefix[] = "systemd ";
        char *number, *open, *close;
        bool is_number;

        if (strncmp(text, prefix, strlen(prefix)) != 0)
                return false;
        number = text + strlen(prefix);
        open = strstr(number, " (");
        close = open ? strchr(open, ')') : NULL;
        if (!close)
                return false;
        *open = *close = 0;
        number[strspn(number, "0123456789")] = 0;
        is_number = parse_uint64(number, ret_number) >= 0;
        *ret_text = open + 2;
        return is_number;
}

void check_version(CheckContext *c) {
        static const char *const argv[] = { "systemctl", "--version", NULL };
        static const char old[] = "Upgrade to a distribution with systemd 252 or later, such as Debian 12.";
        _cleanup_buffer_ Buffer output = BUFFER_INIT(FILE_BYTES_MAX);
        uint64_t number = 0;
        const char *text = NULL;

        assert(c);

        /* One that refuses may not have asked. */
        if (c->knows_launcher && c->hello.manager_version > 0) {
                number = c->hello.manager_version;
                text = c->hello.manager_version_text;
        } else if (read_command(argv, &output) < 0 || output.n_bytes == 0 ||
                   !parse_version(output.data, &number, &text)) {
                check_add(&c->report, CHECK_WARN, "version", "Install the package systemd completely.",
                          "systemctl does not tell the version of systemd");
                return;
        }
        check_add(&c->report, number >= MANAGER_VERSION_MIN ? CHECK_OK : CHECK_FAIL, "version",
                  number >= MANAGER_VERSION_MIN ? NULL : old, "systemd %s", text);
}

/* ---- cgroups ---- */

static unsigned read_controllers(const char *path) {
        static const struct {
                const char *name;
                unsigned bit;
        } names[] = {
                { "memory", CONTROLLER_MEMORY },
                { "pids",   CONTROLLER_PIDS   },
                { "cpu",    CONTROLLER_CPU    },
        };
        _cleanup_free_ char *text = read_text(path);
        unsigned mask = 0;

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (text_has_word(text, names[i].name))
                        mask |= names[i].bit;
        return mask;
}

/* WSL mounts version 1, too, unless its own kernel is told not to. */
#define WSL_REMEDY \
        "Write \"[wsl2]\" and \"kernelCommandLine = cgroup_no_v1=all\" into .wslconfig in the home "       \
        "directory of Windows, run \"wsl --shutdown\" there and start WSL again."

/* Why the controllers are missing where this user's runs would be. */
static const char* controllers_remedy(const CheckContext *c, unsigned missing, bool is_user) {
        bool is_missing_everywhere = missing & ~read_controllers("/sys/fs/cgroup/cgroup.controllers");

        if (is_user && !is_missing_everywhere)
                return "Give user managers the controllers: \"sudo systemctl edit user@.service\" with "
                       "\"[Service]\" and \"Delegate=cpu memory pids\", then end all of your sessions (with "
                       "lingering: restart the machine) and log in again.";
        if (c->is_in_container)
                return "The container's host keeps the controllers for itself (cgroup v1, or no "
                       "delegation): run mcp-exec on a host or in a virtual machine.";
        if (is_wsl())
                return WSL_REMEDY;
        return "Boot with cgroup v2 only (kernel options systemd.unified_cgroup_hierarchy=1 and, on some "
               "boards, cgroup_enable=memory).";
}

static void check_controllers(CheckContext *c) {
        bool is_good = c->knows_launcher && c->hello.verdict == WIRE_VERDICT_OK, is_demanded;
        unsigned found = 0, missing, required = c->settings->require_controllers;
        bool is_user = !c->uses_system_service && c->uid != 0;
        _cleanup_free_ char *path = NULL;

        if (is_good)
                found = c->hello.controllers;
        else if (!is_user)
                found = read_controllers("/sys/fs/cgroup/cgroup.controllers");
        else if (str_printf(&path,
                            "/sys/fs/cgroup/user.slice/user-%u.slice/user@%u.service/cgroup.controllers",
                            (unsigned) c->uid, (unsigned) c->uid) >= 0) {
                if (access(path, F_OK) < 0)
                        return; /* no user manager to look at, which is said in a line of its own */
                found = read_controllers(path);
        }

        missing = CONTROLLERS_ALL & ~found;
        /* A launcher refuses to do without what its settings demand. */
        is_demanded = missing & required && !(c->mistake && is_good);
        if (missing == 0) {
                check_add(&c->report, CHECK_OK, "controllers", NULL, "memory, pids and cpu can be limited");
                return;
        }
        check_add(&c->report, is_demanded && !c->mistake ? CHECK_FAIL : CHECK_WARN, "controllers",
                  controllers_remedy(c, missing, is_user), "a run has no limit of%s%s%s%s",
                  missing & CONTROLLER_MEMORY ? " memory," : "",
                  missing & CONTROLLER_PIDS ? " processes," : "",
                  missing & CONTROLLER_CPU ? " CPU time," : "",
                  !is_demanded ? " which RequireControllers= allows" :
                  c->mistake   ? " which RequireControllers= may demand" :
                                 " which RequireControllers= demands");
}

void check_cgroups(CheckContext *c) {
        const char *remedy = is_wsl() ? WSL_REMEDY :
                c->is_in_container    ? "Run mcp-exec on a host or in a virtual machine, or boot this "
                                        "container's host with the kernel option "
                                        "systemd.unified_cgroup_hierarchy=1." :
                                        "Boot with the kernel option systemd.unified_cgroup_hierarchy=1 and "
                                        "without systemd.legacy_systemd_cgroup_controller.";
        struct statfs fs, unified;

        assert(c);

        /* An empty directory of sysfs, where nothing is mounted on it. */
        if (statfs("/sys/fs/cgroup", &fs) < 0 ||
            (fs.f_type != CGROUP2_SUPER_MAGIC && fs.f_type != TMPFS_MAGIC)) {
                check_add(&c->report, CHECK_FAIL, "cgroups",
                          c->is_booted ? remedy : "This is systemd's work, see above.",
                          "nothing is mounted on /sys/fs/cgroup");
                return;
        }
        if (fs.f_type == CGROUP2_SUPER_MAGIC) {
                check_add(&c->report, CHECK_OK, "cgroups", NULL, "unified (version 2)");
                check_controllers(c);
                return;
        }
        check_add(&c->report, CHECK_FAIL, "cgroups", remedy,
                  "%s, so systemd cannot limit or account runs reliably",
                  statfs("/sys/fs/cgroup/unified", &unified) >= 0 && unified.f_type == CGROUP2_SUPER_MAGIC ?
                          "hybrid (versions 1 and 2 mixed)" :
                          "version 1");
}

/* ---- Namespaces and seccomp ---- */

void check_namespaces(CheckContext *c) {
        static const char *const names[] = { "mnt", "net", "ipc", "pid", "user" };
        const char *remedy = NULL;
        char path[64];

        assert(c);

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                _cleanup_free_ char *limit = NULL;
                bool has_limit_zero;

                (void) snprintf(path, sizeof(path), "/proc/sys/user/max_%s_namespaces", names[i]);
                limit = read_text(path);
                has_limit_zero = limit && streq(limit, "0");
                (void) snprintf(path, sizeof(path), "/proc/self/ns/%s", names[i]);
                if (access(path, F_OK) == 0 && !has_limit_zero)
                        continue;
                /* The system service makes no user namespaces. */
                if (streq(names[i], "user") && (c->uses_system_service || c->uid == 0))
                        continue;
                if (has_limit_zero) /* which nobody raises by taking the setting away */
                        remedy = "Remove the setting user.max_…_namespaces = 0 from /etc/sysctl.conf or "
                                 "/etc/sysctl.d, and restart the machine.";
                else
                        remedy = "Boot a distribution kernel: this one was built without them.";
                check_add(&c->report, CHECK_FAIL, "namespaces", remedy, "%s namespaces cannot be made",
                          names[i]);
        }
        if (!remedy)
                check_add(&c->report, CHECK_OK, "namespaces", NULL, "can be made");
}

void check_seccomp(CheckContext *c) {
        _cleanup_free_ char *actions = read_text("/proc/sys/kernel/seccomp/actions_avail");

        assert(c);

        if (text_has_word(actions, "errno"))
                check_add(&c->report, CHECK_OK, "seccomp", NULL, "system calls can be filtered");
        else
                check_add(&c->report, CHECK_FAIL, "seccomp",
                          "Boot a distribution kernel: this one was built without CONFIG_SECCOMP_FILTER.",
                          "system calls cannot be filtered");
}

/* ---- The user's own manager, where the system service does not serve this user ---- */

static bool is_sysctl_on(const char *path) {
        _cleanup_free_ char *text = read_text(path);
        return text && streq(text, "1");
}

/* A socket stays behind when its manager goes, as long as somebody is logged in. */
static bool is_answered(const char *path) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        _cleanup_close_ int fd = -EBADF;

        if (strlen(path) >= sizeof(address.sun_path))
                return false;
        memcpy(address.sun_path, path, strlen(path));
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        return fd < 0 || connect(fd, (const struct sockaddr *) &address, sizeof(address)) >= 0 ||
               errno == EAGAIN; /* it is busy */
}

void check_user_manager(CheckContext *c) {
        static const char use_service[] =
                "Use the system service: \"sudo systemctl enable --now mcp-exec.socket\" and \"sudo "
                "gpasswd -a %s mcp-exec\".";
        /* Where there is no name for it, no command takes it either. */
        const char *user = c->user_word ?: "USER";
        _cleanup_free_ char *path = NULL, *remedy = NULL;
        struct stat st;
        int r;

        assert(c);

        if (str_printf(&path, "/run/user/%u/systemd/private", (unsigned) c->uid) < 0) {
                check_report_break(&c->report, -ENOMEM);
                return;
        }
        if (stat(path, &st) < 0 || st.st_uid != c->uid) {
                if (!c->user_word)
                        r = str_copy(&remedy, "Give this uid a name (an entry in /etc/passwd): without "
                                              "one it has no service manager.");
                else
                        r = str_printf(&remedy,
                                       "Log in on the machine's console or by ssh, or run \"sudo "
                                       "loginctl enable-linger %s\" (packages libpam-systemd and "
                                       "dbus-user-session).",
                                       user);
                if (r < 0)
                        check_report_break(&c->report, r);
                check_add(&c->report, CHECK_FAIL, "user manager", remedy,
                          "%s has no service manager of its own running (no %s)", c->user_name, path);
                return;
        }
        if (!is_answered(path)) {
                if (str_printf(&remedy, "sudo systemctl restart user@%u.service", (unsigned) c->uid) < 0)
                        check_report_break(&c->report, -ENOMEM);
                check_add(&c->report, CHECK_FAIL, "user manager", remedy,
                          "%s has no service manager of its own running (nobody answers at %s)",
                          c->user_name, path);
                return;
        }
        c->has_user_manager = true;

        if (is_sysctl_on("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")) {
                r = str_printf(&remedy, use_service, user);
                if (r < 0)
                        check_report_break(&c->report, r);
                check_add(&c->report, CHECK_FAIL, "user manager", remedy,
                          "AppArmor lets no ordinary user make the namespaces that "
                          "a sandbox needs (kernel.apparmor_restrict_unprivileged_userns)");
                return;
        }
        check_add(&c->report, CHECK_OK, "user manager", NULL, "runs");
}
