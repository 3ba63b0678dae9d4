/* SPDX-License-Identifier: MIT */

/* Wiring: engine, tools and MCP server put together, and the one check that only this room can make.
 *
 * That check: which Python runs is decided by the launcher from root's configuration, not by us.
 * MCP_EXEC_PYTHON in the environment of a daemon whose launcher is another process would be silently without
 * effect. So when it is set and does not name the launcher's Python, calls are refused with a sentence that
 * says where to set it. */

#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macro.h"
#include "base/strv.h"
#include "config.h"
#include "server/audit.h"
#include "server/daemon.h"
#include "server/fd-store.h"
#include "server/launcher-connect.h"
#include "server/metrics.h"
#include "server/package-setup.h"
#include "server/principals.h"
#include "tool/interpreters.h"
#include "tool/packages.h"
#include "tool/tool.h"

static const char instructions[] =
        "Runs Python 3 programs. Each call is a new process in a new sandbox: nothing is kept between "
        "calls, and there is no network. Packages are not installed by pip: a script declares them, see "
        "execute_python. Print what you want to see. The result tells how the program ended; \"message\" "
        "and \"hints\" say what to change when it failed.";

struct Daemon {
        DaemonParameters parameters;
        LauncherConnect connect;
        char **packages, **interpreters;
        ExecEngine *engine;
        Python *python;
        char *state_directory;
        RunTable *runs;
        ToolRegistry *registry;
        McpServer *server;

        const char *required_python; /* MCP_EXEC_PYTHON, when the launcher does not read our environment */
        bool has_told_mismatch;
        void (*on_ready)(void *userdata);
        void *ready_userdata;
};

/* Where the launcher looks for an interpreter that is named without a directory. */
static bool python_is(const char *wanted, const char *path) {
        static const char *const dirs[] = { "/usr/local/bin", "/usr/bin", "/bin" };
        char candidate[512];

        if (strchr(wanted, '/'))
                return streq(wanted, path);
        for (size_t i = 0; i < ELEMENTSOF(dirs); i++) {
                int n = snprintf(candidate, sizeof(candidate), "%s/%s", dirs[i], wanted);
                if (n > 0 && (size_t) n < sizeof(candidate) && access(candidate, X_OK) == 0)
                        return streq(candidate, path);
        }
        return false;
}

/* Allocates the sentence for a call that must not run, or leaves NULL. */
static int refusal_of_python(Daemon *d, char **ret) {
        const ExecSandboxInfo *info = exec_engine_sandbox(d->engine);

        if (!d->required_python)
                return 0;
        if (!info->is_known)
                return str_printf(
                        ret,
                        "Nothing was run: MCP_EXEC_PYTHON is set and the launcher has not told yet which "
                        "Python it runs%s%s. Try again in a moment.",
                        info->error ? ": " : "", info->error ?: "");
        if (info->hello.verdict != WIRE_VERDICT_OK ||
            python_is(d->required_python, info->hello.interpreters[0]))
                return 0;

        if (!d->has_told_mismatch)
                log_error("MCP_EXEC_PYTHON=%s is not the Python that the launcher runs, %s: set Python=%s "
                          "in [Sandbox] of /etc/mcp-exec/mcp-exec.conf and restart "
                          "mcp-exec-launcher.service, or unset the variable. Until then no program is run",
                          d->required_python, info->hello.interpreters[0], d->required_python);
        d->has_told_mismatch = true;
        return str_printf(
                ret,
                "Nothing was run: the server is told to use another Python (MCP_EXEC_PYTHON=%s) than its "
                "launcher runs (%s). The administrator sets Python= in /etc/mcp-exec/mcp-exec.conf instead.",
                d->required_python, info->hello.interpreters[0]);
}

static void on_python_asked(const ExecSandboxInfo *info, void *userdata) {
        Daemon *d = userdata;
        _cleanup_free_ char *refusal = NULL;

        (void) info;
        (void) refusal_of_python(d, &refusal); /* logs a mismatch */
        if (d->on_ready) {
                void (*on_ready)(void *) = d->on_ready;
                d->on_ready = NULL;
                on_ready(d->ready_userdata);
        }
}

int daemon_prepare(Daemon *d, void (*on_ready)(void *userdata), void *userdata) {
        int r;

        assert(d);
        assert(on_ready);

        if (!d->required_python) {
                on_ready(userdata);
                return 0;
        }
        d->on_ready = on_ready;
        d->ready_userdata = userdata;
        r = exec_engine_query_sandbox(d->engine, on_python_asked, d);
        if (r < 0)
                d->on_ready = NULL;
        return r;
}

/* ---- Tools, seen through the check above ---- */

static int tools_list(void *userdata, McpVersion version, JsonWriter *w) {
        const Daemon *d = userdata;
        return tool_registry_ops.list(d->registry, version, w);
}

static bool tools_exists(void *userdata, const char *name) {
        const Daemon *d = userdata;
        return tool_registry_ops.exists(d->registry, name);
}

static const char* tools_routing_header(void *userdata, const char *name, const char **ret_argument) {
        const Daemon *d = userdata;
        return tool_registry_ops.routing_header(d->registry, name, ret_argument);
}

static const char* tools_required_capability(void *userdata, const char *name) {
        const Daemon *d = userdata;
        return tool_registry_ops.required_capability(d->registry, name);
}

static int tools_call(void *userdata, const char *name, const JsonValue *arguments, McpCall *call) {
        Daemon *d = userdata;
        _cleanup_free_ char *refusal = NULL;
        int r;

        if (d->parameters.refusal) {
                r = str_printf(&refusal, "Nothing was run: %s", d->parameters.refusal);
                if (r < 0)
                        return r;
                mcp_call_fail(call, refusal);
                return 0;
        }
        r = refusal_of_python(d, &refusal);
        if (r < 0)
                return r;
        if (!refusal)
                return tool_registry_ops.call(d->registry, name, arguments, call);

        /* A launcher that was away at our start may be back: learn it for the next call. */
        if (!exec_engine_sandbox(d->engine)->is_known)
                (void) exec_engine_query_sandbox(d->engine, on_python_asked, d);
        mcp_call_fail(call, refusal);
        return 0;
}

static void tools_cancel(void *userdata, void *tool_data) {
        const Daemon *d = userdata;
        tool_registry_ops.cancel(d->registry, tool_data);
}

static int task_get(void *userdata, const char *principal, const char *id, McpTask *ret) {
        const Daemon *d = userdata;
        return tool_task_ops.get(d->registry, principal, id, ret);
}

static int task_cancel(void *userdata, const char *principal, const char *id) {
        const Daemon *d = userdata;
        return tool_task_ops.cancel(d->registry, principal, id);
}

static int task_watch(void *userdata, const char *principal, const char *id, McpTaskWatch *w,
                      void **ret_handle) {
        const Daemon *d = userdata;
        return tool_task_ops.watch(d->registry, principal, id, w, ret_handle);
}

static void task_unwatch(void *userdata, void *handle) {
        const Daemon *d = userdata;
        tool_task_ops.unwatch(d->registry, handle);
}

static const McpTaskOps daemon_task_ops = {
        .get = task_get,
        .cancel = task_cancel,
        .watch = task_watch,
        .unwatch = task_unwatch,
};

static const McpToolOps daemon_tool_ops = {
        .list = tools_list,
        .exists = tools_exists,
        .required_capability = tools_required_capability,
        .routing_header = tools_routing_header,
        .call = tools_call,
        .cancel = tools_cancel,
};

/* ---- Engine ---- */

static int engine_connect(void *userdata, char **reterr_message) {
        Daemon *d = userdata;
        return launcher_connect(&d->connect, reterr_message);
}

static int engine_admit_principal(const char *principal, PrincipalLimits *ret, char **reterr_message,
                                  void *userdata) {
        const Daemon *d = userdata;
        return principals_admit(d->parameters.principals, principal, ret, reterr_message);
}

static void engine_finished(const ExecRequest *request, const ExecResult *result, void *userdata) {
        const Daemon *d = userdata;

        if (d->parameters.has_audit)
                audit_run_finished(request, result);
        if (d->parameters.metrics)
                metrics_count(d->parameters.metrics, request, result);
        if (d->python)
                python_sweep_once(d->python);
}

static void engine_idle_changed(bool is_idle, void *userdata) {
        const Daemon *d = userdata;

        if (d->parameters.on_idle_changed)
                d->parameters.on_idle_changed(is_idle, d->parameters.userdata);
}

static void results_changed(Daemon *d) {
        engine_idle_changed(exec_engine_n_running(d->engine) == 0 && exec_engine_n_queued(d->engine) == 0,
                            d);
}

static void result_kept(const char *run_id, int fd, void *userdata) {
        Daemon *d = userdata;

        if (d->parameters.has_fd_store)
                fd_store_push(run_id, fd);
        results_changed(d);
}

static void result_dropped(const char *run_id, void *userdata) {
        Daemon *d = userdata;

        if (d->parameters.has_fd_store)
                fd_store_remove(run_id);
        results_changed(d);
}

static int make_python(Daemon *d) {
        PythonParameters python = {
                .event = d->parameters.event,
                .settings = d->parameters.settings,
                .engine = d->engine,
                .programs_directory = d->parameters.programs_directory ?: MCP_EXEC_LIBDIR "/prepare",
        };
        int r;

        r = packages_find_state_directory(!d->parameters.launcher_socket_path, &d->state_directory);
        if (r < 0)
                return r;
        python.state_directory = d->state_directory;
        r = python_new(&python, &d->python);
        return r < 0 ? r : packages_use_default(d->python, d->parameters.settings);
}

static int make_parts(Daemon *d) {
        const DaemonParameters *p = &d->parameters;
        ExecEngineParameters engine = {
                .event = p->event,
                .settings = p->settings,
                .packages = d->packages,
                .connect = engine_connect,
                .admit = p->principals ? engine_admit_principal : NULL,
                .on_finished = engine_finished,
                .on_idle_changed = engine_idle_changed,
                .userdata = d,
        };
        McpServerParameters server = {
                .name = "mcp-exec",
                .title = "mcp-exec: Python in a sandbox",
                .version = MCP_EXEC_VERSION,
                .instructions = instructions,
                .tools = &daemon_tool_ops,
                .tools_userdata = d,
                .tasks = &daemon_task_ops,
        };
        RunTableParameters runs = {
                .event = p->event,
                .settings = p->settings,
                .on_kept = result_kept,
                .on_dropped = result_dropped,
                .userdata = d,
        };
        ToolRegistryParameters tools = {
                .event = p->event,
                .settings = p->settings,
                .interpreters = d->interpreters,
        };
        int r;

        r = exec_engine_new(&engine, &d->engine);
        if (r < 0)
                return r;
        r = make_python(d);
        if (r < 0)
                return r;
        runs.engine = d->engine;
        r = run_table_new(&runs, &d->runs);
        if (r < 0)
                return r;
        tools.engine = d->engine;
        tools.packages = d->packages;
        tools.runs = d->runs;
        tools.python = d->python;
        r = tool_registry_new(&tools, &d->registry);
        if (r < 0)
                return r;
        return mcp_server_new(&server, &d->server);
}

int daemon_new(const DaemonParameters *p, Daemon **ret) {
        _cleanup_(daemon_freep) Daemon *d = NULL;
        int r;

        assert(p);
        assert(p->event);
        assert(p->settings);
        assert(ret);

        d = malloc(sizeof(*d));
        if (!d)
                return -ENOMEM;
        *d = (Daemon) {
                .parameters = *p,
                .connect = { .socket_path = p->launcher_socket_path, .uv_path = p->uv_path,
                             .is_quiet = p->is_quiet },
        };
        /* The user's launcher is given the variable and obeys it. */
        if (p->launcher_socket_path)
                d->required_python = getenv("MCP_EXEC_PYTHON");
        if (d->required_python && !*d->required_python)
                d->required_python = NULL;

        r = tool_packages_scan(&d->packages);
        if (r < 0)
                /* Only descriptions get poorer. */
                (void) log_warning_errno(r, "Cannot list the installed Python packages");

        r = tool_interpreters_scan(p->settings, &d->interpreters);
        if (r < 0)
                return r;

        r = make_parts(d);
        if (r < 0)
                return r;

        *ret = TAKE_PTR(d);
        return 0;
}

Daemon* daemon_free(Daemon *d) {
        if (!d)
                return NULL;

        d->on_ready = NULL;
        (void) mcp_server_free(d->server);
        (void) tool_registry_free(d->registry);
        (void) run_table_free(d->runs);
        (void) python_free(d->python);
        (void) exec_engine_free(d->engine);
        (void) strv_free(d->packages);
        (void) strv_free(d->interpreters);
        free(d->state_directory);
        free(d);
        return NULL;
}

McpServer* daemon_server(const Daemon *d) {
        assert(d);
        return d->server;
}

ExecEngine* daemon_engine(const Daemon *d) {
        assert(d);
        return d->engine;
}

RunTable* daemon_runs(const Daemon *d) {
        assert(d);
        return d->runs;
}

Python* daemon_python(const Daemon *d) {
        assert(d);
        return d->python;
}
