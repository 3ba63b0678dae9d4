/* SPDX-License-Identifier: MIT */
#pragma once

/* The double of python/ for tools. */

#include "base/strv.h"
#include "python/python.h"

struct PythonQuery {
        void (*on_report)(const PythonReport *report, void *userdata);
        void (*on_known)(void *userdata);
        void *userdata;
};

struct Python {
        /* What attach and validate were given last. */
        char *text, *dependencies; /* joined by "|" */
        const char *python_version;
        unsigned n_attached, n_attached_default;
        struct PythonQuery query;
        PythonFacts facts;
        const PythonSet *sets;
        size_t n_sets;
        char removed[65];
        void (*on_removed)(int error, void *userdata);
        void *removed_userdata;
};

static void python_note(Python *p, const PythonScript *script) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

        ASSERT_EQ_INT(str_copy(&p->text, script->text), 0);
        ASSERT_EQ_UINT(strlen(script->text), script->text_bytes);
        ASSERT_EQ_INT(buffer_append_str(&b, ""), 0);
        STRV_FOREACH(s, script->dependencies)
                ASSERT_EQ_INT(buffer_printf(&b, "%s|", *s), 0);
        ASSERT_EQ_INT(str_copy(&p->dependencies, b.data), 0);
        p->python_version = script->python_version;
}

bool python_has_block(const char *text, size_t text_bytes) {
        ASSERT_EQ_UINT(strlen(text), text_bytes);
        return strncmp(text, "# /// script", strlen("# /// script")) == 0;
}

int python_attach(Python *p, ExecRequest *request, const PythonScript *script) {
        ASSERT_TRUE(request->code == script->text);
        python_note(p, script);
        p->n_attached++;
        return 0;
}

int python_validate(Python *p, const PythonScript *script, const char *principal,
                    void (*on_report)(const PythonReport *report, void *userdata), void *userdata,
                    PythonQuery **ret) {
        ASSERT_EQ_STR(principal, "uid:1");
        python_note(p, script);
        p->query = (struct PythonQuery){ .on_report = on_report, .userdata = userdata };
        *ret = &p->query;
        return 0;
}

int python_attach_default(Python *p, ExecRequest *request) {
        (void) request;
        p->n_attached_default++;
        return 0;
}

int python_ask_versions(Python *p, const char *principal, void (*on_known)(void *userdata), void *userdata,
                        PythonQuery **ret) {
        ASSERT_EQ_STR(principal, "uid:1");
        p->query = (struct PythonQuery){ .on_known = on_known, .userdata = userdata };
        *ret = &p->query;
        return 0;
}

void python_query_cancel(PythonQuery *q) {
        ASSERT_TRUE(q->on_report != NULL || q->on_known != NULL);
        *q = (struct PythonQuery){};
}

int python_foreach_set(Python *p, int (*visit)(const PythonSet *s, void *userdata), void *userdata) {
        int r = 0;

        for (size_t i = 0; i < p->n_sets && r == 0; i++)
                r = visit(p->sets + i, userdata);
        return r;
}

int python_remove_set(Python *p, const char *name, void (*on_done)(int error, void *userdata),
                      void *userdata) {
        ASSERT_TRUE(strlen(name) < sizeof(p->removed));
        memcpy(p->removed, name, strlen(name) + 1);
        p->on_removed = on_done;
        p->removed_userdata = userdata;
        return 0;
}

void python_facts(const Python *p, PythonFacts *ret) {
        *ret = p->facts;
}
