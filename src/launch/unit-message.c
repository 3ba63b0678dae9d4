/* SPDX-License-Identifier: MIT */

/* UnitSpec -> the D-Bus call StartTransientUnit. */

#include <errno.h>
#include <sys/mount.h>
#include <systemd/sd-bus.h>

#include "base/strv.h"
#include "launch/unit-message.h"

static int append_strings(sd_bus_message *m, char *const *strings) {
        int r;

        r = sd_bus_message_open_container(m, 'a', "s");
        if (r < 0)
                return r;
        STRV_FOREACH(s, strings) {
                r = sd_bus_message_append_basic(m, 's', *s);
                if (r < 0)
                        return r;
        }
        return sd_bus_message_close_container(m);
}

static int append_filter(sd_bus_message *m, bool is_allow_list, char *const *strings) {
        int r;

        r = sd_bus_message_open_container(m, 'r', "bas");
        if (r < 0)
                return r;
        r = sd_bus_message_append(m, "b", is_allow_list);
        if (r < 0)
                return r;
        r = append_strings(m, strings);
        if (r < 0)
                return r;
        return sd_bus_message_close_container(m);
}

static int append_binds(sd_bus_message *m, char *const *paths) {
        int r;

        r = sd_bus_message_open_container(m, 'a', "(ssbt)");
        if (r < 0)
                return r;
        STRV_FOREACH(s, paths) {
                bool may_be_absent = (*s)[0] == '-';
                const char *start = *s + may_be_absent, *suffix = strstr(start, BIND_RECURSIVE);
                _cleanup_free_ char *path =
                        suffix ? strndup(start, (size_t) (suffix - start)) : strdup(start);

                if (!path)
                        return -ENOMEM;
                r = sd_bus_message_append(m, "(ssbt)", path, path, may_be_absent,
                                          (uint64_t) (suffix ? MS_REC : 0));
                if (r < 0)
                        return r;
        }
        return sd_bus_message_close_container(m);
}

static int append_binds_to(sd_bus_message *m, char *const *pairs) {
        int r;

        r = sd_bus_message_open_container(m, 'a', "(ssbt)");
        for (size_t i = 0; pairs && pairs[i] && r >= 0; i += 2)
                r = sd_bus_message_append(m, "(ssbt)", pairs[i], pairs[i + 1], /* may be absent */ false,
                                          UINT64_C(0));
        return r < 0 ? r : sd_bus_message_close_container(m);
}

/* "NAME:REST" each, for tmpfs and credentials. */
static int append_named(sd_bus_message *m, char *const *entries) {
        int r;

        r = sd_bus_message_open_container(m, 'a', "(ss)");
        if (r < 0)
                return r;
        STRV_FOREACH(s, entries) {
                size_t n = strcspn(*s, ":");
                _cleanup_free_ char *path = strndup(*s, n);

                if (!path)
                        return -ENOMEM;
                r = sd_bus_message_append(m, "(ss)", path, (*s)[n] == ':' ? *s + n + 1 : "");
                if (r < 0)
                        return r;
        }
        return sd_bus_message_close_container(m);
}

static int append_command(sd_bus_message *m, char *const *argv) {
        int r;

        assert(argv && argv[0]);

        r = sd_bus_message_open_container(m, 'a', "(sasas)");
        if (r < 0)
                return r;
        r = sd_bus_message_open_container(m, 'r', "sasas");
        if (r < 0)
                return r;
        r = sd_bus_message_append(m, "s", argv[0]);
        if (r < 0)
                return r;
        r = append_strings(m, argv);
        if (r < 0)
                return r;
        /* The manager would otherwise replace $NAME in the arguments. */
        r = sd_bus_message_append(m, "as", 1, "no-env-expand");
        if (r < 0)
                return r;
        r = sd_bus_message_close_container(m);
        if (r < 0)
                return r;
        return sd_bus_message_close_container(m);
}

static const char *const signatures[_VALUE_KIND_MAX] = {
        [VALUE_BOOL] = "b",
        [VALUE_INT32] = "i",
        [VALUE_UINT32] = "u",
        [VALUE_UINT64] = "t",
        [VALUE_STRING] = "s",
        [VALUE_STRINGS] = "as",
        [VALUE_ALLOW] = "(bas)",
        [VALUE_DENY] = "(bas)",
        [VALUE_BINDS] = "a(ssbt)",
        [VALUE_BINDS_TO] = "a(ssbt)",
        [VALUE_TMPFS] = "a(ss)",
        [VALUE_CREDENTIALS] = "a(ss)",
        [VALUE_PAIR] = "(ss)",
        [VALUE_EXEC] = "a(sasas)",
        [VALUE_FD] = "h",
};

static int append_value(sd_bus_message *m, const Property *p, const int fds[static _WIRE_FD_MAX]) {
        switch (p->kind) {
        case VALUE_BOOL:
                return sd_bus_message_append(m, "b", p->number != 0);
        case VALUE_INT32:
                return sd_bus_message_append(m, "i", (int32_t) p->number);
        case VALUE_UINT32:
                return sd_bus_message_append(m, "u", (uint32_t) p->number);
        case VALUE_UINT64:
                return sd_bus_message_append(m, "t", p->number);
        case VALUE_STRING:
                return sd_bus_message_append(m, "s", p->strings[0]);
        case VALUE_STRINGS:
                return append_strings(m, p->strings);
        case VALUE_ALLOW:
        case VALUE_DENY:
                return append_filter(m, p->kind == VALUE_ALLOW, p->strings);
        case VALUE_BINDS:
                return append_binds(m, p->strings);
        case VALUE_BINDS_TO:
                return append_binds_to(m, p->strings);
        case VALUE_TMPFS:
        case VALUE_CREDENTIALS:
                return append_named(m, p->strings);
        case VALUE_PAIR:
                assert(strv_length(p->strings) == 2);
                return sd_bus_message_append(m, "(ss)", p->strings[0], p->strings[1]);
        case VALUE_EXEC:
                return append_command(m, p->strings);
        case VALUE_FD:
                assert(p->number < _WIRE_FD_MAX);
                return sd_bus_message_append(m, "h", fds[p->number]);
        case _VALUE_KIND_MAX:
                break;
        }

        return -EINVAL;
}

static int append_property(sd_bus_message *m, const Property *p, const int fds[static _WIRE_FD_MAX]) {
        int r;

        r = sd_bus_message_open_container(m, 'r', "sv");
        if (r < 0)
                return r;
        r = sd_bus_message_append_basic(m, 's', p->name);
        if (r < 0)
                return r;
        r = sd_bus_message_open_container(m, 'v', signatures[p->kind]);
        if (r < 0)
                return r;
        r = append_value(m, p, fds);
        if (r < 0)
                return r;
        r = sd_bus_message_close_container(m);
        if (r < 0)
                return r;
        return sd_bus_message_close_container(m);
}

int unit_message_start(sd_bus *bus, const char *name, const UnitSpec *spec,
                       const int fds[static _WIRE_FD_MAX], sd_bus_message **ret) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
        int r;

        assert(bus && name && spec && ret);

        r = sd_bus_message_new_method_call(bus, &m, MANAGER_NAME, MANAGER_PATH, MANAGER_INTERFACE,
                                           "StartTransientUnit");
        if (r < 0)
                return r;
        r = sd_bus_message_append(m, "ss", name, "fail");
        if (r < 0)
                return r;
        r = sd_bus_message_open_container(m, 'a', "(sv)");
        if (r < 0)
                return r;
        for (size_t i = 0; i < spec->n_properties; i++) {
                r = append_property(m, spec->properties + i, fds);
                if (r < 0)
                        return r;
        }
        r = sd_bus_message_close_container(m);
        if (r < 0)
                return r;
        r = sd_bus_message_append(m, "a(sa(sv))", 0);
        if (r < 0)
                return r;

        *ret = TAKE_PTR(m);
        return 0;
}

int unit_message_limits(sd_bus *bus, const char *name, const WireLimits *limits, sd_bus_message **ret) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
        int r;

        assert(bus && name && limits && ret);

        r = sd_bus_message_new_method_call(bus, &m, MANAGER_NAME, MANAGER_PATH, MANAGER_INTERFACE,
                                           "SetUnitProperties");
        if (r < 0)
                return r;
        r = sd_bus_message_append(m, "sba(sv)", name, /* runtime= */ true, 3,
                                  "MemoryMax", "t", limits->memory_max_bytes,
                                  "TasksMax", "t", limits->tasks_max,
                                  "CPUQuotaPerSecUSec", "t", limits->cpu_quota_per_sec_usec);
        if (r < 0)
                return r;

        *ret = TAKE_PTR(m);
        return 0;
}
