/* SPDX-License-Identifier: MIT */

/* Sandbox: what can be known about this machine without starting a unit. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/strv.h"
#include "config.h"
#include "launch/sandbox.h"
#include "launch/sweep.h"

static const char *const namespace_names[] = { "net", "mnt", "ipc", "user", "pid" };

static void sandbox_set_problem(Sandbox *s, int error) {
        if (s->problem.reason[0] == '\0')
                (void) problem_set(&s->problem, error, REMEDY_JOURNAL, "The launcher could not be set up");
        s->has_problem = true;
        log_error("Runs are refused: %s (%s). %s.", s->problem.reason, strerror(abs(error)),
                  s->problem.remedy);
}

static bool is_below(const char *path, const char *directory) {
        size_t n = strlen(directory);

        while (n > 1 && directory[n - 1] == '/')
                n--;
        return strncmp(path, directory, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

bool path_is_visible(const char *path, char *const *binds) {
        /* /bin is a link into /usr, here and in the skeleton. */
        if (is_below(path, "/usr") || is_below(path, "/bin"))
                return true;
        STRV_FOREACH(bind, binds)
                if (is_below(path, **bind == '-' ? *bind + 1 : *bind))
                        return true;
        return false;
}

static bool is_program(const char *path) {
        struct stat st;

        /* Others must be able to execute it: in system mode a run has a uid that was made for it. */
        return stat(path, &st) >= 0 && S_ISREG(st.st_mode) && (st.st_mode & S_IXOTH);
}

int interpreter_resolve(const char *name, char *const *binds, char **ret, Problem *reterr_problem) {
        static const char *const directories[] = { "/usr/local/bin", "/usr/bin", "/bin" };
        _cleanup_free_ char *path = NULL, *real = NULL;
        int r;

        assert(name && ret);

        for (size_t i = 0; name[0] != '/' && !path && i < ELEMENTSOF(directories); i++) {
                _cleanup_free_ char *candidate = NULL;

                r = str_printf(&candidate, "%s/%s", directories[i], name);
                if (r < 0)
                        return r;
                if (is_program(candidate))
                        path = TAKE_PTR(candidate);
        }
        if (name[0] == '/') {
                r = str_copy(&path, name);
                if (r < 0)
                        return r;
        }
        if (!path || !is_program(path))
                return problem_set(
                        reterr_problem, ENOENT,
                        "Set Python= in mcp-exec.conf, or MCP_EXEC_PYTHON, to the absolute path of an "
                        "interpreter that everybody may execute, or leave it out and install one (package "
                        "python3)",
                        "The Python interpreter %s (Python=) is not there or not executable", name);

        real = realpath(path, NULL);
        if (!real || !path_is_visible(path, binds) || !path_is_visible(real, binds))
                return problem_set(
                        reterr_problem, EXDEV,
                        "Set Python= in mcp-exec.conf, or MCP_EXEC_PYTHON, to an interpreter under /usr, or "
                        "add the directory of this one to BindReadOnlyPaths=",
                        "The Python interpreter %s (Python=) is outside of what a run may see",
                        real ? real : path);

        *ret = TAKE_PTR(path);
        return 0;
}

static int read_namespaces(char **ret) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(256);
        int r;

        for (size_t i = 0; i < ELEMENTSOF(namespace_names); i++) {
                char path[sizeof("/proc/self/ns/") + 8];
                struct stat st;

                (void) snprintf(path, sizeof(path), "/proc/self/ns/%s", namespace_names[i]);
                if (stat(path, &st) < 0)
                        return -errno;
                r = buffer_printf(&b, "%s%s=%" PRIu64, i > 0 ? "," : "", namespace_names[i],
                                  (uint64_t) st.st_ino);
                if (r < 0)
                        return r;
        }

        return buffer_steal(&b, ret, NULL);
}

/* Looks at the mounts of this process. A user's launcher sees what the user's manager sees; the system's
 * has mounts of its own below /usr (ProtectKernelModules=) and uses only the answer about /usr/local. */
static int find_usr_mounts(Sandbox *s) {
        _cleanup_free_ char *text = NULL;
        struct stat usr, local;
        char *rest, *line;
        int r;

        s->has_usr_local_mount = stat("/usr", &usr) >= 0 && stat("/usr/local", &local) >= 0 &&
                                 usr.st_dev != local.st_dev;

        r = file_read(AT_FDCWD, "/proc/self/mountinfo", 16 * MIB, &text, NULL);
        if (r < 0)
                return r;
        rest = text;
        while ((line = strsep(&rest, "\n"))) {
                const char *field = line;

                for (unsigned i = 0; i < 4 && field; i++) { /* the fifth is the mount point */
                        field = strchr(field, ' ');
                        field = field ? field + 1 : NULL;
                }
                if (field && strncmp(field, "/usr/", 5) == 0)
                        s->has_usr_mounts = true;
        }
        return 0;
}

static int check_files(Problem *p) {
        static const char *const files[] = { "/init", "/runner/sitecustomize.py",
                                             "/root/etc/mcp-exec-root" };

        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                char path[sizeof(MCP_EXEC_LIBDIR) + 32];

                (void) snprintf(path, sizeof(path), "%s%s", MCP_EXEC_LIBDIR, files[i]);
                if (access(path, R_OK) < 0)
                        return problem_set(p, errno, "Reinstall mcp-exec",
                                           "A part of mcp-exec is missing: %s", path);
        }
        return 0;
}

static int check_version(bool is_user, unsigned version, const char *text, Problem *p) {
        if (version < MANAGER_VERSION_MIN)
                return problem_set(p, EOPNOTSUPP,
                                   "Use systemd 252 or later: Debian 12, Ubuntu 24.04, RHEL 9",
                                   "systemd %s is too old for the sandbox", text);
        if (is_user && version < MANAGER_VERSION_MIN_USER)
                return problem_set(p, EOPNOTSUPP, remedy_system_service(),
                                   "A user's own systemd %s cannot hide the user's processes from a run: "
                                   "that needs 257", text);
        return 0;
}

int sandbox_check_manager(const Manager *m, Problem *p) {
        struct statfs fs;
        int r;

        assert(m);

        r = check_version(m->is_user, m->version, m->version_text, p);
        if (r < 0)
                return r;
        if (!m->has_seccomp)
                return problem_set(p, EOPNOTSUPP,
                                   "Use a systemd that was built with seccomp (Features: +SECCOMP)",
                                   "This systemd has no system call filter");
        if (statfs("/sys/fs/cgroup", &fs) < 0 || fs.f_type != CGROUP2_SUPER_MAGIC)
                return problem_set(p, EOPNOTSUPP,
                                   "Boot with the kernel argument systemd.unified_cgroup_hierarchy=1",
                                   "The machine does not use cgroup v2, the limits of a run cannot hold");
        return 0;
}

static int sandbox_load_settings(Sandbox *s) {
        _cleanup_free_ char *message = NULL;
        int r;

        r = settings_load(s->is_user, &s->settings, &message);
        if (r >= 0 && s->uv_path)
                r = settings_set(s->settings, "Packages", "UvPath", s->uv_path, &message);
        if (r < 0)
                return problem_set(&s->problem, -r, "Correct the configuration", "%s",
                                   message ? message : "The configuration cannot be read");

        for (unsigned i = 0; i < _WIRE_PROFILE_MAX; i++)
                s->ceilings[i] = limits_ceiling(s->settings, (WireProfile) i);
        return 0;
}

static int sandbox_find_out(Sandbox *s, sd_event *event) {
        _cleanup_(sd_bus_flush_close_unrefp) sd_bus *bus = NULL;
        int r;

        r = sandbox_load_settings(s);
        if (r < 0)
                return r;
        r = manager_open_bus(s->is_user, &bus, &s->problem);
        if (r < 0)
                return r;
        r = manager_new(event, bus, s->is_user, &s->manager, &s->problem);
        bus = sd_bus_unref(bus); /* the manager's now */
        if (r < 0)
                return r;
        r = sandbox_check_manager(s->manager, &s->problem);
        if (r < 0)
                return r;
        r = interpreter_resolve(s->settings->python, s->settings->bind_read_only_paths, &s->python,
                                &s->problem);
        if (r < 0)
                return r;
        r = packages_find(&s->packages, s->settings, s->is_user);
        if (r >= 0)
                r = find_usr_mounts(s);
        if (r < 0)
                return r;
        if (!event)
                return 0; /* for printing only */

        r = check_files(&s->problem);
        if (r < 0)
                return r;

        r = sweep_leftovers(s->manager);
        if (r < 0)
                log_warning_errno(r, "Cannot look for runs that an earlier launcher left behind");
        r = sets_new(s->is_user, &s->sets);
        if (r < 0)
                return r;
        sets_sweep(s->sets);
        return manager_attach(s->manager, &s->problem);
}

static int sandbox_allocate(bool is_user, Sandbox **ret) {
        _cleanup_(sandbox_freep) Sandbox *s = NULL;
        int r;

        s = calloc(1, sizeof(*s));
        if (!s)
                return -ENOMEM;
        s->is_user = is_user;
        r = read_namespaces(&s->namespaces);
        if (r < 0)
                return log_error_errno(r, "Cannot read the namespaces of this process");

        *ret = TAKE_PTR(s);
        return 0;
}

int sandbox_new(sd_event *event, bool is_user, const char *uv_path, Sandbox **ret) {
        _cleanup_(sandbox_freep) Sandbox *s = NULL;
        int r;

        assert(ret);

        r = sandbox_allocate(is_user, &s);
        if (r < 0)
                return r;
        s->uv_path = uv_path;
        r = sandbox_find_out(s, event);
        if (r == -ENOMEM)
                return log_oom();
        if (r < 0)
                sandbox_set_problem(s, r);
        else if (s->settings->require_controllers != CONTROLLERS_ALL)
                log_warning("RequireControllers= is set to less than its default: limits of memory, "
                            "processes or CPU may not hold");

        *ret = TAKE_PTR(s);
        return 0;
}

int sandbox_new_for_version(bool is_user, unsigned version, Sandbox **ret) {
        _cleanup_(sandbox_freep) Sandbox *s = NULL;
        char text[16];
        int r;

        assert(ret);

        r = sandbox_allocate(is_user, &s);
        if (r < 0)
                return r;
        (void) snprintf(text, sizeof(text), "%u", version);
        r = check_version(is_user, version, text, &s->problem);
        if (r >= 0)
                r = sandbox_load_settings(s);
        if (r >= 0)
                r = interpreter_resolve(s->settings->python, s->settings->bind_read_only_paths, &s->python,
                                        &s->problem);
        if (r >= 0)
                r = packages_find(&s->packages, s->settings, is_user);
        if (r < 0)
                sandbox_set_problem(s, r);

        s->manager = calloc(1, sizeof(*s->manager));
        if (!s->manager)
                return log_oom();
        s->manager->version = version;

        *ret = TAKE_PTR(s);
        return 0;
}

void sandbox_look_again(Sandbox *s) {
        assert(s);

        if (s->has_problem)
                return; /* this process ends soon, and the next one looks at everything */
        packages_look_again(&s->packages, s->settings, s->is_user);
        if (s->sets)
                sets_look_again(s->sets);
}

const char* sandbox_interpreter(const Sandbox *s, unsigned index) {
        assert(s);

        if (index == 0)
                return s->python;
        return index < WIRE_INTERPRETERS_MAX ? s->packages.pythons[index] : NULL;
}

static UnitInput sandbox_input(const Sandbox *s, const UnitChoice *choice) {
        const Packages *p = &s->packages;

        return (UnitInput) {
                .is_user = s->is_user,
                .is_selftest = choice->is_selftest,
                .profile = choice->profile,
                .leaf = choice->set ? choice->set->text : NULL,
                .uv = p->uv && streq(p->uv_inside, UV_PATH_INSIDE) ? p->uv : NULL,
                .ca_bundle = p->ca_bundle,
                .index_credentials = p->index_credentials,
                .manager_version = s->manager->version,
                .settings = s->settings,
                .limits = choice->limits,
                .python = sandbox_interpreter(s, choice->interpreter),
                .namespaces = s->namespaces,
                .manager_environment = s->manager->environment,
                .has_usr_mounts = s->has_usr_mounts,
                .has_usr_local_mount = s->has_usr_local_mount,
                .without = s->without,
        };
}

int sandbox_unit_spec(const Sandbox *s, const UnitChoice *choice, UnitSpec **ret) {
        _cleanup_free_ char *set = NULL;
        UnitInput in;
        int r;

        assert(s && s->manager && s->settings && s->python && choice);

        in = sandbox_input(s, choice);
        if (choice->set) {
                r = str_printf(&set, "%s/%s", s->sets ? s->sets->directory : SETS_DIRECTORY,
                               choice->set->text);
                if (r < 0)
                        return r;
                in.set = set;
        }
        return unit_spec_new(&in, ret);
}

int sandbox_fingerprint(const Sandbox *s, Buffer *b) {
        static const char *const programs[] = { "/init", "/runner/sitecustomize.py", "/root" };
        _cleanup_(unit_spec_freep) UnitSpec *spec = NULL;
        const UnitChoice choice = { .is_selftest = true, .limits = s->ceilings[WIRE_PROFILE_RUN] };
        _cleanup_free_ char *boot_id = NULL;
        UnitInput in;
        int r;

        assert(s && s->manager && b);

        r = file_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 64, &boot_id, NULL);
        if (r < 0)
                return r;
        r = buffer_printf(b, "boot %ssystemd %s\nmcp-exec %s\nrequire %u\n", boot_id,
                          s->manager->version_text, MCP_EXEC_VERSION, s->settings->require_controllers);
        for (size_t i = 0; i < ELEMENTSOF(programs) && r >= 0; i++) {
                char path[sizeof(MCP_EXEC_LIBDIR) + 32];
                struct stat st = {};

                (void) snprintf(path, sizeof(path), "%s%s", MCP_EXEC_LIBDIR, programs[i]);
                (void) stat(path, &st); /* absent: zero, and the self-test will say so */
                r = buffer_printf(b, "%s %" PRId64 " %" PRId64 "\n", programs[i],
                                  (int64_t) st.st_ctim.tv_sec, (int64_t) st.st_ctim.tv_nsec);
        }
        if (r < 0)
                return r;

        in = sandbox_input(s, &choice);
        in.namespaces = "-"; /* our own change at each start */
        in.without = NULL;
        r = unit_spec_new(&in, &spec);
        if (r < 0)
                return r;
        return unit_spec_print(spec, b);
}

Sandbox* sandbox_free(Sandbox *s) {
        if (!s)
                return NULL;

        manager_free(s->manager);
        settings_free(s->settings);
        packages_done(&s->packages);
        sets_free(s->sets);
        free(s->python);
        free(s->namespaces);
        strv_free(s->without);
        free(s);
        return NULL;
}
