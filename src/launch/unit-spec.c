/* SPDX-License-Identifier: MIT */

/* UnitSpec: the profile filled in for one unit. */

#include <inttypes.h>
#include <string.h>

#include "base/strv.h"
#include "config.h"
#include "launch/unit-spec.h"

/* What a quota of n CPUs means to libraries that would start a thread per CPU of the machine. */
static const char *const thread_count_variables[] = {
        "BLIS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "NUMEXPR_MAX_THREADS",
        "NUMEXPR_NUM_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "POLARS_MAX_THREADS",
        "RAYON_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
};

/* What service managers put into every environment. The program has no use for any of it, and some names
 * the host. */
static const char *const manager_made_variables[] = {
        "CREDENTIALS_DIRECTORY",
        "DBUS_SESSION_BUS_ADDRESS",
        "DEBUG_INVOCATION",
        "INVOCATION_ID",
        "JOURNAL_STREAM",
        "LISTEN_FDNAMES",
        "LISTEN_FDS",
        "LISTEN_PID",
        "LISTEN_PIDFDID",
        "MAINPID",
        "MANAGERPID",
        "MANAGERPIDFDID",
        "MEMORY_PRESSURE_WATCH",
        "MEMORY_PRESSURE_WRITE",
        "NOTIFY_SOCKET",
        "SHELL",
        "SYSTEMD_EXEC_PID",
        "XDG_RUNTIME_DIR",
};

/* What the dynamic loader obeys before init's first instruction. Of a manager's environment we know what it
 * was when we asked (see fill_unset_environment()), and people set these later. */
static const char *const loader_variables[] = {
        "GLIBC_TUNABLES",
        "LD_AUDIT",
        "LD_BIND_NOW",
        "LD_DEBUG",
        "LD_DEBUG_OUTPUT",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "LD_PROFILE",
        "LD_SHOW_AUXV",
        "LD_TRACE_LOADED_OBJECTS",
        "LD_VERBOSE",
        "LD_WARN",
};

/* What of the host is seen inside. numpy finds its BLAS only through /etc/alternatives. Three is few on
 * purpose: each costs a millisecond per run; /usr comes first, /bin, /lib and the like are links in the
 * skeleton. */
static const char *const standard_binds[] = {
        "-/etc/ld.so.cache",
        "-/etc/alternatives",
        "-/etc/localtime",
        "-/var/cache/mcp-exec/matplotlib",
};

/* What name resolution and TLS need. The certificates of some distributions are links from one of these
 * into another. */
static const char *const network_binds[] = {
        "-/etc/resolv.conf",
        "-/etc/hosts",
        "-/etc/ssl",
        "-/etc/pki",
        "-/etc/ca-certificates",
        "-/etc/crypto-policies",
        "-/var/lib/ca-certificates",
};

/* Beside certificates there may be keys, which somebody's user manager could read. */
static const char *const private_keys[] = {
        "-+/etc/ssl/private",
        "-+/etc/pki/tls/private",
};

UnitSpec* unit_spec_free(UnitSpec *s) {
        if (!s)
                return NULL;

        for (size_t i = 0; i < s->n_properties; i++)
                strv_free(s->properties[i].strings);
        free(s->properties);
        free(s);
        return NULL;
}

static int fill_command(Property *p, const UnitInput *in) {
        const char *const argv[] = {
                MCP_EXEC_LIBDIR "/init", in->is_selftest ? "selftest" : "run",
                "--mode", in->is_user ? "user" : "system",
                "--ns", in->namespaces,
                "--tmpfs",
        };
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(argv) && r >= 0; i++)
                r = strv_extend(&p->strings, argv[i]);

        /* The self-test compares: a tmpfs that the manager dropped in favour of a larger one would not be
         * noticed otherwise. */
        if (r >= 0)
                r = strv_extendf(&p->strings, "%" PRIu64 ":%" PRIu64, in->settings->tmpfs_bytes,
                                 in->settings->tmpfs_inodes);
        if (r >= 0 && profile_has_leaf(in->profile)) {
                r = strv_extend(&p->strings, "--profile");
                if (r >= 0)
                        r = strv_extend(&p->strings, profile_to_string(in->profile));
        } else if (r >= 0 && in->set) {
                r = strv_extend(&p->strings, "--set");
                if (r >= 0)
                        r = strv_extend(&p->strings, WIRE_SET_PATH);
        }
        return r < 0 ? r : strv_extend(&p->strings, in->python);
}

/* Usually /usr is bound without what is mounted below it: the skeleton lies there, and its mounts would
 * appear once more inside. A user's manager cannot leave such mounts out (the kernel says EINVAL, for they
 * could cover secrets), so there all of them are taken and the skeleton's copy is hidden. In system mode
 * only /usr/local may be of use. */
static int bind_usr(Property *p, const UnitInput *in) {
        int r;

        if (in->is_user && in->has_usr_mounts)
                return strv_extend(&p->strings, "/usr" BIND_RECURSIVE);

        r = strv_extend(&p->strings, "/usr");
        if (r < 0 || !in->has_usr_local_mount)
                return r;
        return strv_extend(&p->strings, "/usr/local");
}

static int fill_inaccessible(Property *p, const UnitInput *in) {
        bool has_network = in->profile == WIRE_PROFILE_FETCH;
        int r;

        r = strv_split("-+/sys -+/dev/pts -+/dev/ptmx", &p->strings);
        for (size_t i = 0; has_network && i < ELEMENTSOF(private_keys) && r >= 0; i++)
                r = strv_extend(&p->strings, private_keys[i]);
        if (r < 0 || !in->is_user || !in->has_usr_mounts)
                return r;
        return strv_extend(&p->strings, "-+" MCP_EXEC_LIBDIR "/root");
}

static int fill_binds(Property *p, const UnitInput *in) {
        bool has_network = in->profile == WIRE_PROFILE_FETCH;
        int r;

        r = bind_usr(p, in);
        for (size_t i = 0; i < ELEMENTSOF(standard_binds) && r >= 0; i++)
                r = strv_extend(&p->strings, standard_binds[i]);
        for (size_t i = 0; has_network && i < ELEMENTSOF(network_binds) && r >= 0; i++)
                r = strv_extend(&p->strings, network_binds[i]);

        STRV_FOREACH(path, in->settings->bind_read_only_paths)
                if (r >= 0)
                        r = strv_extendf(&p->strings, "%s" BIND_RECURSIVE, *path);

        return r;
}

static int bind_to(Property *p, const char *from, const char *to) {
        int r;

        r = strv_extend(&p->strings, from);
        return r < 0 ? r : strv_extend(&p->strings, to);
}

static int fill_tools(Property *p, const UnitInput *in) {
        int r = 0;

        if (in->uv)
                r = bind_to(p, in->uv, UV_PATH_INSIDE);
        if (r >= 0 && in->profile == WIRE_PROFILE_FETCH)
                r = bind_to(p, MCP_EXEC_LIBDIR "/nsswitch-network.conf", "/etc/nsswitch.conf");
        if (r >= 0 && in->ca_bundle && in->profile == WIRE_PROFILE_FETCH)
                r = bind_to(p, in->ca_bundle, WIRE_CA_BUNDLE_PATH);
        return r;
}

/* In system mode /tmp of a run is mounted by its alias in the skeleton: DynamicUser= owns the name /tmp, and
 * of two entries for one path the tmpfs would be dropped. The alias sorts after it and lands on top. */
static int fill_tmpfs(Property *p, const UnitInput *in) {
        const char *tmp = in->is_user || profile_has_leaf(in->profile) ? "/tmp" : TMP_ALIAS;
        const char *const paths[] = { tmp, "/dev/shm" };
        int r;

        for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
                r = strv_extendf(&p->strings,
                                 "%s:size=%" PRIu64 ",nr_inodes=%" PRIu64 ",mode=1777,nodev,nosuid",
                                 paths[i], in->settings->tmpfs_bytes, in->settings->tmpfs_inodes);
                if (r < 0)
                        return r;
        }

        /* The leaf appears by its name on the host as well, in a directory that is otherwise empty. */
        if (profile_has_leaf(in->profile) && !in->is_user) {
                r = strv_extend(&p->strings,
                                SETS_DIRECTORY ":ro,size=64k,nr_inodes=16,mode=755,nodev,nosuid");
                if (r < 0)
                        return r;
        }
        return strv_extend(&p->strings, "/run:ro,nodev,nosuid,noexec");
}

static int fill_environment(Property *p, const UnitInput *in) {
        uint64_t n_threads = (in->limits.cpu_quota_per_sec_usec + USEC_PER_SEC - 1) / USEC_PER_SEC;
        int r = 0;

        /* Only these: everything else that the program finds is set by init, from nothing. */
        for (size_t i = 0; i < ELEMENTSOF(thread_count_variables) && r >= 0; i++)
                r = strv_extendf(&p->strings, "%s=%" PRIu64, thread_count_variables[i],
                                 MAX_OF(n_threads, UINT64_C(1)));

        return r;
}

static bool is_variable_name(const char *s, size_t n) {
        static const char chars[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

        return n > 0 && !(s[0] >= '0' && s[0] <= '9') && strspn(s, chars) >= n;
}

static bool is_thread_count_variable(const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(thread_count_variables); i++)
                if (streq(thread_count_variables[i], name))
                        return true;

        return false;
}

/* A user manager passes its own environment on, and people keep tokens there (systemctl --user
 * set-environment). init starts from an empty one; this keeps them also out of init's. */
static int fill_unset_environment(Property *p, const UnitInput *in) {
        int r;

        for (size_t i = 0; i < ELEMENTSOF(manager_made_variables); i++) {
                if (in->profile == WIRE_PROFILE_FETCH &&
                    streq(manager_made_variables[i], "CREDENTIALS_DIRECTORY"))
                        continue;
                r = strv_extend(&p->strings, manager_made_variables[i]);
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < ELEMENTSOF(loader_variables); i++) {
                r = strv_extend(&p->strings, loader_variables[i]);
                if (r < 0)
                        return r;
        }

        STRV_FOREACH(variable, in->manager_environment) {
                size_t n = strcspn(*variable, "=");
                _cleanup_free_ char *name = NULL;

                if (!is_variable_name(*variable, n)) /* the manager would refuse the whole unit for it */
                        continue;

                name = strndup(*variable, n);
                if (!name)
                        return -ENOMEM;
                if (is_thread_count_variable(name) || strv_contains(p->strings, name))
                        continue;

                r = strv_extend(&p->strings, name);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int fill_fixed(Property *p, const ProfileRow *row) {
        p->number = row->number;

        if (!row->text)
                return 0;
        if (row->kind == VALUE_STRING)
                return strv_extend(&p->strings, row->text);
        return strv_split(row->text, &p->strings);
}

static int property_fill(Property *p, const ProfileRow *row, const UnitInput *in) {
        switch (row->source) {

        case SOURCE_FIXED:
                return fill_fixed(p, row);
        case SOURCE_COMMAND:
                return fill_command(p, in);
        case SOURCE_BINDS:
                return fill_binds(p, in);
        case SOURCE_TMPFS:
                return fill_tmpfs(p, in);
        case SOURCE_INACCESSIBLE:
                return fill_inaccessible(p, in);
        case SOURCE_ENVIRONMENT:
                return fill_environment(p, in);
        case SOURCE_UNSET_ENVIRONMENT:
                return fill_unset_environment(p, in);
        case SOURCE_MEMORY_MAX:
                p->number = in->limits.memory_max_bytes;
                return 0;
        case SOURCE_TASKS_MAX:
                p->number = in->limits.tasks_max;
                return 0;
        case SOURCE_CPU_QUOTA:
                p->number = in->limits.cpu_quota_per_sec_usec;
                return 0;
        case SOURCE_RUNTIME_MAX:
                p->number = in->limits.runtime_max_usec;
                return 0;
        case SOURCE_FILE_SIZE:
                /* Only against sparse monsters: a full tmpfs shall say ENOSPC, not EFBIG. */
                p->number = 2 * MAX_OF(in->settings->tmpfs_bytes, in->settings->memory_max_bytes);
                if (profile_has_leaf(in->profile))
                        p->number = MAX_OF(p->number, in->settings->packages.prepare_max_bytes);
                return 0;
        case SOURCE_SET:
        case SOURCE_LEAF:
                return in->set ? bind_to(p, in->set, WIRE_SET_PATH) : 0;
        case SOURCE_LEAF_DIRECTORY:
                return in->leaf ? strv_extendf(&p->strings, SETS_STATE_DIRECTORY "/%s", in->leaf) : 0;
        case SOURCE_TOOLS:
                return fill_tools(p, in);
        case SOURCE_CREDENTIALS:
                return in->index_credentials ?
                               strv_extendf(&p->strings, WIRE_CREDENTIAL_NAME ":%s", in->index_credentials) :
                               0;
        case _PROFILE_SOURCE_MAX:
                break;
        }

        return -EINVAL;
}

static bool row_applies(const ProfileRow *row, const UnitInput *in) {
        if (!(row->where & (unsigned) (in->is_user ? IN_USER : IN_SYSTEM)) ||
            !(row->profiles & (1U << in->profile)))
                return false;

        /* A protection that must be there is sent to any manager: one that does not know it refuses by
         * name. */
        if (!row->is_optional)
                return true;
        if (in->manager_version < row->min_version)
                return false;
        if (row->max_version > 0 && in->manager_version > row->max_version)
                return false;
        return !strv_contains(in->without, row->name);
}

int unit_spec_new(const UnitInput *in, UnitSpec **ret) {
        _cleanup_(unit_spec_freep) UnitSpec *s = NULL;
        int r;

        assert(in && in->settings && in->python && in->namespaces);
        assert(ret);

        s = calloc(1, sizeof(*s));
        if (!s)
                return -ENOMEM;
        s->profile = in->profile;
        s->properties = calloc(profile_n_rows, sizeof(*s->properties));
        if (!s->properties)
                return -ENOMEM;

        for (size_t i = 0; i < profile_n_rows; i++) {
                const ProfileRow *row = profile_rows + i;
                Property *p = s->properties + s->n_properties;

                if (!row_applies(row, in))
                        continue;

                s->n_properties++;
                p->name = row->name;
                p->kind = row->kind;
                r = property_fill(p, row, in);
                if (r < 0)
                        return r;
                if (row->source >= SOURCE_SET && !p->strings)
                        s->n_properties--;
        }

        *ret = TAKE_PTR(s);
        return 0;
}

static int binds_print(const Property *p, Buffer *b) {
        int r = 0;

        for (size_t i = 0; p->strings && p->strings[i] && r >= 0; i += 2)
                r = buffer_printf(b, "%s%s:%s", i > 0 ? " " : "", p->strings[i], p->strings[i + 1]);
        return r;
}

static int property_print(const Property *p, Buffer *b) {
        static const char *const descriptors[_WIRE_FD_MAX] = { "control socket", "stdout pipe",
                                                               "stderr pipe" };
        const char *separator = "";
        int r;

        switch (p->kind) {
        case VALUE_BOOL:
                return buffer_append_str(b, p->number ? "yes" : "no");
        case VALUE_INT32:
        case VALUE_UINT32:
        case VALUE_UINT64:
                if (streq(p->name, "UMask") || streq(p->name, "StateDirectoryMode"))
                        return buffer_printf(b, "%04" PRIo64, p->number);
                return buffer_printf(b, "%" PRIu64, p->number);
        case VALUE_FD:
                assert(p->number < _WIRE_FD_MAX);
                return buffer_printf(b, "(%s)", descriptors[p->number]);
        case VALUE_ALLOW:
                if (strv_length(p->strings) == 0)
                        return buffer_append_str(b, "none");
                break;
        case VALUE_DENY:
                separator = "~";
                break;
        case VALUE_BINDS_TO:
                return binds_print(p, b);
        case VALUE_PAIR:
                return buffer_printf(b, "%s:%s", p->strings[0], p->strings[1]);
        case VALUE_STRING:
        case VALUE_STRINGS:
        case VALUE_BINDS:
        case VALUE_TMPFS:
        case VALUE_CREDENTIALS:
        case VALUE_EXEC:
                break;
        case _VALUE_KIND_MAX:
                return -EINVAL;
        }

        STRV_FOREACH(s, p->strings) {
                r = buffer_printf(b, "%s%s", separator, *s);
                if (r < 0)
                        return r;
                separator = " ";
        }

        return 0;
}

int unit_spec_print(const UnitSpec *s, Buffer *b) {
        int r;

        assert(s && b);

        for (size_t i = 0; i < s->n_properties; i++) {
                r = buffer_printf(b, "%s=", s->properties[i].name);
                if (r >= 0)
                        r = property_print(s->properties + i, b);
                if (r >= 0)
                        r = buffer_append_str(b, "\n");
                if (r < 0)
                        return r;
        }

        return 0;
}
