/* SPDX-License-Identifier: MIT */

/* Changes of sets of packages, which only the launcher can make. They wait for the launcher, and their
 * answers are told in the engine's update, as everything is. */

#include "exec/engine.h"

#include "base/strv.h"

struct SetChange {
        ExecEngine *engine;
        LauncherJob job;
        WireSetAction action;
        char environment[WIRE_SET_NAME_CHARS + 1], to[WIRE_SET_NAME_CHARS + 1];
        bool is_sent, is_done;
        int error;
        char *text;
        void (*on_done)(int error, const char *text, void *userdata);
        void *userdata;
        LIST_LINK(SetChange) changes;
};

static void set_change_end(SetChange *c, int error, const char *text) {
        c->is_done = true;
        c->error = error;
        if (error != 0)
                (void) str_copy(&c->text, text);
        engine_update_soon(c->engine);
}

static SetChange *set_change_of_job(LauncherJob *j) {
        return (SetChange *) ((char *) j - offsetof(SetChange, job));
}

static void set_change_on_message(LauncherJob *j, const WireMessage *m) {
        set_change_end(set_change_of_job(j), (int) m->set_done.error, m->set_done.text);
}

static void set_change_on_lost(LauncherJob *j) {
        set_change_end(set_change_of_job(j), ECONNRESET, "The launcher ended or lost its connection.");
}

static void set_change_free(SetChange *c) {
        launcher_client_forget(c->engine->client, &c->job);
        LIST_REMOVE(&c->engine->set_changes, changes, c);
        free(c->text);
        free(c);
}

int exec_engine_change_set(ExecEngine *e, WireSetAction action, const char *environment, const char *to,
                           void (*on_done)(int error, const char *text, void *userdata), void *userdata) {
        SetChange *c;

        assert(e);
        assert(environment && strlen(environment) == WIRE_SET_NAME_CHARS);
        assert((action == WIRE_SET_COMMIT) == (to != NULL));
        assert(!to || strlen(to) == WIRE_SET_NAME_CHARS);
        assert(on_done);

        c = calloc(1, sizeof(SetChange));
        if (!c)
                return -ENOMEM;

        c->engine = e;
        c->job.on_message = set_change_on_message;
        c->job.on_lost = set_change_on_lost;
        c->job.is_set_change = true;
        c->action = action;
        memcpy(c->environment, environment, sizeof(c->environment));
        if (to)
                memcpy(c->to, to, sizeof(c->to));
        c->on_done = on_done;
        c->userdata = userdata;
        LIST_APPEND(&e->set_changes, changes, c);
        engine_update_soon(e);
        return 0;
}

static bool has_unsent(const ExecEngine *e) {
        for (const SetChange *c = e->set_changes.first; c; c = c->changes.next)
                if (!c->is_sent && !c->is_done)
                        return true;
        return false;
}

static void send_all(ExecEngine *e) {
        for (SetChange *c = e->set_changes.first; c; c = c->changes.next) {
                if (c->is_sent || c->is_done)
                        continue;
                c->is_sent = true;
                if (launcher_client_set(e->client, &c->job, c->action, c->environment,
                                        c->action == WIRE_SET_COMMIT ? c->to : NULL) < 0)
                        set_change_end(c, ECONNRESET, "Nothing can be sent to the launcher.");
        }
}

void engine_update_set_changes(ExecEngine *e) {
        SetChange *c, *next;

        if (has_unsent(e) && engine_is_connected(e))
                send_all(e);

        /* A callback may ask for further changes, which come last. */
        for (c = e->set_changes.first; c; c = next) {
                _cleanup_free_ char *text = NULL;
                void (*on_done)(int error, const char *text, void *userdata) = c->on_done;
                void *userdata = c->userdata;
                int error = c->error;

                next = c->changes.next;
                if (!c->is_done)
                        continue;
                text = TAKE_PTR(c->text);
                set_change_free(c);
                on_done(error, text ?: "", userdata);
        }
}

void engine_fail_set_changes(ExecEngine *e, const char *why) {
        for (SetChange *c = e->set_changes.first; c; c = c->changes.next)
                if (!c->is_sent && !c->is_done)
                        set_change_end(c, ECONNRESET, why);
}

void engine_drop_set_changes(ExecEngine *e) {
        while (e->set_changes.first)
                set_change_free(e->set_changes.first);
}
